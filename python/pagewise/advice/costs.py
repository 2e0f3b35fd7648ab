"""Costs of outcomes on two devices: I/O time, busy time and wear, with their ranges.

Every function takes outcomes as `pagewise simulate --json` prints them. The outcome of an
architecture that decides by latency may also hold, under `AT`, its outcomes at other latencies. A
range is a dictionary ``low``, ``typical``, ``high``; times are seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypeAlias

from pagewise import types
from pagewise.units import DAYS_PER_YEAR, PAGE_BYTES

if TYPE_CHECKING:
    from pagewise.answers import Spread

Figure: TypeAlias = Literal["low", "typical", "high"]
Corner: TypeAlias = tuple[Figure, Figure]
"""A figure of the fast and one of the slow device."""
Tier: TypeAlias = Literal["fast", "slow"]
Operations: TypeAlias = Literal["fast_reads", "fast_writes", "slow_reads", "slow_writes"]
Latencies: TypeAlias = tuple[str, str]
"""READ/WRITE times of the fast and of the slow device."""

FIGURES: tuple[Figure, ...] = ("low", "typical", "high")
TYPICAL: Corner = ("typical", "typical")
TIERS: tuple[Tier, ...] = ("fast", "slow")
AT: Final = "at"
"""The key in an outcome of its outcomes at other latencies."""


class Outcome(types.Outcome):
    """What an architecture did on a recording, and what it does at other latencies."""

    at: NotRequired[Mapping[Latencies, types.Outcome]]
    """The outcomes at other latencies of the devices."""


WRITE_AMPLIFICATION: Spread = {"low": 1.0, "typical": 2.0, "high": 5.0}
"""Bytes that flash writes for each byte that the host writes: assumed, not measured. Linux writes
swap in runs of up to about 1 MB (measured), which keeps it low; a full card raises it."""


@dataclass(frozen=True)
class Devices:
    """The descriptions of both devices, as in `pagewise devices --json`.

    ``active_s`` is the active time of the recording; None if the recording has no clock.
    """

    fast: types.Device
    slow: types.Device
    active_s: float | None = None

    def of(self, tier: Tier) -> types.Device:
        """The device of a tier."""
        return self.fast if tier == "fast" else self.slow

    def corners(self) -> list[Corner]:
        """Every combination of a figure of the fast and of the slow device."""
        return list(itertools.product(FIGURES, FIGURES))

    def latencies(self, corner: Corner) -> Latencies:
        """READ/WRITE times of both devices at one corner."""
        fast, slow = (
            f"{device['read_ns'][figure]}/{device['write_ns'][figure]}ns"
            for device, figure in zip((self.fast, self.slow), corner, strict=True)
        )
        return fast, slow

    def other_latencies(self) -> list[Latencies]:
        """Every pair of latencies except the typical one, once each."""
        found = dict.fromkeys(map(self.latencies, self.corners()))
        return [each for each in found if each != self.latencies(TYPICAL)]

    def tier_time_s(self, outcome: Outcome, tier: Tier, corner: Corner) -> float:
        """I/O time of one device at one corner: counts times latencies."""
        device, figure = self.of(tier), corner[TIERS.index(tier)]
        counts = outcome.get(AT, {}).get(self.latencies(corner), outcome)[tier]
        reads_ns = counts["reads"] * device["read_ns"][figure]
        return float(reads_ns + counts["writes"] * device["write_ns"][figure]) / 1e9

    def io_time_s(self, outcome: Outcome, corner: Corner = TYPICAL) -> float:
        """I/O time of both devices at one corner: counts times latencies."""
        return sum(self.tier_time_s(outcome, tier, corner) for tier in TIERS)

    def slice_times_s(self, outcome: Outcome) -> list[float]:
        """The I/O time of each slice of the recording at typical latencies."""
        costs: list[tuple[Operations, float]] = [
            ("fast_reads", self.fast["read_ns"]["typical"] / 1e9),
            ("fast_writes", self.fast["write_ns"]["typical"] / 1e9),
            ("slow_reads", self.slow["read_ns"]["typical"] / 1e9),
            ("slow_writes", self.slow["write_ns"]["typical"] / 1e9),
        ]
        return [sum(counts[name] * cost for name, cost in costs) for counts in outcome["slices"]]

    def over_corners(self, at: Callable[[Corner], float]) -> Spread:
        """The range of a figure over all corners."""
        return spread(map(at, self.corners()), at(TYPICAL))

    def io_time(self, outcome: Outcome) -> Spread:
        """The I/O time and its range."""
        return self.over_corners(lambda corner: self.io_time_s(outcome, corner))

    def io_share(self, outcome: Outcome, alone: Outcome) -> Spread:
        """The I/O time as a share of the I/O time without a fast tier."""

        def share(corner: Corner) -> float:
            base = self.io_time_s(alone, corner)
            return self.io_time_s(outcome, corner) / base if base else 1.0

        return self.over_corners(share)

    def regret(self, choice: Outcome, best: Outcome) -> Spread:
        """How much more I/O time ``choice`` takes than ``best``, as a share of the latter."""

        def more(corner: Corner) -> float:
            base = self.io_time_s(best, corner)
            return self.io_time_s(choice, corner) / base - 1 if base else 0.0

        return self.over_corners(more)

    def busy(self, outcome: Outcome, tier: Tier) -> Spread | None:
        """I/O time of one device as a share of the active time; at 1 or more, it cannot keep up.

        The range is that of this device; the other device has typical figures. None without a
        clock.
        """
        if not self.active_s:
            return None
        low, typical, high = (
            self.tier_time_s(
                outcome, tier, (name, "typical") if tier == "fast" else ("typical", name)
            )
            for name in FIGURES
        )
        return share_of({"low": low, "typical": typical, "high": high}, self.active_s)

    def wear(self, wear: types.Wear | None, tier: Tier) -> Spread | None:
        """Share of the rated life used up per day, with the range of the rating. None if unknown.

        Counts the bytes that the host writes, without write amplification.
        """
        typical = wear[tier] if wear else None
        cycles = self.of(tier).get("rated_cycles")
        if typical is None or not cycles:
            return None
        return {
            "low": typical * cycles["typical"] / cycles["high"],
            "typical": typical,
            "high": typical * cycles["typical"] / cycles["low"],
        }

    def life_years(self, wear: types.Wear | None, tier: Tier) -> Spread | None:
        """Years until the rated writes are used up, if this traffic continues day and night.

        The range covers the rating and `WRITE_AMPLIFICATION`. None if the wear is unknown or
        nothing is written.
        """
        found = self.wear(wear, tier)
        if found is None or not found["low"]:
            return None
        return {
            "low": years(found["high"], WRITE_AMPLIFICATION["high"]),
            "typical": years(found["typical"], WRITE_AMPLIFICATION["typical"]),
            "high": years(found["low"], WRITE_AMPLIFICATION["low"]),
        }


def years(wear_per_day: float, amplification: float = 1.0) -> float:
    """The life in years of a device that loses this share of its life per day."""
    return 1 / (wear_per_day * amplification * DAYS_PER_YEAR)


def slow_pages(outcome: Outcome) -> int:
    """Pages read from and written to the slow device."""
    return outcome["slow"]["reads"] + outcome["slow"]["writes"]


def slow_bytes(outcome: Outcome) -> int:
    """Bytes read from and written to the slow device."""
    return slow_pages(outcome) * outcome.get("page_bytes", PAGE_BYTES)


def spread(values: Iterable[float], typical: float) -> Spread:
    """The lowest and highest of some values, with the typical one."""
    found = [*values, typical]
    return {"low": min(found), "typical": typical, "high": max(found)}


def share_of(values: Spread, whole: float) -> Spread:
    """A range as a share of the whole."""
    return {
        "low": values["low"] / whole,
        "typical": values["typical"] / whole,
        "high": values["high"] / whole,
    }
