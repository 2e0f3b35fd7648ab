"""One architecture against another over the size of the fast tier."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagewise_studies.runs import Counts, Runs, Variant
from pagewise_studies.workloads import Workload

Measure = Callable[[Counts], float]


@dataclass(frozen=True)
class Changes:
    """Change of ``ours`` against ``baseline`` at each size, ascending; -0.05 is 5 % less."""

    sizes_mib: tuple[int, ...]
    values: tuple[float, ...]

    def up_to(self, size_mib: float) -> Changes:
        """The part at or below a size; the smallest size at least."""
        count = max(1, sum(size <= size_mib for size in self.sizes_mib))
        return Changes(self.sizes_mib[:count], self.values[:count])

    def mean(self) -> float:
        """The mean over the sizes."""
        return statistics.fmean(self.values)

    def best(self) -> float:
        """The lowest value: the largest gain."""
        return min(self.values)

    def at_largest(self) -> float:
        """The value at the largest size."""
        return self.values[-1]

    def longest_gain(self, threshold: float) -> int:
        """Number of neighbouring sizes at which the change is below ``-threshold``."""
        longest = current = 0
        for value in self.values:
            current = current + 1 if value < -threshold else 0
            longest = max(longest, current)
        return longest


def changes(
    runs: Runs,
    workload: Workload,
    ours: Variant,
    baseline: Variant,
    measure: Measure,
    sizes_mib: Sequence[int],
) -> Changes:
    """``ours`` against ``baseline`` on one workload, the mean over its seeds.

    Where the baseline measures 0 the change is 0 if ours does too, and 1 otherwise.
    """
    values = []
    for size in sizes_mib:
        ratios = []
        for trace in workload.traces:
            reference = measure(runs.counts(trace, baseline, size))
            value = measure(runs.counts(trace, ours, size))
            ratios.append(value / reference - 1 if reference else float(value > 0))
        values.append(statistics.fmean(ratios))
    return Changes(tuple(sizes_mib), tuple(values))
