"""Compares two architectures over sizes of the fast tier."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pagewise_studies.runs import CellCounts, Counts, Variant
from pagewise_studies.workloads import Workload

Measure = Callable[[Counts], float]


@dataclass(frozen=True)
class Changes:
    """Change of ``ours`` against ``baseline`` at each size, ascending; -0.05 is 5 % less."""

    sizes_mib: tuple[int, ...]
    values: tuple[float, ...]

    def up_to(self, size_mib: float) -> Changes:
        """The changes at or below a size; the smallest size always stays."""
        count = max(1, sum(size <= size_mib for size in self.sizes_mib))
        return Changes(self.sizes_mib[:count], self.values[:count])

    def at(self, sizes_mib: Collection[int]) -> Changes:
        """The changes at those of its sizes that are among ``sizes_mib``."""
        kept = [
            pair for pair in zip(self.sizes_mib, self.values, strict=True) if pair[0] in sizes_mib
        ]
        return Changes(tuple(size for size, _ in kept), tuple(value for _, value in kept))

    def mean(self) -> float:
        """The mean change over the sizes."""
        return statistics.fmean(self.values)

    def best(self) -> float:
        """The lowest change, which is the largest gain."""
        return min(self.values)

    def at_largest(self) -> float:
        """The change at the largest size."""
        return self.values[-1]

    def longest_gain(self, threshold: float) -> int:
        """The largest number of neighbouring sizes with changes below ``-threshold``."""
        longest = current = 0
        for value in self.values:
            current = current + 1 if value < -threshold else 0
            longest = max(longest, current)
        return longest


def changes(
    cells: CellCounts,
    workload: Workload,
    ours: Variant,
    baseline: Variant,
    measure: Measure,
    sizes_mib: Sequence[int],
) -> Changes:
    """Changes of ``ours`` against ``baseline`` on one workload, as means over its seeds.

    If the baseline measures 0, the change is 0 if ``ours`` measures 0 too, and 1 otherwise.
    """
    values = []
    for size in sizes_mib:
        ratios = []
        for trace in workload.traces:
            reference = measure(cells.counts(trace, baseline, size))
            value = measure(cells.counts(trace, ours, size))
            ratios.append(value / reference - 1 if reference else float(value > 0))
        values.append(statistics.fmean(ratios))
    return Changes(tuple(sizes_mib), tuple(values))
