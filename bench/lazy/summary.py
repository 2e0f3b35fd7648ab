"""Summary of the runs: medians over rounds, and ratios of two allocators round by round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lazy.store import Figures, Measurement
from pagewise.bootstrap import interval


@dataclass(frozen=True)
class Spread:
    """A median and its 95 % interval by bootstrap."""

    low: float
    typical: float
    high: float


Measure = Callable[[Figures], Sequence[float]]
"""One or more values of a run; equally many from every run of a part."""


def field(name: str) -> Measure:
    """The figure with this name, a number or a list."""

    def values(figures: Figures) -> Sequence[float]:
        value = figures[name]
        return value if isinstance(value, list) else [value]

    return values


def of_swipes(measure: Callable[[Figures], float]) -> Measure:
    """A figure of each swipe of a session."""
    return lambda figures: [measure(swipe) for swipe in figures["swipes"]]


class Summary:
    """All runs, by part, program and allocator, in the order of rounds."""

    def __init__(self, runs: Sequence[Measurement]) -> None:
        self.runs: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: run.round):
            self.runs[run.part, run.program, run.allocator].append(run)
        self.all = list(runs)

    def figures(self, part: str, program: str, allocator: str) -> list[Figures]:
        """The figures of the successful runs."""
        runs = self.runs.get((part, program, allocator), [])
        return [run.figures for run in runs if run.failure is None]

    def failure(self, part: str, program: str, allocator: str) -> str | None:
        """The reason of a failed run, if any failed."""
        runs = self.runs.get((part, program, allocator), [])
        return next((run.failure for run in runs if run.failure), None)

    def values(self, part: str, program: str, allocator: str, measure: Measure) -> list[float]:
        """One list over the rounds; runs that lack the figure (killed ones) have no values."""
        found = []
        for figures in self.figures(part, program, allocator):
            try:
                found += measure(figures)
            except KeyError:
                continue
        return found

    def spread(self, part: str, program: str, allocator: str, measure: Measure) -> Spread | None:
        """The median; None if nothing was measured."""
        values = self.values(part, program, allocator, measure)
        return spread_of(values, f"{part} {program} {allocator}") if values else None

    def ratio(
        self, part: str, program: str, ours: str, theirs: str, measure: Measure
    ) -> Spread | None:
        """Ours over theirs, value by value, as measured in turn."""
        pairs = zip(
            self.values(part, program, ours, measure),
            self.values(part, program, theirs, measure),
            strict=False,
        )
        ratios = [our / their for our, their in pairs if their]
        return spread_of(ratios, f"{part} {program} {ours} {theirs}") if ratios else None


def spread_of(values: Sequence[float], name: str) -> Spread:
    """The median and its interval; for a single value, that value."""
    typical = median(values)
    low, high = interval(values, 0.5, 1, name) if len(values) > 1 else (typical, typical)
    return Spread(low, typical, high)
