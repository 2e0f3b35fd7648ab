"""What outcomes cost on two devices: I/O time, how busy, what they wear, over the devices' ranges.

Every function takes outcomes as `pagewise simulate --json` prints them, which may carry those of
other latencies under `AT`, for what decides by them. A range is a dictionary
``low``, ``typical``, ``high``; times are seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pagewise.units import DAYS_PER_YEAR, PAGE_BYTES

Outcome: TypeAlias = Mapping[str, Any]
Range: TypeAlias = dict[str, float]
Corner: TypeAlias = tuple[str, str]

FIGURES = ("low", "typical", "high")
TYPICAL: Corner = ("typical", "typical")
TIERS = ("fast", "slow")
AT = "at"
"""Of an outcome: {latencies: the outcome on devices that have them}."""
Latencies: TypeAlias = tuple[str, str]
"""Of the fast and of the slow device, as READ/WRITE times."""
WRITE_AMPLIFICATION: Range = {"low": 1.0, "typical": 2.0, "high": 5.0}
"""Bytes that flash writes for each byte that the host writes: assumed, not measured. Linux writes
swap in runs of up to about 1 MB (measured), which keeps it low; a full card raises it."""


@dataclass(frozen=True)
class Devices:
    """Latencies of both devices and descriptions, as `pagewise devices --json` gives them.

    ``active_s`` is how long the recording took without its idle gaps; none without a clock.
    """

    fast: Mapping[str, Any]
    slow: Mapping[str, Any]
    active_s: float | None = None

    def corners(self) -> list[Corner]:
        """Every combination of a figure of the fast and of the slow device."""
        return list(itertools.product(FIGURES, FIGURES))

    def latencies(self, corner: Corner) -> Latencies:
        """Both devices at one corner."""
        fast, slow = (
            f"{device['read_ns'][figure]}/{device['write_ns'][figure]}ns"
            for device, figure in zip((self.fast, self.slow), corner, strict=True)
        )
        return fast, slow

    def other_latencies(self) -> list[Latencies]:
        """Every pair of latencies but the typical, once each."""
        found = dict.fromkeys(map(self.latencies, self.corners()))
        return [each for each in found if each != self.latencies(TYPICAL)]

    def tier_time_s(self, outcome: Outcome, tier: str, corner: Corner) -> float:
        """Counts times latencies of one device at one corner."""
        device, figure = getattr(self, tier), corner[TIERS.index(tier)]
        counts = outcome.get(AT, {}).get(self.latencies(corner), outcome)[tier]
        reads_ns = counts["reads"] * device["read_ns"][figure]
        return float(reads_ns + counts["writes"] * device["write_ns"][figure]) / 1e9

    def io_time_s(self, outcome: Outcome, corner: Corner = TYPICAL) -> float:
        """Counts times latencies of both devices at one corner."""
        return sum(self.tier_time_s(outcome, tier, corner) for tier in TIERS)

    def slice_times_s(self, outcome: Outcome) -> list[float]:
        """The I/O time of each slice of the recording at typical latencies."""
        costs = [
            (f"{tier}_{operation}s", getattr(self, tier)[f"{operation}_ns"]["typical"] / 1e9)
            for tier in TIERS
            for operation in ("read", "write")
        ]
        return [sum(counts[name] * cost for name, cost in costs) for counts in outcome["slices"]]

    def over_corners(self, at: Callable[[Corner], float]) -> Range:
        """The range of a figure over all corners."""
        return spread(map(at, self.corners()), at(TYPICAL))

    def io_time(self, outcome: Outcome) -> Range:
        """The I/O time and its range."""
        return self.over_corners(lambda corner: self.io_time_s(outcome, corner))

    def io_share(self, outcome: Outcome, alone: Outcome) -> Range:
        """The I/O time as a share of the slow device's alone."""

        def share(corner: Corner) -> float:
            base = self.io_time_s(alone, corner)
            return self.io_time_s(outcome, corner) / base if base else 1.0

        return self.over_corners(share)

    def regret(self, choice: Outcome, best: Outcome) -> Range:
        """How much more I/O time ``choice`` takes than ``best``, as a share of the latter."""

        def more(corner: Corner) -> float:
            base = self.io_time_s(best, corner)
            return self.io_time_s(choice, corner) / base - 1 if base else 0.0

        return self.over_corners(more)

    def busy(self, outcome: Outcome, tier: str) -> Range | None:
        """I/O time of one device as a share of the active time; 1 or more cannot be kept up.

        Over the range of that device, the other one at its typical figures. None without a clock.
        """
        if not self.active_s:
            return None
        seconds = {
            name: self.tier_time_s(
                outcome, tier, (name, "typical") if tier == "fast" else ("typical", name)
            )
            for name in FIGURES
        }
        return {name: value / self.active_s for name, value in seconds.items()}

    def wear(self, outcome: Outcome, tier: str) -> Range | None:
        """Share of the rated life used up per day over the range of the rating; none if unknown.

        Before write amplification: bytes given to the device.
        """
        typical = (outcome.get("wear") or {}).get(tier)
        cycles = getattr(self, tier).get("rated_cycles")
        if typical is None or not cycles:
            return None
        return {
            "low": typical * cycles["typical"] / cycles["high"],
            "typical": typical,
            "high": typical * cycles["typical"] / cycles["low"],
        }

    def life_years(self, outcome: Outcome, tier: str) -> Range | None:
        """Years until the rated writes are used up, if this traffic goes on day and night.

        Over the range of the rating and of `WRITE_AMPLIFICATION`. None where the wear is unknown or
        nothing is written.
        """
        wear = self.wear(outcome, tier)
        if wear is None or not wear["low"]:
            return None
        return {
            "low": years(wear["high"], WRITE_AMPLIFICATION["high"]),
            "typical": years(wear["typical"], WRITE_AMPLIFICATION["typical"]),
            "high": years(wear["low"], WRITE_AMPLIFICATION["low"]),
        }


def years(wear_per_day: float, amplification: float = 1.0) -> float:
    """The life in years of a device that uses up this share of it per day."""
    return 1 / (wear_per_day * amplification * DAYS_PER_YEAR)


def slow_pages(outcome: Outcome) -> int:
    """Pages read from and written to the slow device."""
    return int(outcome["slow"]["reads"] + outcome["slow"]["writes"])


def slow_bytes(outcome: Outcome) -> int:
    """The same in bytes."""
    return slow_pages(outcome) * int(outcome.get("page_bytes", PAGE_BYTES))


def spread(values: Iterable[float], typical: float) -> Range:
    """The lowest and highest of some values, with the typical one."""
    found = [*values, typical]
    return {"low": min(found), "typical": typical, "high": max(found)}
