"""`pagewise advise`: what to set, with the evidence and the way back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagewise.commands import advise_pagesize
from pagewise.commands.options import (
    As,
    Format,
    Json,
    Map,
    TracePath,
    epilog,
    opened,
    tell_losses,
)
from pagewise.terminal import facts, figures, pasted, say, show, show_json, watched
from pagewise.units import (
    format_percent,
    format_range,
    format_seconds,
    format_share,
    format_size,
    format_years,
)

EXAMPLES = (
    "pagewise advise swap examples/phone-1g/phone-1g.pgw.zst --fast zram-lz4 --slow ufs-3.1 "
    "--memory 1GiB",
    "pagewise advise swap trace.parquet --fast 4/5us --slow 90/40us --reference 3.9GiB",
)
SIZES_SHOWN = 7
"""Columns of sizes that fit 80 characters."""

app = typer.Typer(
    help="Say what to set, with the evidence and the way back.",
    epilog=epilog(EXAMPLES[:1]),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Say what to set, with the evidence and the way back."""


@app.command("swap", epilog=epilog(EXAMPLES))
def swap(
    trace: TracePath,
    fast: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name of `pagewise devices`, or READ/WRITE as 4/5us.",
        ),
    ],
    slow: Annotated[
        str, typer.Option(metavar="DEVICE", help="Slow device, likewise, e.g. ufs-3.1 or 90/40us.")
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="RESULT|SIZE",
            help="What the slow tier's I/O should come down to: the run folder or recording of "
            "a run without swap, a simulate --json result, or a size as 4GiB.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="All memory of the board, as 1GiB: what a fast tier in memory (zram) takes of it "
            "is then told, and limited to half.",
        ),
    ] = None,
    compression: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO",
            help="Bytes of pages per byte of memory of a fast tier in memory, as 2.5; default: the "
            "device's own figure.",
        ),
    ] = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Say which swap architecture to take, how large, what it gains and wears, how to set it."""
    from pagewise.advice.swap import PARTS, advise_swap

    with watched("advising", counted="cells", parts=PARTS) as progress:
        advice = advise_swap(
            opened(trace, format, as_, map_),
            fast=fast,
            slow=slow,
            reference=reference,
            memory=memory,
            compression=compression,
            progress=progress,
        )
    tell_losses(advice)
    for sentence in advice["warnings"]:
        say(f"warning: {sentence}")
    if json:
        show_json(advice)
    else:
        show(*described(advice))


app.command("pagesize", epilog=epilog(advise_pagesize.EXAMPLES))(advise_pagesize.pagesize)


def described(advice: dict[str, Any]) -> list[Any]:
    """The advice as text and tables."""
    parts: list[Any] = [
        facts(alone(advice)),
        *(part for choice in choices(advice) for part in ("", choice)),
        "",
        f"I/O time by size of the fast tier, share of {advice['slow']['name']} alone:",
        curves(advice),
    ]
    parts += pasted(advice["settings"])
    return [*parts, *(f"note: {note}" for note in advice["notes"])]


def alone(advice: dict[str, Any]) -> list[tuple[str, str]]:
    """What the slow device does without a fast tier."""
    figures = advice["alone"]
    return [
        ("pages recorded", format_size(advice["footprint_bytes"])),
        (f"{advice['slow']['name']} alone", format_range(figures["io_time_s"], format_seconds)),
        *strain(advice, figures, "slow"),
    ]


def choices(advice: dict[str, Any]) -> list[Any]:
    """The best of all, and the best that stock Linux has; one where they are the same."""
    architecture, worth, today = advice["architecture"], advice["worth"], advice["today"]
    holds = architecture["holds_in"]
    best = (
        f"{architecture['name']}, lowest I/O time in {holds['combinations']} of {holds['of']} "
        "latency combinations"
    )
    nothing = "none worth its price: no size saves I/O time on this recording"
    if today and today["architecture"] == architecture["name"]:
        rows = [("take", best), ("on stock Linux", today["by"]), *cost(advice, worth)]
        return [facts([*rows, *reached(advice)])]
    rows = [("best of all", best), *(cost(advice, worth) if worth else [("fast tier", nothing)])]
    if architecture["stock_linux"] is None:
        rows.insert(1, ("on stock Linux", "not available; needs the pager of a later pagewise"))
    parts = [facts([*rows, *reached(advice)])]
    if today is None:
        return [*parts, facts([("on stock Linux", f"fast tier {nothing}")])]
    taken = f"{today['architecture']}, by {today['by']}"
    return [*parts, facts([("on stock Linux today", taken), *cost(advice, today)])]


def cost(advice: dict[str, Any], chosen: dict[str, Any]) -> list[tuple[str, str]]:
    """Size, time, memory and wear of a choice."""
    cheaper = chosen["next_cheaper"]
    smaller = cheaper["fast_tier_bytes"]
    return [
        ("  fast tier", format_size(chosen["fast_tier_bytes"])),
        *memory_rows(chosen["memory"]),
        ("  I/O time", format_range(chosen["io_time_s"], format_seconds)),
        ("  of the slow device alone", format_range(chosen["io_share"], format_share)),
        *strain(advice, chosen, "fast"),
        *strain(advice, chosen, "slow"),
        (
            "  next cheaper",
            f"{format_size(smaller) if smaller else 'no fast tier'}: "
            f"{format_range(cheaper['regret'], format_percent)} more I/O time",
        ),
        *better(chosen["stock_linux"]),
    ]


def better(stock: dict[str, Any]) -> list[tuple[str, str]]:
    """What stock Linux has that takes less at this size; the choice takes least over all sizes."""
    regret = stock["regret"]
    if regret["typical"] >= 0:
        return []
    gain = {"low": -regret["high"], "typical": -regret["typical"], "high": -regret["low"]}
    saved = f"{stock['architecture']}: {format_range(gain, format_percent)} less I/O time"
    return [("  better at this size", saved)]


def memory_rows(memory: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What a tier in memory takes, and what it gains if that memory was in use."""
    if memory is None:
        return []
    taken = f"up to {format_range(memory['taken_bytes'], format_size)}"
    if share := memory["share_of_board"]:
        taken += f", {format_range(share, format_share)} of the board's memory"
    rows = [("  memory it takes", taken)]
    if in_use := memory["io_share_in_use"]:
        rows.append(
            (
                "  if that was in use",
                f"holds {format_size(memory['net_bytes'])} beyond it; I/O time is "
                f"{format_range(in_use, format_share)} then",
            )
        )
    return rows


def strain(advice: dict[str, Any], chosen: dict[str, Any], tier: str) -> list[tuple[str, str]]:
    """How busy a device is, and how long it lives; nothing for what is not known."""
    name, rows = advice[tier]["name"], []
    if (busy := chosen[f"busy_{tier}"]) and tier == "slow":
        rows.append((f"  {name} busy", f"{format_range(busy, format_percent)} of the time"))
    if years := chosen[f"life_{tier}_years"]:
        rows.append((f"  life of {name}", f"{format_range(years, format_years)}"))
    return rows


def reached(advice: dict[str, Any]) -> list[tuple[str, str]]:
    """The size that reaches the reference, or how close the largest comes."""
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


def curves(advice: dict[str, Any]) -> Any:
    """I/O time as a share of the slow device's alone, by architecture and size."""
    sizes = [row["fast_tier_bytes"] for row in advice["candidates"][0]["sizes"]]
    step = max(1, -(-len(sizes) // SIZES_SHOWN))
    shown = range(len(sizes) - 1, -1, -step)[::-1]
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
