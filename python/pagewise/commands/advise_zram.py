"""`pagewise advise zram`: size and algorithm of a zram swap area from a machine's own pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Json, tell_losses
from pagewise.terminal import Part, facts, figures, pasted, say, show, show_json, watched
from pagewise.units import format_count, format_seconds, format_share, format_size

if TYPE_CHECKING:
    from pagewise.types import ZramCounts
    from pagewise.zram_answer import ZramAdvice, ZramCandidate

EXAMPLES = (
    "pagewise advise zram",
    "pagewise advise zram pages.json",
    "pagewise advise zram pages.json work.pgr --memory 1GiB",
)


def zram(
    pages: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAGES]",
            help="The output of `pagewise-agent pages --all --json`; default: root samples this "
            "machine.",
            show_default=False,
        ),
    ] = None,
    recording: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECORDING]",
            help="A recording of swap, to replay into each device.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory of the board, e.g. 1GiB; default: the sampled machine's."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="NUMBER", help="Seed of the sizes of recorded pages.", min=0)
    ] = 1,
    json: Json = False,
) -> None:
    """Recommend the size, the memory limit and the algorithm of zram from sampled pages.

    Prints no settings and exits with status 1 if the pages or the recording have too little
    evidence, or if zram gains nothing.
    """
    from pagewise.advice.zram import advise_zram

    with watched("replaying") as progress:
        advice = advise_zram(pages, recording, memory=memory, seed=seed, progress=progress)
    tell_losses(advice["losses"])
    if json:
        show_json(advice)
    else:
        show(*described(advice))
    for sentence in advice["warnings"]:
        say(f"warning: {sentence}")
    if advice["algorithm"] is None:
        raise typer.Exit(1)


def described(advice: ZramAdvice) -> list[Part]:
    """The advice as text and a table; without a size if the evidence is too little."""
    from pagewise.advice.zram import has_size

    found = advice["evidence"]
    rows = [("evidence", f"{found['verdict']}: {found['reason']}")]
    if found["remedy"]:
        rows.append(("  better advice" if has_size(found) else "  no settings", found["remedy"]))
    rows += [
        ("memory", format_size(advice["memory_bytes"])),
        ("anonymous memory", format_size(advice["anonymous_bytes"])),
        ("  of equal words", format_share(advice["same_filled_share"])),
    ]
    parts: list[Part] = [facts(rows)]
    if has_size(found):
        parts += ["", facts(headline(advice))]
    if advice["candidates"]:
        parts += [
            "",
            "Algorithms, the best first, those that the kernel lacks last:",
            table(advice["candidates"]),
        ]
    if advice["nothing"]:
        parts += ["", "The recorded traffic:", replays(advice, advice["nothing"])]
    parts += pasted(advice["settings"])
    return [*parts, "", *(f"note: {note}" for note in advice["notes"])]


def headline(advice: ZramAdvice) -> list[tuple[str, str]]:
    """What to take, and where it collapses."""
    chosen = next(
        (each for each in advice["candidates"] if each["algorithm"] == advice["algorithm"]), None
    )
    if chosen is None:
        return [("take", "no zram: the pages compress too little")]
    return [
        ("take", f"zram with {chosen['algorithm']}"),
        ("  disksize", format_size(chosen["disksize_bytes"])),
        ("  memory limit", format_size(chosen["limit_bytes"])),
        ("  gain when full", f"{format_size(chosen['gain_bytes'])} more than without zram"),
        ("collapse", f"beyond {format_size(chosen['collapse_bytes'])} of pages in zram"),
    ]


def table(candidates: list[ZramCandidate]) -> Part:
    """Each algorithm: what a page takes, CPU time, and what it gains."""
    names = ("algorithm", "takes", "us compress", "decompress", "per KiB gained", "gains", "kernel")
    rows = []
    for each in candidates:
        price, known = each["us_per_kib_gained"], each["is_in_kernel"]
        rows.append(
            (
                each["algorithm"],
                format_share(each["pool_share"]),
                f"{each['us_compress']:.1f}",
                f"{each['us_decompress']:.1f}",
                "-" if price is None else f"{price:.1f}",
                format_size(each["gain_bytes"]),
                "unknown" if known is None else "yes" if known else "no",
            )
        )
    return figures(names, rows)


def replays(advice: ZramAdvice, nothing: ZramCounts) -> Part:
    """What each device does with the recorded traffic, and what happens without one."""
    names = ("zram", "into zram", "out of it", "to the next area", "refused", "pool", "CPU")
    rows = [_replay("none", nothing, None)]
    for each in advice["candidates"]:
        if each["replay"]:
            rows.append(_replay(each["algorithm"], each["replay"], each["cpu_s"]))
    return figures(names, rows)


def _replay(name: str, counts: ZramCounts, cpu_s: float | None) -> tuple[str, ...]:
    return (
        name,
        format_count(counts["compressed"] + counts["same_filled"]),
        format_count(counts["decompressed"]),
        format_count(counts["slow_writes"]),
        format_count(counts["refused"]),
        format_size(counts["pool_bytes_max"]),
        "-" if cpu_s is None else format_seconds(cpu_s),
    )
