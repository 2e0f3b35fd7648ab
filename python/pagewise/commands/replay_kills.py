"""`pagewise replay-kills`: which processes kill policies would have killed, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise import _core
from pagewise.commands import list_
from pagewise.commands.options import Json, name_values
from pagewise.errors import UsageError
from pagewise.kill_replay import killer_of, process_named, replay_kills
from pagewise.terminal import Part, figures, say, show, show_json, watched
from pagewise.units import format_count, format_counted, format_seconds, format_share, format_size

if TYPE_CHECKING:
    from pagewise.types import Decision, PolicyReplay, RecordedKill, ReplayKills

EXAMPLES = (
    "pagewise replay-kills busy.pgr --policy largest,lmkd",
    "pagewise replay-kills busy.pgr --policy minfree "
    "--option minfree.minfree_levels=9216:0,18432:800 --json",
)

POLICIES = ", ".join(row["name"] for row in list_.rows("kill-policies"))
OF_WATERMARKS = {
    "minfree": "minfree counts the kernel's reserves as free",
    "lmkd": "lmkd lacks its rule for low free memory",
}
"""How each policy differs without watermarks, which older recordings lack."""

AMPLE_SHARE = 0.1
"""With a larger share of memory available, the machine's memory is no reason for a kill."""
KILLS_SHOWN = 20


def run(
    recording: Annotated[
        str,
        typer.Argument(
            metavar="RECORDING",
            help="A recording of `pagewise-agent record --kills`.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(metavar="NAME[,NAME...]", help=f"Kill policies: {POLICIES}."),
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POLICY.NAME=VALUE",
            help="Set an option of a policy; see `pagewise list kill-policies --json`. May be "
            "given several times.",
        ),
    ] = None,
    freeze_share: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="A freeze is a time in which all tasks wait for memory at least this share of "
            "the time.",
        ),
    ] = 0.5,
    freeze_time: Annotated[
        str, typer.Option(metavar="TIME", help="Length of the shortest freeze.")
    ] = "1s",
    window: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="A decision is a false alarm if neither a freeze nor a kill follows within this "
            "time.",
        ),
    ] = "10s",
    kills: Annotated[
        str,
        typer.Option(
            metavar="serial|batch",
            help="Whether a killer waits for the memory of its victims before the next decision, "
            "or counts that memory as free and makes several decisions at once; `kills` in the "
            "settings of killd.",
        ),
    ] = "serial",
    json: Json = False,
) -> None:
    """Show which processes kill policies would have killed in a recording, when and why.

    The replay follows the recording, except that the memory of victims counts as free.
    """
    with watched("replaying") as progress:
        result = replay_kills(
            recording,
            policy=policy,
            options=by_policy(name_values(option)),
            freeze_share=freeze_share,
            freeze_time=freeze_time,
            window=window,
            kills=kills,
            progress=progress,
        )
    if result["is_cut"]:
        say(
            "pagewise: the recording has no end: the recorder was interrupted, or the file is "
            "damaged"
        )
    blind = [row["policy"] for row in result["policies"] if row["policy"] in OF_WATERMARKS]
    if blind and not result["has_watermarks"]:
        wrong = " and ".join(OF_WATERMARKS[name] for name in blind)
        say(f"pagewise: {recording} has neither watermarks nor the kernel's reserves: {wrong}")
    if not result["has_weights"]:
        say(
            f"pagewise: {recording} has no weights of processes, so shared memory counts in full "
            "for each process that shares it; to record weights, use `pagewise-agent record "
            f"--kills` of pagewise {_core.version()} or later"
        )
    if unknown := [row for row in result["policies"] if row["victims_unknown"]]:
        count = max(row["victims_unknown"] for row in unknown)
        victims = len({kill["process"] for kill in result["recorded"]})
        names = ", ".join(row["policy"] for row in unknown)
        say(
            f"pagewise: {format_count(count)} of {format_count(victims)} kills fall between two "
            f"recorded moments, so the recording does not show which process {names} would have "
            "killed then"
        )
    if json:
        show_json(result)
        return
    show(*summary(result))
    for replay in result["policies"]:
        show(*timeline(replay))


def by_policy(given: dict[str, str]) -> dict[str, dict[str, str]]:
    """Options by policy, from names such as minfree.minfree_levels."""
    options: dict[str, dict[str, str]] = {}
    for name, value in given.items():
        policy, dot, option = name.partition(".")
        if not dot:
            raise UsageError(
                f"--option {name}={value}: the name of the policy is missing",
                hint="write POLICY.NAME=VALUE, as in largest.memory_percent=15",
            )
        options.setdefault(policy, {})[option] = value
    return options


def summary(result: ReplayKills) -> list[Part]:
    """What was recorded, and what each policy would have done."""
    lowest = min(point["available_bytes"] for point in result["memory"])
    share = format_share(lowest / result["total_bytes"] if result["total_bytes"] else None)
    kernel = sum(freeze["is_kernel_kill"] for freeze in result["freezes"])
    rows = [
        [
            replay["policy"],
            format_count(len(replay["decisions"])),
            format_count(sum(len(decision["victims"]) for decision in replay["decisions"])),
            format_count(replay["false_alarms"]),
            format_count(replay["missed_freezes"]),
            recorded_victims(replay),
        ]
        for replay in result["policies"]
    ]
    columns = [
        "policy",
        "decisions",
        "victims",
        "false alarms",
        "missed freezes",
        "recorded victims named",
    ]
    return [
        f"{format_seconds(result['duration_s'])} in {format_count(result['moments'])} moments; "
        f"least available {format_size(lowest)}, {share} of {format_size(result['total_bytes'])}",
        f"{format_count(len(result['freezes']))} freezes, {format_count(kernel)} of them kills by "
        f"the kernel; processes killed: {format_count(len(result['recorded']))}",
        *recorded_kills(result["recorded"], result["total_bytes"]),
        "",
        figures(columns, rows),
    ]


def recorded_kills(kills: list[RecordedKill], total_bytes: int) -> list[Part]:
    """The first kills of the recording: when, whom, and by whom."""
    if not kills:
        return []
    rows = [
        [
            format_seconds(kill["time_s"]),
            process_named(kill["name"], kill["process"]),
            size_of(kill),
            "?" if kill["adj"] is None else str(kill["adj"]),
            "?" if (free := kill["available_bytes"]) is None else format_size(free),
            killer_of(kill) or "unknown",
        ]
        for kill in kills[:KILLS_SHOWN]
    ]
    more = len(kills) - len(rows)
    rest = [f"and {format_count(more)} more; --json has all"] if more else []
    columns = ["killed at", "victim", "memory", "adj", "available", "killer"]
    return ["", figures(columns, rows, words=2), *rest, *of_limits(kills, total_bytes)]


def size_of(kill: RecordedKill) -> str:
    """The memory and swap of a victim at the last recorded moment."""
    resident, swapped = kill["resident_bytes"], kill["swapped_bytes"]
    return "?" if resident is None or swapped is None else format_size(resident + swapped)


def of_limits(kills: list[RecordedKill], total_bytes: int) -> list[Part]:
    """A note on kills by the kernel while the machine had memory."""
    ample = [
        kill
        for kill in kills
        if kill["is_of_kernel"]
        and (available := kill["available_bytes"]) is not None
        and available > AMPLE_SHARE * total_bytes
    ]
    if not ample:
        return []
    return [
        f"The kernel killed {format_counted(len(ample), 'process')} while more than "
        f"{format_share(AMPLE_SHARE)} of memory was available: most likely at the limit of a "
        "memory cgroup. The kernel's log (`dmesg`) then has `Memory cgroup out of memory`."
    ]


def recorded_victims(replay: PolicyReplay) -> str:
    """How many of the recorded victims a policy would have killed too."""
    named, unknown = replay["victims_named"], replay["victims_unknown"]
    known = named + replay["victims_not_named"]
    words = f"{format_count(named)} of {format_count(known)}"
    return f"{words}, {format_count(unknown)} unknown" if unknown else words


def timeline(replay: PolicyReplay) -> list[Part]:
    """A policy's kills, and its reasons not to kill, in order of time."""
    rows = [decided(decision) for decision in replay["decisions"]]
    rows += [
        (reason["from_s"], [span(reason["from_s"], reason["to_s"]), "none", reason["why"], "", ""])
        for reason in replay["reasons"]
    ]
    lines = [line for _, line in sorted(rows, key=lambda row: row[0])]
    return ["", figures([replay["policy"], "dies", "why", "available", "recorded"], lines, words=3)]


def decided(decision: Decision) -> tuple[float, list[str]]:
    """The time of a decision, and its row."""
    victims = ", ".join(
        f"{victim['name']} ({victim['process']}, adj {victim['adj']}, "
        f"{format_size(victim['resident_bytes'] + victim['swapped_bytes'])})"
        for victim in decision["victims"]
    )
    words = [
        format_seconds(decision["time_s"]),
        victims,
        decision["why"],
        format_size(decision["available_bytes"]),
        decision["judgement"],
    ]
    return decision["time_s"], words


def span(from_s: float, to_s: float) -> str:
    """The time between two moments, in words."""
    return f"{format_seconds(from_s)} to {format_seconds(to_s)}"
