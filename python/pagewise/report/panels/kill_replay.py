"""Kill policies replayed on a recording: memory over time, decisions, and the candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pagewise.kill_replay import killer_of
from pagewise.report.inputs import Inputs, NamedReplay
from pagewise.report.model import (
    Axis,
    Chart,
    Column,
    Finding,
    Panel,
    Series,
    Table,
    TableCell,
    View,
)
from pagewise.units import format_count, format_counted, format_size

if TYPE_CHECKING:
    from pagewise.types import Decision, PolicyReplay, Victim

PANEL = "kill-replay"

DECISION_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("time_s", "time", "seconds"),
    Column("place", "place"),
    Column("process", "process", "count"),
    Column("name", "name"),
    Column("adj", "adj", "count"),
    Column("bytes", "memory and swap", "bytes"),
    Column("why", "why"),
    Column("judgement", "as recorded"),
)
REASON_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("from_s", "from", "seconds"),
    Column("to_s", "to", "seconds"),
    Column("why", "why no kill"),
)
KILL_COLUMNS = (
    Column("recording", "recording"),
    Column("time_s", "time", "seconds"),
    Column("process", "process", "count"),
    Column("name", "name"),
    Column("killer", "killer"),
)
TOTAL_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("decisions", "decisions", "count"),
    Column("false_alarms", "false alarms", "count"),
    Column("missed_freezes", "missed freezes", "count"),
    Column("freezes", "freezes", "count"),
)


def panel(inputs: Inputs) -> Panel | None:
    """A chart with one view per recording; None without replays."""
    replays = inputs.kill_replays
    if not replays:
        return None
    chart = Chart(
        "kill-replay-memory",
        "Available memory as recorded, and what each policy would have killed",
        Axis("time", "seconds"),
        Axis("available", "bytes", low=0),
        [View(replay["name"], series(replay)) for replay in replays],
        "scatter",
    )
    tables = [
        Table(PANEL, "Policies", TOTAL_COLUMNS, rows(replays, totals), True),
        Table("kill-replay-decisions", "Decisions", DECISION_COLUMNS, rows(replays, decisions)),
        Table("kill-replay-reasons", "Why not", REASON_COLUMNS, rows(replays, reasons)),
    ]
    if kills := recorded_kills(replays):
        tables.append(Table("kill-replay-recorded", "Recorded kills", KILL_COLUMNS, kills))
    notes = [
        "The replay follows the recording, except that the memory of victims counts as free; "
        "stalls are as recorded."
    ]
    title = "Would this killer have fired"
    return Panel(PANEL, title, finding(replays[-1]), [chart], tables, notes)


def series(replay: NamedReplay) -> list[Series]:
    """Memory as a line, and each decision as a point at the available memory it saw."""
    memory = [(point["time_s"], point["available_bytes"]) for point in replay["memory"]]
    return [
        Series("available", memory, is_reference=True, is_line=True),
        *(
            Series(
                replayed["policy"],
                [(made["time_s"], made["available_bytes"]) for made in replayed["decisions"]],
                [label(made) for made in replayed["decisions"]],
            )
            for replayed in replay["policies"]
            if replayed["decisions"]
        ),
    ]


def label(decision: Decision) -> str:
    """The victims, the reason, and the next candidates."""
    dying = ", ".join(named(candidate) for candidate in decision["victims"])
    others = ", ".join(named(candidate) for candidate in decision["spared"])
    return f"{dying} dies: {decision['why']}" + (f"; next {others}" if others else "")


def named(candidate: Victim) -> str:
    """A candidate in a few words."""
    size = format_size(candidate["resident_bytes"] + candidate["swapped_bytes"])
    return f"{candidate['name']} ({size}, adj {candidate['adj']})"


def rows(
    replays: Sequence[NamedReplay],
    of: Callable[[NamedReplay, PolicyReplay], list[Sequence[TableCell]]],
) -> list[Sequence[TableCell]]:
    """Rows of every policy of every recording."""
    return [
        (replay["name"], policy["policy"], *line)
        for replay in replays
        for policy in replay["policies"]
        for line in of(replay, policy)
    ]


def totals(replay: NamedReplay, policy: PolicyReplay) -> list[Sequence[TableCell]]:
    """The number of decisions and of wrong ones."""
    counts = (len(policy["decisions"]), policy["false_alarms"], policy["missed_freezes"])
    return [(*counts, len(replay["freezes"]))]


def decisions(_replay: NamedReplay, policy: PolicyReplay) -> list[Sequence[TableCell]]:
    """A row for each victim, and for each candidate next in the ranking."""
    return [
        (
            made["time_s"],
            place,
            candidate["process"],
            candidate["name"],
            candidate["adj"],
            candidate["resident_bytes"] + candidate["swapped_bytes"],
            made["why"],
            made["judgement"],
        )
        for made in policy["decisions"]
        for place, candidates in (("dies", made["victims"]), ("next", made["spared"]))
        for candidate in candidates
    ]


def reasons(_replay: NamedReplay, policy: PolicyReplay) -> list[Sequence[TableCell]]:
    """Each reason not to kill, with the time it lasted."""
    return [(reason["from_s"], reason["to_s"], reason["why"]) for reason in policy["reasons"]]


def recorded_kills(replays: Sequence[NamedReplay]) -> list[Sequence[TableCell]]:
    """A row for each kill of each recording."""
    return [
        (replay["name"], kill["time_s"], kill["process"], kill.get("name"), killer_of(kill))
        for replay in replays
        for kill in replay.get("recorded") or []
    ]


def verdicts(inputs: Inputs) -> Iterator[Finding]:
    """For each recording, the policies that were wrong least often."""
    for replay in inputs.kill_replays:
        policies = replay["policies"]
        counts = grouped((p["policy"], p["false_alarms"] + p["missed_freezes"]) for p in policies)
        if not counts:
            continue
        count, names = min(counts.items())
        rest = f", the fewest of {format_count(len(policies))} policies" if len(counts) > 1 else ""
        yield Finding(
            format_counted(count, "wrong decision") if count else "no wrong decision",
            f"by {names} on {replay['name']}{rest}.",
            "A false alarm and a missed freeze are wrong decisions",
            PANEL,
        )


def finding(replay: NamedReplay) -> str:
    """How often each policy would have killed, then how often each would have been wrong."""
    policies = replay["policies"]
    freezes = format_counted(len(replay["freezes"]), "freeze") if replay["freezes"] else "no freeze"
    killed = grouped((policy["policy"], len(policy["decisions"])) for policy in policies)
    kills = [
        f"{names} {format_counted(count, 'time') if count else 'never'}"
        for count, names in killed.items()
    ]
    wrong = [
        f"{what} {'; '.join(each_of(names, count) for count, names in counted.items() if count)}"
        for what, counted in (
            ("False alarms:", grouped((each["policy"], each["false_alarms"]) for each in policies)),
            ("Missed freezes:", grouped((p["policy"], p["missed_freezes"]) for p in policies)),
        )
        if any(counted)
    ] or ["No policy raised a false alarm or missed a freeze"]
    return f"{replay['name']} has {freezes}. Kills: {'; '.join(kills)}. {'. '.join(wrong)}."


def each_of(names: str, count: int) -> str:
    """The count of each of these policies."""
    return f"{names} {count}{' each' if ' and ' in names else ''}"


def grouped(counts: Iterable[tuple[str, int]]) -> dict[int, str]:
    """The policies with each count, in words, in the order given."""
    names: dict[int, list[str]] = {}
    for policy, count in counts:
        names.setdefault(count, []).append(policy)
    return {
        count: " and ".join(filter(None, [", ".join(policies[:-1]), policies[-1]]))
        for count, policies in names.items()
    }
