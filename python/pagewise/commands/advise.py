"""`pagewise advise`: the settings to use, the evidence for them, and how to undo them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.advice.evidence import ENOUGH, NOT_SWAP
from pagewise.advice.served import runs
from pagewise.commands import advise_zram, pagesize_choose
from pagewise.commands.help import Group
from pagewise.commands.machine import taken
from pagewise.commands.options import (
    As,
    Format,
    Json,
    Map,
    PageSize,
    TracePath,
    epilog,
    opened,
    tell_losses,
    tell_unchecked,
)
from pagewise.terminal import Part, facts, figures, pasted, say, show, show_json, watched
from pagewise.units import (
    format_count,
    format_percent,
    format_range,
    format_seconds,
    format_share,
    format_size,
    format_years,
)

if TYPE_CHECKING:
    from pagewise.answers import Advice, Moved, Spread, TakenMemory, Today

EXAMPLES = (
    "pagewise advise swap work.pgr",
    "pagewise advise swap examples/phone-1g-long/phone-1g-long.pgr --fast zram-lz4 "
    "--slow ufs-3.1 --memory 1GiB",
    "pagewise advise swap trace.parquet --fast 4/5us --slow 90/40us --reference 3.9GiB",
)
SIZES_SHOWN = 7
"""How many columns of sizes fit 80 characters."""

app = typer.Typer(
    cls=Group,
    help="Print the settings to use, the evidence for them, and how to undo them.",
    epilog=epilog(EXAMPLES[1:2]),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Print the settings to use, the evidence for them, and how to undo them."""


@app.command("swap", epilog=epilog(EXAMPLES))
def swap(
    trace: TracePath,
    fast: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name from `pagewise devices`, or READ/WRITE times such as 4/5us; "
            "default: the recorded machine's zram.",
        ),
    ] = None,
    slow: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Slow device, e.g. ufs-3.1 or 90/40us; default: the recorded machine's swap disk, "
            "or else its root disk.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="RESULT|SIZE",
            help="Target for the I/O of the slow tier: the run folder or recording of a run "
            "without swap, a simulate --json result, or a size such as 4GiB.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of the board, e.g. 1GiB. The advice then shows which share of it a fast "
            "tier in memory (zram) takes, and takes at most half; default: the recorded machine's.",
        ),
    ] = None,
    compression: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO",
            help="Compression ratio of a fast tier in memory, e.g. 2.5; default: the ratio of the "
            "recorded machine's zram, or else the figure of the device.",
        ),
    ] = None,
    page_size: PageSize = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Recommend a swap architecture and its size, with its gain, its wear and its settings.

    Prints no settings and exits with status 1 if the recording has too little evidence for a size.
    """
    from pagewise.advice.swap import PARTS, advise_swap

    source = opened(trace, format, as_, map_)
    with watched("advising", counted="cells", parts=PARTS) as progress:
        advice = advise_swap(
            source,
            fast=fast,
            slow=slow,
            reference=reference,
            memory=memory,
            compression=compression,
            page_size=page_size,
            refuses=not json,
            progress=progress,
        )
    tell_losses(advice["losses"])
    if reference is not None:
        tell_unchecked(reference)
    for default in advice["defaults"]:
        say(taken(default))
    if json:
        show_json(advice)
    else:
        show(*described(advice))
    # The verdict comes first: it says whether they matter.
    for sentence in advice["warnings"]:
        say(f"warning: {sentence}")
    if advice["evidence"]["verdict"] != ENOUGH:
        raise typer.Exit(1)


app.command("zram", epilog=epilog(advise_zram.EXAMPLES))(advise_zram.zram)
app.command("pagesize", epilog=epilog(pagesize_choose.ADVISE_EXAMPLES))(pagesize_choose.choose)


def described(advice: Advice) -> list[Part]:
    """The advice as text and tables; without a size if the evidence is too little."""
    parts: list[Part] = [facts([*evidence(advice), *alone(advice)])]
    verdict = advice["evidence"]["verdict"]
    if verdict == ENOUGH:
        parts += ["", facts(headline(advice))]
    if larger := larger_pages(advice):
        parts += ["", facts(larger)]
    if verdict != NOT_SWAP:
        shown = f"I/O time by size of the fast tier, share of {advice['slow']['name']} only:"
        parts += ["", shown, curves(advice)]
    parts += pasted(advice["settings"])
    notes = [f"note: {note}" for note in advice["notes"]]
    return [*parts, *([""] if notes else []), *notes]


def evidence(advice: Advice) -> list[tuple[str, str]]:
    """Whether there is evidence for a size, what to do if not, and the idle gaps left out."""
    found = advice["evidence"]
    rows = [("evidence", f"{found['verdict']}: {found['reason']}")]
    if found["remedy"]:
        rows.append(("  no settings", found["remedy"]))
    if gaps := found["gaps"]:
        idle_s = sum(gap["to_s"] - gap["from_s"] for gap in gaps)
        left_out = f"{format_count(len(gaps))}, {format_seconds(idle_s)} in all, left out of times"
        rows.append(("  idle gaps", left_out))
    return rows


def alone(advice: Advice) -> list[tuple[str, str]]:
    """Footprint, I/O time and wear without a fast tier."""
    figures = advice["alone"]
    return [
        ("pages recorded", format_size(advice["footprint_bytes"])),
        (f"{advice['slow']['name']} only", format_range(figures["io_time_s"], format_seconds)),
        *strain(advice["slow"]["name"], figures["busy_slow"], figures["life_slow_years"]),
    ]


def headline(advice: Advice) -> list[tuple[str, str]]:
    """The best architecture on stock Linux, and the best of all at the same size."""
    today = advice["today"]
    if today is None:
        nothing = "no fast tier: no size that stock Linux can use saves I/O time"
        return [("take", nothing), *best(advice), *reached(advice)]
    taken = f"{today['architecture']}, by {today['by']}"
    return [("take", taken), *cost(advice, today), *best(advice), *reached(advice)]


def best(advice: Advice) -> list[tuple[str, str]]:
    """The architecture with the least I/O time at the chosen size, and whether it can run."""
    found, today = advice["best"], advice["today"]
    if found is None:
        return []
    size = format_size(found["fast_tier_bytes"])
    if today and found["architecture"] == today["architecture"]:
        return [("best at this size", "the same")]
    share = format_range(found["io_share"], format_share)
    return [
        (f"best at {size}", f"{found['architecture']}, {runs(found)}"),
        ("  relative to flash-only", share),
    ]


def cost(advice: Advice, chosen: Today) -> list[tuple[str, str]]:
    """Size, time, memory and wear of the chosen architecture."""
    cheaper = chosen["next_cheaper"]
    smaller = cheaper["fast_tier_bytes"]
    return [
        ("  fast tier", f"{format_size(chosen['fast_tier_bytes'])}{spread(advice)}"),
        *memory_rows(chosen["memory"]),
        ("  I/O time", format_range(chosen["io_time_s"], format_seconds)),
        ("  relative to flash-only", format_range(chosen["io_share"], format_share)),
        *strain(advice["fast"]["name"], None, chosen["life_fast_years"]),
        *strain(advice["slow"]["name"], chosen["busy_slow"], chosen["life_slow_years"]),
        (
            "  next cheaper",
            f"{smaller_choice(chosen) if smaller else 'no fast tier'}: "
            f"{format_range(cheaper['regret'], format_percent)} more I/O time",
        ),
    ]


def smaller_choice(chosen: Today) -> str:
    """The next cheaper choice: its size and, if that is another, its architecture."""
    cheaper = chosen["next_cheaper"]
    size, name = format_size(cheaper["fast_tier_bytes"]), cheaper["architecture"]
    return size if name == chosen["architecture"] else f"{size} of {name}"


def spread(advice: Advice) -> str:
    """The range of the size, if the evidence is enough."""
    found = advice["evidence"]
    low, high = found["range"]["low_bytes"], found["range"]["high_bytes"]
    if found["verdict"] != ENOUGH or low == high:
        return ""
    return f" ({format_size(low) if low else 'none'} to {format_size(high or 0)})"


def memory_rows(memory: TakenMemory | None) -> list[tuple[str, str]]:
    """The memory that a tier in memory takes, and its gain if that memory was in use."""
    if memory is None:
        return []
    taken = f"up to {format_range(memory['taken_bytes'], format_size)}"
    if share := memory["share_of_board"]:
        taken += f", {format_range(share, format_share)} of the board's memory"
    rows = [("  memory it takes", taken)]
    if in_use := memory["io_share_in_use"]:
        rows.append(
            (
                "  if all memory was in use",
                f"the tier holds {format_size(memory['net_bytes'])} more than it takes; "
                f"I/O time becomes {format_range(in_use, format_share)}",
            )
        )
    return rows


def strain(name: str, busy: Spread | None, years: Spread | None) -> list[tuple[str, str]]:
    """How busy a device is and how long it lives, without the figures that are unknown."""
    rows = []
    if busy:
        rows.append((f"  {name} busy", f"{format_range(busy, format_percent)} of the time"))
    if years:
        rows.append((f"  life of {name}", f"{format_range(years, format_years)}"))
    return rows


def larger_pages(advice: Advice) -> list[tuple[str, str]]:
    """The cost of larger pages and of 4 KiB, without a fast tier and with the chosen one."""
    recorded = advice.get("at_4_kib")
    if recorded is None:
        return []
    slow, alone, today = advice["slow"]["name"], advice["alone"], advice["today"]
    without: Moved = {"io_time_s": alone["io_time_s"], "slow_bytes": alone["io_bytes"]}
    pairs = [(f"{slow} only", recorded["alone"], without)]
    if today and recorded["today"] and advice["evidence"]["verdict"] == ENOUGH:
        taken: Moved = {"io_time_s": today["io_time_s"], "slow_bytes": today["slow_bytes"]}
        pairs.append((today["architecture"], recorded["today"], taken))
    rows = [(f"pages of {format_size(advice['page_bytes'])}", "instead of 4 KiB:")]
    for name, small, large in pairs:
        costs = (large, small)
        times = (format_range(cost["io_time_s"], format_seconds) for cost in costs)
        moved = (format_size(cost["slow_bytes"]) for cost in costs)
        rows.append((f"  {name}", f"{' instead of '.join(times)} of I/O time"))
        rows.append(("", f"{' instead of '.join(moved)} moved by {slow}"))
    return rows


def reached(advice: Advice) -> list[tuple[str, str]]:
    """The size that reaches the reference, or the least I/O of any size if none does."""
    reference = advice["reference"]
    if reference is None:
        return []
    size, what = reference["fast_tier_bytes"], reference["what"]
    if size is None:
        least = format_size(reference["lowest_io_bytes"])
        text = f"no size is enough; the least is {least} ({what})"
    else:
        text = f"{'no fast tier' if size == 0 else format_size(size)} ({what})"
    return [(f"  to reach {format_size(reference['io_bytes'])}", text)]


def curves(advice: Advice) -> Part:
    """I/O time by architecture and size, as a share of the time without a fast tier.

    Many sizes are thinned out, but the largest and the recommended size always stay.
    """
    sizes = [row["fast_tier_bytes"] for row in advice["candidates"][0]["sizes"]]
    step = max(1, -(-len(sizes) // (SIZES_SHOWN - 1)))
    taken = advice["today"] and advice["today"]["fast_tier_bytes"]
    last = len(sizes) - 1
    shown = [
        index for index, size in enumerate(sizes) if (last - index) % step == 0 or size == taken
    ]
    return figures(
        ["", *(format_size(sizes[index]) for index in shown)],
        [
            [
                candidate["architecture"],
                *(format_percent(candidate["sizes"][index]["io_share"]) for index in shown),
            ]
            for candidate in advice["candidates"]
        ],
    )
