"""What replays of a recording say together: faults saved, and time by a model of costs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import resources
from typing import Any

from pagewise.allocations import BASELINE, OURS

POOLS = ("paper", "paper-capped", OURS)
"""S3's pool, as it stands there and with little premapped, and ours."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds per page, or per call; ``fault_ns`` has the page's unmapping in it."""

    fault_ns: float
    populate_ns: float
    zero_ns: float
    lazy_touch_ns: float
    call_ns: float

    @staticmethod
    def load() -> Costs:
        """Those of ``checks/lazy-unmap-costs.toml``."""
        text = resources.files(__package__).joinpath("checks", "lazy-unmap-costs.toml")
        return Costs(**tomllib.loads(text.read_text("utf-8")))

    def words(self) -> str:
        """All of them in one line."""
        told = (f"{one.name[:-3].replace('_', ' ')} {getattr(self, one.name):g}" for one in FIELDS)
        return f"{', '.join(told)} ns"


FIELDS = fields(Costs)
COSTS = Costs.load()


@dataclass(frozen=True)
class Replay:
    """The outcome of one replay, as the core gives it."""

    one: Mapping[str, Any]

    @property
    def counts(self) -> Mapping[str, int]:
        """Work by name."""
        counts: Mapping[str, int] = self.one["counts"]
        return counts

    @property
    def faults(self) -> int:
        """Faults on blocks from 64 KiB."""
        return int(self.counts["faults"])

    def added_ns(self, baseline: Replay, costs: Costs) -> float:
        """Time for what the baseline does not do; calls that it alone makes are not credited."""
        more_calls = max(0, self.counts["calls"] - baseline.counts["calls"])
        return (
            self.counts["pages_populated"] * costs.populate_ns
            + self.counts["pages_zeroed"] * costs.zero_ns
            + self.counts["lazy_touches"] * costs.lazy_touch_ns
            + more_calls * costs.call_ns
        )


@dataclass(frozen=True)
class Program:
    """A recorded program with its replays: by allocator, and by allocator, share of memory and
    whether it hears of pressure in time."""

    name: str
    info: Mapping[str, Any]
    replays: Mapping[str, Replay]
    budgets: Mapping[tuple[str, float, bool], Replay]
    costs: Costs = COSTS

    @cached_property
    def baseline(self) -> Replay:
        """The replay that all are compared with."""
        return self.replays[BASELINE]

    @property
    def is_timed(self) -> bool:
        """Whether its time and its faults are known.

        A killed program has neither, and takes no part in checks of their shares.
        """
        return self.info["processor_ns"] is not None

    @property
    def faults_all(self) -> int:
        """All faults of the program, whatever the memory: at least those on large blocks."""
        return max(int(self.info["minor_faults"]), self.baseline.faults)

    @property
    def processor_ns(self) -> float:
        """Time on processors of the recorded program; no less than its faults take."""
        return max(float(self.info["processor_ns"]), self.faults_all * self.costs.fault_ns)

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
