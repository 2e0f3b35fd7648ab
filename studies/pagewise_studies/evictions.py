"""How often pages leave memory, which decides what a cache can do that admits a page at its second
eviction (S0.4).

A clean anonymous page whose swap copy is still valid leaves memory without an event. It shows when
the page is swapped in twice in a row after it was swapped out. A page that several processes map is
swapped out once, under one of them, and in by each, so swap-ins without a swap-out of the same
process show nothing. File pages always leave with an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from pagewise import _core
from pagewise.recording import CLASSES, Progress, Trace, read
from pagewise_studies.table import Row, Table

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

OUT_KINDS = ("swap_out", "evict")
IN_KINDS = ("swap_in", "request")
FILE, ZEROS = 2, 128
"""Bits of an event's flags; the class of its page is in bits 4 to 6 (docs/trace-file.md)."""
SECOND = 2
"""The eviction from which on S0's cache admits a page."""
ALL = "all"
KINDS = (*(name.replace("_", " ") for name in CLASSES), "file", "anonymous")
"""Kinds of pages: the classes, and what is known of a page without a class."""
UNKNOWN_FILE, ANONYMOUS = len(CLASSES), len(CLASSES) + 1


@dataclass(frozen=True)
class Evictions:
    """How often the pages of a kind leave memory and come back.

    ``pages`` leave memory at least once. The other fields are fractions: ``once`` of these pages
    leave exactly once, ``again`` of all evictions are the second of their page or later, and
    ``served`` of all requests come after the second eviction of their page, so that S0's cache
    could answer them if it were large enough.
    """

    pages: int
    evictions: int
    once: float
    again: float
    requests: int
    served: float


def evictions_of(path: str | Path, progress: Progress | None = None) -> dict[str, Evictions]:
    """The evictions in a swap trace by class of page, and of all pages as ``"all"``.

    Pages of zeros are left out, because no device has them. Empty if nothing leaves memory.
    """
    trace = read(path)
    page, flags, is_out, is_in = _moves(trace, progress)
    kinds = _classes(flags)
    found = {ALL: _count(page, is_out, is_in)}
    for code in sorted(set(kinds.tolist()), key=lambda code: KINDS[code]):
        chosen = kinds == code
        found[KINDS[code]] = _count(page[chosen], is_out[chosen], is_in[chosen])
    return {name: counted for name, counted in found.items() if counted.pages}


def _moves(
    trace: Trace, progress: Progress | None
) -> tuple[NDArray[numpy.uint64], NDArray[numpy.uint8], NDArray[numpy.bool_], NDArray[numpy.bool_]]:
    """Pages, flags, and whether pages leave memory or come back, sorted by page and then by time;
    clean evictions without an event are added to the swap-in that shows them."""
    import numpy

    kinds = _core.kinds()
    kind, page, flags = (
        trace.column(name, progress=progress) for name in ("kind", "page", "flags")
    )
    moves = numpy.isin(kind, [kinds.index(name) for name in (*OUT_KINDS, *IN_KINDS)])
    moves &= (flags & ZEROS) == 0
    kind, page, flags = kind[moves], page[moves], flags[moves]
    order = numpy.argsort(page, kind="stable")
    kind, page, flags = kind[order], page[order], flags[order]
    is_in = numpy.isin(kind, [kinds.index(name) for name in IN_KINDS])
    is_swap_in = kind == kinds.index("swap_in")
    is_repeated = numpy.zeros(len(page), dtype=bool)
    is_repeated[1:] = (page[1:] == page[:-1]) & is_swap_in[1:] & is_swap_in[:-1]
    is_repeated &= _so_far(page, kind == kinds.index("swap_out")) > 0
    return page, flags, ~is_in | is_repeated, is_in


def _so_far(page: NDArray[numpy.uint64], is_counted: NDArray[numpy.bool_]) -> NDArray[numpy.int64]:
    """How many events of the page up to and with each event are counted; sorted by page."""
    import numpy

    if not len(page):
        return numpy.zeros(0, dtype=numpy.int64)
    starts = numpy.flatnonzero(numpy.r_[True, page[1:] != page[:-1]])
    lengths = numpy.diff(numpy.r_[starts, len(page)])
    total = numpy.add.reduceat(is_counted, starts, dtype=numpy.int64)
    before = numpy.repeat(numpy.cumsum(total) - total, lengths)
    found: NDArray[numpy.int64] = numpy.cumsum(is_counted) - before
    return found


def _classes(flags: NDArray[numpy.uint8]) -> NDArray[numpy.uint8]:
    """The kind of each page, as its place in KINDS; a byte for each event."""
    import numpy

    found: NDArray[numpy.uint8] = (flags >> 4 & 7).astype(numpy.uint8)
    is_unknown = found == 0
    found[is_unknown] = numpy.where(flags[is_unknown] & FILE != 0, UNKNOWN_FILE, ANONYMOUS)
    return found


def _count(
    page: NDArray[numpy.uint64], is_out: NDArray[numpy.bool_], is_in: NDArray[numpy.bool_]
) -> Evictions:
    import numpy

    if not is_out.any():
        return Evictions(0, 0, 0.0, 0.0, int(is_in.sum()), 0.0)
    starts = numpy.flatnonzero(numpy.r_[True, page[1:] != page[:-1]])
    total = numpy.add.reduceat(is_out, starts, dtype=numpy.int64)
    so_far = _so_far(page, is_out)  # An inferred eviction precedes its swap-in.
    evictions, requests = int(total.sum()), int(is_in.sum())
    pages = int((total > 0).sum())
    return Evictions(
        pages=pages,
        evictions=evictions,
        once=float((total == 1).sum()) / pages,
        again=float((evictions - pages) / evictions),
        requests=requests,
        served=float((is_in & (so_far >= SECOND)).sum()) / requests if requests else 0.0,
    )


def table(runs: Mapping[str, Sequence[Mapping[str, Evictions]]]) -> Table:
    """The table of evictions; ``runs`` has the evictions of each repeat by the name of the plan."""
    return Table(
        "evictions",
        "How often pages leave memory",
        "*Once*: share of the pages that leave memory once. *Again*: share of evictions that are "
        "the second of their page or later, which S0's cache admits; *least* and *most* of one "
        "run. *Answerable*: share of requests after the second eviction of their page, which an "
        "NVM without limit answers. Means over the runs. Clean anonymous pages, which leave "
        "without an event, count when they come back, also in *again* and *answerable*; the table "
        "above leaves them out. When a file is deleted or cut, or caches are dropped, its pages "
        "leave memory too and count, mostly as *other*.",
        list(_rows(runs)),
        shares=("once", "again", "least", "most", "answerable"),
    )


def _rows(runs: Mapping[str, Sequence[Mapping[str, Evictions]]]) -> Iterator[Row]:
    for run, repeats in runs.items():
        names = dict.fromkeys(name for repeat in repeats for name in repeat)
        for name in names:
            found = [repeat[name] for repeat in repeats if name in repeat]
            again = [each.again for each in found]
            yield {
                "run": run,
                "runs": len(found),
                "pages of": name,
                "pages": round(fmean(each.pages for each in found)),
                "evictions": round(fmean(each.evictions for each in found)),
                "once": fmean(each.once for each in found),
                "again": fmean(again),
                "least": min(again),
                "most": max(again),
                "answerable": fmean(each.served for each in found),
            }
