"""Minimum length of a recording to size a fast tier: sizes chosen from parts, charged to the rest.

    python bench/evidence.py [RECORDING...]

Each recording is cut into slices of equal active time. For every window of slices, the size is
chosen as in `pagewise advise swap` and charged to all other slices: its I/O time there as a share
of only the slow device, less that of the size that these slices choose themselves. Prints, by
re-accesses in the window and by its length, in how many windows that cost is at most 5 points. The
thresholds of `pagewise.advice.evidence` come from this table (docs/advise.md).
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from pathlib import Path

import numpy

import pagewise as pw
from pagewise.advice import evidence
from pagewise.advice.swap import Question, _tried
from pagewise.models import sizing
from pagewise.units import PAGE_BYTES

ROOT = Path(__file__).parent.parent
SLICES = 60
REACCESSES = (0, 10_000, 20_000, 50_000, 100_000, 200_000)
SECONDS = (0, 15, 30, 60, 120, 240)
FAST, SLOW = "4/5us", "90/40us"


def windows(path: Path) -> list[tuple[int, float, float]]:
    """Re-accesses, seconds and cost of every window, of an eighth to a half of the slices."""
    recording = pw.read(path)
    held = recording.info()
    question = Question(recording, FAST, SLOW)
    footprint = pw.analyze(recording)["pages"] * PAGE_BYTES
    evidence.SLICES = SLICES
    marks = evidence.marks(held)
    trial = _tried(
        question, question.described(held["active_s"]), None, sizing.ladder(footprint), marks, None
    )
    slices = evidence.Slices(trial, trial.best_stock())
    returns = by_slice(recording, marks)
    found = []
    for length in (SLICES // 8, SLICES // 4, SLICES // 2):
        for start in range(0, SLICES - length + 1, max(1, length // 4)):
            window = range(start, start + length)
            rest = [index for index in range(SLICES) if index not in window]
            size, own = slices.worth(window), slices.worth(rest)
            cost = slices.share(size, rest) - slices.share(own, rest)
            seconds = held["active_s"] * length / SLICES
            found.append((sum(returns[start : start + length]), seconds, cost))
    return found


def by_slice(recording: pw.Trace, marks: list[int]) -> list[int]:
    """Accesses of each slice to pages that were accessed before."""
    pages, times = recording.column("page"), recording.column("time_ns")
    kinds = recording.column("kind")
    is_access = numpy.isin(kinds, [index for index, name in enumerate(KINDS) if name in ACCESSES])
    pages, times = pages[is_access], times[is_access]
    first = numpy.zeros(len(pages), dtype=bool)
    first[numpy.unique(pages, return_index=True)[1]] = True
    slices = numpy.searchsorted(numpy.asarray(marks), times[~first], side="right")
    return [int(count) for count in numpy.bincount(slices, minlength=SLICES)]


KINDS = tuple(pw._core.kinds())
ACCESSES = ("swap_out", "swap_in", "evict", "request", "read", "write")


def table(name: str, bounds: tuple[int, ...], rows: list[tuple[float, float]]) -> None:
    """The share of windows with a low cost, by the value that precedes the cost."""
    print(f"\n{name:>12}  windows  cost at most 5 points  median cost  worst")
    for index, low in enumerate(bounds):
        costs = sorted(cost for value, cost in rows if bisect_right(bounds, value) - 1 == index)
        if costs:
            held = sum(cost <= evidence.SHARE_MAX for cost in costs) / len(costs)
            median, worst = costs[len(costs) // 2], costs[-1]
            print(f"{low:>12,}  {len(costs):>7}  {held:>21.0%}  {median:>11.3f}  {worst:.3f}")


def main() -> None:
    given = [Path(path) for path in sys.argv[1:]]
    paths = given or [
        path
        for path in sorted((ROOT / "examples").glob("*/*.pgr"))
        if path.stem == path.parent.name
    ]
    found = []
    for path in paths:
        rows = windows(path)
        costly = sum(cost > evidence.SHARE_MAX for _, _, cost in rows)
        longest = max(seconds for _, seconds, _ in rows)
        print(f"{path.name}: {costly} of {len(rows)} windows of up to {longest:.0f} s cost more")
        found += rows
    table("re-accesses", REACCESSES, [(returns, cost) for returns, _, cost in found])
    table("seconds", SECONDS, [(seconds, cost) for _, seconds, cost in found])


if __name__ == "__main__":
    main()
