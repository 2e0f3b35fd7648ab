"""The results of several replays of a recording: faults saved, and time by a model of costs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import resources

from pagewise.allocations import BASELINE, OURS
from pagewise.types import Allocations, AllocatorCounts, AllocatorOutcome

POOLS = ("paper", "paper-capped", OURS)
"""S3's pool as described, S3's pool with less premapped memory, and our pool."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds per page, or per call; ``fault_ns`` includes unmapping the page."""

    fault_ns: float
    populate_ns: float
    zero_ns: float
    lazy_touch_ns: float
    call_ns: float

    @staticmethod
    def load() -> Costs:
        """Reads the costs from ``checks/lazy-unmap-costs.toml``."""
        text = resources.files(__package__).joinpath("checks", "lazy-unmap-costs.toml")
        return Costs(**tomllib.loads(text.read_text("utf-8")))

    def words(self) -> str:
        """All costs in one line of text."""
        costs = (
            f"{field.name[:-3].replace('_', ' ')} {getattr(self, field.name):g}" for field in FIELDS
        )
        return f"{', '.join(costs)} ns"


FIELDS = fields(Costs)
COSTS = Costs.load()


@dataclass(frozen=True)
class Replay:
    """The outcome of one replay, as the core gives it."""

    outcome: AllocatorOutcome

    @property
    def counts(self) -> AllocatorCounts:
        """Counts of work by name."""
        return self.outcome["counts"]

    @property
    def faults(self) -> int:
        """Faults on blocks from 64 KiB."""
        return self.counts["faults"]

    def added_ns(self, baseline: Replay, costs: Costs) -> float:
        """Time for work that the baseline does not do. Fewer calls than there save no time."""
        more_calls = max(0, self.counts["calls"] - baseline.counts["calls"])
        return (
            self.counts["pages_populated"] * costs.populate_ns
            + self.counts["pages_zeroed"] * costs.zero_ns
            + self.counts["lazy_touches"] * costs.lazy_touch_ns
            + more_calls * costs.call_ns
        )


@dataclass(frozen=True)
class Program:
    """A recorded program with its replays.

    ``replays`` are by allocator. ``budgets`` are by allocator, share of memory, and whether the
    allocator gets notice of memory pressure in time.
    """

    name: str
    info: Allocations
    replays: Mapping[str, Replay]
    budgets: Mapping[tuple[str, float, bool], Replay]
    costs: Costs = COSTS

    @cached_property
    def baseline(self) -> Replay:
        """The replay without a pool; all others are compared with it."""
        return self.replays[BASELINE]

    @property
    def is_timed(self) -> bool:
        """Whether the recording has the program's time and faults.

        The recording of a killed program has neither, so checks of their shares leave it out.
        """
        return self.info["processor_ns"] is not None

    @property
    def faults_all(self) -> int:
        """All faults of the program, on any memory; at least the faults on large blocks."""
        return max(self.info["minor_faults"] or 0, self.baseline.faults)

    @property
    def processor_ns(self) -> float:
        """Processor time of the recorded program; at least the time that its faults take."""
        return max(float(self.info["processor_ns"] or 0), self.faults_all * self.costs.fault_ns)

    def reduction_of_large(self, name: str) -> float:
        """Share of the faults on large blocks that an allocator saves."""
        return 1 - self.replays[name].faults / self.baseline.faults

    def reduction(self, name: str) -> float:
        """Share of all faults of the program that an allocator saves."""
        return (self.baseline.faults - self.replays[name].faults) / self.faults_all

    @property
    def fault_share(self) -> float:
        """Share of the time that all faults take: the paper's 15 %."""
        return self.faults_all * self.costs.fault_ns / self.processor_ns

    def saving(self, name: str) -> float:
        """Share of the time that an allocator saves: the paper's 6 %."""
        replay = self.replays[name]
        saved_ns = (self.baseline.faults - replay.faults) * self.costs.fault_ns
        return (saved_ns - replay.added_ns(self.baseline, self.costs)) / self.processor_ns
