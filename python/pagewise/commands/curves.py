"""`pagewise curves`: TLB misses and page faults of a program over page sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from pagewise.commands.options import Json
from pagewise.reference_curves import (
    EXACT_FROM,
    PAGE_SIZES,
    Counts,
    PageSizeCurve,
    entries_of,
    frames_of,
    sizes_of,
)
from pagewise.reference_curves import curves as read_curves
from pagewise.terminal import figures, show, show_json, watched
from pagewise.units import format_count, format_size

EXAMPLES = (
    "pagewise curves ls.pwf --page-sizes 4KiB,16KiB,64KiB --frames 1MiB,4MiB",
    "pagewise curves ls.pwf --page-sizes 512,4096 --frames 64,128 --tlb 64,1536 --json",
)


def run(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A trace of references (.pwf), as `pagewise import --as refs` makes it; "
            "- is standard input.",
            show_default=False,
        ),
    ],
    frames: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Memories in frames, or as sizes such as 64MiB: as many pages as fit.",
            show_default=False,
        ),
    ],
    page_sizes: Annotated[
        str,
        typer.Option(
            metavar="SIZE[,SIZE...]",
            help="Page sizes, powers of two from 512 bytes to 2MiB.",
            show_default="all",
        ),
    ] = ",".join(map(str, PAGE_SIZES)),
    tlb: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Entries of fully associative TLBs.")
    ] = "64",
    second_tlb: Annotated[
        str,
        typer.Option(
            metavar="ENTRIESxWAYS[,...]",
            help="Set-associative TLBs behind a first one of 64 entries, as in 1536x12.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Count TLB misses and page faults for every page size, exactly, in one reading.

    LRU replacement; cold faults, first references to a page, are among the faults. A reference
    that crosses a page touches both. Exact from 64 frames or entries up; with fewer, a lower
    bound, shown with a +.
    """
    # What cannot be understood is refused before the trace is read.
    sizes = sizes_of(page_sizes)
    memories = {size: frames_of(frames, size) for size in sizes}
    entries = entries_of(tlb)
    with watched("counting") as progress:
        curves = read_curves(
            trace,
            page_sizes=sizes,
            second_tlb=second_tlb.split(",") if second_tlb else (),
            progress=progress,
        )
    if json:
        show_json(curves.as_dict(frames=frames, tlb=tlb))
        return
    columns = ["page", "pages", "cold"]
    columns += [f"faults in {memory}" for memory in frames.split(",")]
    columns += [f"TLB of {count} misses" for count in entries]
    columns += [f"and {shape}" for shape in second_tlb.split(",") if shape]
    show(
        f"{format_count(curves.references)} references, {format_count(curves.steps)} of them to "
        f"blocks of 512 bytes that were not among the {EXACT_FROM} used last",
        figures(
            columns, [row(curve, memories[size], entries) for size, curve in curves.sizes.items()]
        ),
    )


def row(curve: PageSizeCurve, frames: list[int], entries: list[int]) -> list[str]:
    """The counts of one page size."""
    return [
        format_size(curve.page_bytes),
        format_count(curve.pages),
        format_count(curve.cold),
        *(figure(count, curve.faults) for count in frames),
        *(figure(count, curve.tlb_misses) for count in entries),
        *map(format_count, curve.second_tlb_misses.values()),
    ]


def figure(size: int, misses: Callable[[int], Counts]) -> str:
    """The misses of one size; a lower bound ends in +, and memory that holds no page has none."""
    if size < 1:
        return "-"
    return format_count(int(misses(size))) + ("" if size >= EXACT_FROM else "+")
