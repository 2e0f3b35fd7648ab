"""What launches touch, from recordings of real ones: which share of their files, and how often they
come back to a page within one launch.

A recording shows only what was not in memory. So a touch sequence is measured where memory is
short, and each share is a lower bound. Reads bring pages in with their neighbours, so pages are
counted as the kernel reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from pagewise.launch_runs import LaunchRun
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

Launch = tuple[str, bool]
"""An app, and whether its launch is cold."""
SWAP_IN, REQUEST = 1, 3
"""Kinds of events (docs/trace-file.md)."""
NEIGHBOURS = 32
"""Pages that one read brings, 128 KiB; the pages of a trace are numbered as they are first read."""
BIN_MIB = 32
"""Width of a class of reuse distances."""


@dataclass(frozen=True)
class Seen:
    """What a recording shows of one launch, in pages.

    ``again`` counts the file pages that were read once more, by the middle of the class of their
    reuse distance in MiB: the other file pages that were read in between.
    """

    requests: int
    distinct: int
    swap_ins: int
    distinct_swap_ins: int
    again: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Touches:
    """What launches of one kind touch of files; the touches repeated are per page touched."""

    pages: float
    again: Mapping[int, float] = field(default_factory=dict)

    @property
    def repeats(self) -> float:
        """Repeated touches per page."""
        return sum(self.again.values())


def seen(run: LaunchRun, output: Path, progress: Progress | None = None) -> list[Seen]:
    """What the recording of ``run`` shows of each visit until its answer.

    The recording is imported into ``output`` once. Raises UnreadableInput for one that is damaged.
    """
    import numpy as np

    trace = run.recording(output, progress=progress)
    if trace is None:
        return []
    kinds, pages = trace.column("kind"), trace.column("page")
    times = trace.column("time_ns") + (trace.header["start_ns"] - run.start_ns)
    found = []
    for visit in run.visits:
        end_s = visit.end_s if visit.launch_s is None else visit.start_s + visit.launch_s
        first, last = np.searchsorted(times, [visit.start_s * 1e9, end_s * 1e9])
        kind, page = kinds[first:last], pages[first:last].astype(np.int64)
        requested, swapped = page[kind == REQUEST], page[kind == SWAP_IN]
        distinct = len(np.unique(requested))
        found.append(
            Seen(
                requests=len(requested),
                distinct=distinct,
                swap_ins=len(swapped),
                distinct_swap_ins=len(np.unique(swapped)),
                again=_again(requested, len(requested) - distinct),
            )
        )
    return found


def _again(requested: NDArray[int64], repeated: int) -> dict[int, float]:
    """Splits the repeated requests of a launch by their reuse distance."""
    classes: dict[int, float] = {}
    for distance, pages in reuse_distances(requested):
        middle = distance * NEIGHBOURS * PAGE_BYTES // MIB // BIN_MIB * BIN_MIB + BIN_MIB // 2
        classes[middle] = classes.get(middle, 0) + pages
    every = max(1.0, sum(classes.values()))
    return {middle: repeated * count / every for middle, count in sorted(classes.items())}


def reuse_distances(requested: NDArray[int64]) -> list[tuple[int, int]]:
    """Distances between two requests of a page, each with the pages that are requested again.

    Pages are requested in stretches of one window, which are `NEIGHBOURS` pages. The distance of a
    stretch is the number of other windows since the last stretch of its window.
    """
    import numpy as np

    if not len(requested):
        return []
    windows = requested // NEIGHBOURS
    starts = np.flatnonzero(np.diff(windows, prepend=windows[0] - 1))
    is_again = np.ones(len(requested), dtype=np.int64)
    is_again[np.unique(requested, return_index=True)[1]] = 0
    pages = np.add.reduceat(is_again, starts)
    names, numbers = np.unique(windows[starts], return_inverse=True)
    last = np.full(len(names), -1)
    found = []
    for place, (number, again) in enumerate(zip(numbers.tolist(), pages.tolist(), strict=True)):
        if again and last[number] >= 0:
            found.append((int(np.count_nonzero(last > last[number])), again))
        last[number] = place
    return found


def with_reads(run: LaunchRun, shown: Sequence[Seen]) -> LaunchRun:
    """The run with reads as its recording counts them.

    The counters of a run that swaps through a program count each page twice.
    """
    visits = [
        replace(
            visit,
            swap_in_bytes=launch.swap_ins * PAGE_BYTES,
            bytes_in=(launch.swap_ins + launch.requests) * PAGE_BYTES,
        )
        for visit, launch in zip(run.visits, shown, strict=True)
    ]
    return replace(run, visits=tuple(visits))


def touches(
    runs: Mapping[str, LaunchRun], shown: Mapping[str, Sequence[Seen]]
) -> dict[Launch, Touches]:
    """The touches of each kind of launch, each from the run that shows most of it."""
    found: dict[Launch, Touches] = {}
    for name, run in runs.items():
        launches: dict[Launch, list[Seen]] = {}
        for visit, row in zip(run.visits, shown[name], strict=True):
            if visit.round > 1:
                launches.setdefault((visit.app, visit.is_cold), []).append(row)
        for launch, rows in launches.items():
            pages = median(row.distinct for row in rows)
            if not pages or (launch in found and _shown(found[launch]) >= _requests(rows)):
                continue
            classes = sorted({middle for row in rows for middle in row.again})
            again = {
                middle: fmean(row.again.get(middle, 0.0) for row in rows) / pages
                for middle in classes
            }
            found[launch] = Touches(pages, again)
    return found


def _shown(touched: Touches) -> float:
    return touched.pages * (1 + touched.repeats)


def _requests(rows: Sequence[Seen]) -> float:
    return fmean(row.requests for row in rows)
