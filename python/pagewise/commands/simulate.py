"""`pagewise simulate`: what one swap architecture costs on a recording."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagewise import questions
from pagewise.commands.options import As, Format, Json, Map, Options, TracePath, name_values, opened
from pagewise.terminal import facts, figures, show, show_json, watched
from pagewise.units import format_count, format_seconds, format_share, format_size, parse_size

EXAMPLES = (
    "pagewise simulate trace.parquet --architecture adaptive --fast-tier 256MiB "
    "--fast zram-lz4 --slow ufs-3.1",
    "pagewise simulate trace.parquet --architecture hybrid --option entry_bit=0 --fast-tier 64MiB "
    "--fast 4/5us --slow 90/40us",
)


def run(
    trace: TracePath,
    architecture: Annotated[
        str,
        typer.Option(metavar="NAME", help="Swap architecture; see `pagewise list architectures`."),
    ],
    fast_tier: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of the fast tier, e.g. 256MiB; 0 is none.")
    ],
    fast: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name of `pagewise devices`, or READ/WRITE times as 4/5us.",
        ),
    ],
    slow: Annotated[
        str, typer.Option(metavar="DEVICE", help="Slow device, likewise, e.g. ufs-3.1 or 90/40us.")
    ],
    option: Options = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="faithful|practical",
            help="Set all choices as the paper has them, or as a device would.",
        ),
    ] = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Replay a recording on two tiers of swap and count reads, writes, time and wear.

    Counts are pages of 4 KiB; wear is the share of the rated life used per day.
    """
    source = opened(trace, format, as_, map_)
    with watched("simulating") as progress:
        result = questions.simulate(
            source,
            architecture=architecture,
            fast_tier=fast_tier,
            option=name_values(option),
            profile=profile,
            fast=fast,
            slow=slow,
            progress=progress,
        )
    if json:
        show_json(result)
        return
    with watched("flash only") as progress:
        alone = questions.simulate(
            source, architecture="flash", fast_tier=0, fast=fast, slow=slow, progress=progress
        )
    show(*described(result, alone, parse_size(fast_tier)))


def described(result: dict[str, Any], alone: dict[str, Any], fast_tier_bytes: int) -> list[Any]:
    """The outcome as tables, beside the slow device alone."""
    tiers = [
        [
            tier,
            format_count(result[tier]["reads"]),
            format_count(result[tier]["writes"]),
            wear(result, tier),
        ]
        for tier in ("fast", "slow")
    ]
    tiers.append(
        [
            "slow device alone",
            format_count(alone["slow"]["reads"]),
            format_count(alone["slow"]["writes"]),
            wear(alone, "slow"),
        ]
    )
    return [
        f"{result['architecture']}, fast tier {format_size(fast_tier_bytes)}",
        "",
        figures(["tier", "reads", "writes", "wear per day"], tiers),
        "",
        facts(
            [
                (
                    "promotions, demotions",
                    f"{format_count(result['promotions'])}, {format_count(result['demotions'])}",
                ),
                ("I/O time", beside(result["io_time_s"], alone["io_time_s"])),
                ("stall time", beside(result["stall_time_s"], alone["stall_time_s"])),
                *[("option", f"{name}={value}") for name, value in result["options"].items()],
                *[("note", note) for note in result.get("notes", [])],
            ]
        ),
    ]


def wear(result: dict[str, Any], tier: str) -> str:
    """Share of the rated life used per day, or why it is not known."""
    value = (result.get("wear") or {}).get(tier)
    return "unknown" if value is None else f"{value:.2g}"


def beside(seconds: float, alone_seconds: float) -> str:
    """A time, and what share it is of the slow device's alone."""
    share = seconds / alone_seconds if alone_seconds else None
    return f"{format_seconds(seconds)}, {format_share(share)} of the slow device alone"
