"""`pagewise curves`: TLB misses and page faults of a program by page size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from pagewise.commands.options import Json
from pagewise.models.page_size_curves import cut_note
from pagewise.policies import policies_in
from pagewise.reference_curves import (
    EXACT_FROM,
    PAGE_SIZES,
    Curves,
    PageSizeCurve,
    frames_of,
    sizes_of,
    texts,
    tlbs_of,
)
from pagewise.reference_curves import curves as read_curves
from pagewise.terminal import figures, say, show, show_json, watched
from pagewise.units import format_count, format_share, format_size

EXAMPLES = (
    "pagewise curves ls.pwf --page-sizes 4KiB,16KiB,64KiB --frames 1MiB,4MiB",
    "pagewise curves ls.pwf --page-sizes 512,4096 --frames 64,128 --tlb 64,1536 --json",
    "pagewise curves ls.pwf --frames 1MiB --policy clock,two-list --read-ahead 8",
    "pagewise curves ls.pwf --frames 1MiB --tlb 64x4 --second-tlb 1536x12 --huge-pages 64KiB",
)


def run(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A reference trace (.pwf) of `pagewise capture` or `pagewise import --as refs`; "
            "- is standard input.",
            show_default=False,
        ),
    ],
    frames: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Memory sizes: a number of frames, or bytes such as 64MiB.",
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
        str,
        typer.Option(
            metavar="N|ENTRIESxWAYS[,...]",
            help="First TLBs: N entries, fully associative, or ENTRIESxWAYS, such as 64x4.",
        ),
    ] = "64",
    second_tlb: Annotated[
        str,
        typer.Option(
            metavar="ENTRIESxWAYS[,...]",
            help="Set-associative TLBs behind the first TLB of --tlb, as in 1536x12.",
        ),
    ] = "",
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[:OPTION=VALUE][,...]",
            help="Also count faults under these policies; see `pagewise list policies`.",
        ),
    ] = "",
    read_ahead: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Also count faults with readahead in aligned windows of N pages.",
        ),
    ] = "",
    huge_pages: Annotated[
        str,
        typer.Option(
            metavar="SIZE[,SIZE...]",
            help="Also count the minor faults of a run with ample memory and transparent huge "
            "pages of these sizes; 4KiB is none.",
        ),
    ] = "",
    from_reference: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Count only references after the first N, which fill TLBs and memories; leaves "
            "out the start-up of a program.",
        ),
    ] = 0,
    json: Json = False,
) -> None:
    """Count TLB misses and page faults for every page size, exactly, in one pass.

    Replacement is LRU. Faults include the cold ones, which are first references to a page. A
    reference that crosses a page boundary counts for both pages. Counts are exact from 64 frames or
    entries up; below, they are lower bounds, marked with a +. So are those of a set-associative TLB
    with too few ways for the filter of the trace (see pagewise capture --filter).
    """
    # Bad options are refused before the trace is read, which may take minutes.
    sizes = sizes_of(page_sizes)
    memories = {size: frames_of(frames, size) for size in sizes}
    tlbs = tlbs_of(tlb)
    with watched("counting") as progress:
        curves = read_curves(
            trace,
            page_sizes=sizes,
            tlb=tlbs,
            second_tlb=named(second_tlb),
            policy=policies_in(policy) if policy else (),
            read_ahead=named(read_ahead),
            frames=frames,
            huge_pages=named(huge_pages),
            from_reference=from_reference,
            progress=progress,
        )
    if json:
        show_json(curves.as_dict(frames=frames, tlb=tlb))
        return
    for note in cut_note(curves):
        say(f"note: {note}")
    columns = ["page", "pages", "cold"]
    columns += [f"faults in {memory}" for memory in texts(frames)]
    columns += [f"TLB of {name} misses" for name in tlbs]
    columns += [f"and {shape}" for shape in named(second_tlb)]
    rows = [row(curves, curve, memories[size], tlbs) for size, curve in curves.sizes.items()]
    show(
        f"{format_count(curves.references)} references, {format_count(curves.steps)} of them to "
        f"blocks of 512 bytes that were not among the last {EXACT_FROM} used",
        figures(columns, rows),
    )
    lines = [line for curve in curves.sizes.values() for line in variants(curve)]
    if lines:
        show("", figures(["page", "frames", "instead of LRU", "faults", "of LRU"], lines, words=3))
    if huge_pages:
        show_minor_faults(curves)
    if policy:
        say(
            "note: policies other than LRU see only references that pass the filter, so their "
            "counts are close, not exact"
        )


def show_minor_faults(curves: Curves) -> None:
    """Prints the minor faults by what the memory is, or why they are unknown."""
    if curves.minor_faults is None:
        say("note: the trace has no mappings, so minor faults are not known; capture it again")
        return
    rows = [
        [
            format_size(size),
            *(format_count(count) for count in (of["heap"], of["anonymous"], of["file"])),
            format_count(of["heap"] + of["anonymous"] + of["file"]),
        ]
        for size, of in curves.minor_faults.items()
    ]
    columns = ["huge pages", "minor faults in the heap", "other anonymous", "files", "all"]
    show("", figures(columns, rows))


def row(curves: Curves, curve: PageSizeCurve, frames: list[int], tlbs: list[str]) -> list[str]:
    """The row of one page size."""
    return [
        format_size(curve.page_bytes),
        format_count(curve.pages),
        format_count(curve.cold),
        *(faults(curves, curve, count) for count in frames),
        *(
            format_count(curve.misses_of_tlb(tlb))
            + ("+" if curves.is_lower_bound(curve.page_bytes, tlb) else "")
            for tlb in tlbs
        ),
        *map(format_count, curve.second_tlb_misses.values()),
    ]


def variants(curve: PageSizeCurve) -> Iterator[list[str]]:
    """The faults of one page size under other policies and with read-ahead, beside LRU's."""
    counted = {
        (frames, policy): count
        for policy, counts in curve.policy_faults.items()
        for frames, count in counts.items()
    }
    counted |= {
        (frames, f"{window} pages at a time"): did.faults
        for window, counts in curve.read_ahead.items()
        for frames, did in counts.items()
    }
    for (frames, what), count in counted.items():
        share = format_share(count / int(curve.faults(frames)))
        name = [format_size(curve.page_bytes), format_count(frames), what]
        yield [*name, format_count(count), share]


def named(words: str) -> list[str]:
    """The comma-separated words, each once; an empty text has none."""
    return texts(words) if words else []


def faults(curves: Curves, curve: PageSizeCurve, frames: int) -> str:
    """The faults of one memory: with a + if a lower bound, ``-`` if no page fits."""
    if frames < 1:
        return "-"
    return format_count(int(curve.faults(frames))) + ("" if frames >= curves.exact_from else "+")
