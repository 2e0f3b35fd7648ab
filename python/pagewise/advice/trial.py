"""The outcomes of every architecture at every size on one recording, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from pagewise.advice import stock_linux
from pagewise.advice.costs import TYPICAL, Corner, Devices, Outcome, share_of, slow_bytes
from pagewise.advice.memory import Board
from pagewise.advice.reference import Reference
from pagewise.models import sizing

if TYPE_CHECKING:
    from pagewise.answers import (
        AgainstReference,
        Alone,
        AtSize,
        BothStrain,
        Candidate,
        ChosenArchitecture,
        HoldsIn,
        TakenMemory,
    )

Outcomes: TypeAlias = Mapping[str, Mapping[int, Outcome]]

EQUAL = 0.005
"""A mean I/O time this close to the lowest counts as equal; stock Linux then wins."""


@dataclass(frozen=True)
class Choice:
    """An architecture and the size of its fast tier in bytes; None for no fast tier.

    ``wanted_bytes`` is the size that would pay off if the board could spare any.
    """

    name: str
    size: int | None
    wanted_bytes: int | None


@dataclass(frozen=True)
class Sized:
    """An architecture with a fast tier of ``size`` bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class Trial:
    """The outcome of every architecture by size in bytes, and of flash-only.

    ``board`` is the memory that the fast tier lives in, None for a device.
    """

    devices: Devices
    board: Board | None
    alone: Outcome
    outcomes: Outcomes

    def mean_share(self, name: str, corner: Corner = TYPICAL) -> float:
        """Mean over the sizes of the I/O time, as a share of that without a fast tier."""
        base = self.devices.io_time_s(self.alone, corner)
        by_size = self.outcomes[name].values()
        return fmean(self.devices.io_time_s(o, corner) / base for o in by_size) if base else 1.0

    def best(self) -> str:
        """The lowest mean share; among equals, the first that stock Linux has, else the lowest."""
        shares = {name: self.mean_share(name) for name in self.outcomes}
        lowest = min(shares.values())
        equal = sorted(name for name, share in shares.items() if share <= lowest + EQUAL)
        stock = [name for name in equal if self.availability(name)]
        return stock[0] if stock else min(equal, key=lambda name: shares[name])

    def best_stock(self, size: int | None = None) -> str:
        """The best architecture of stock Linux at this size; for None, over all sizes."""
        stock = [name for name in self.outcomes if self.availability(name)]
        if size is None:
            return min(stock, key=self.mean_share)
        return min(stock, key=lambda name: self.devices.io_time_s(self.outcomes[name][size]))

    def availability(self, name: str) -> str | None:
        """What provides this architecture on stock Linux, or None."""
        return stock_linux.availability(name, self.board)

    def slow_only(self) -> Alone:
        """I/O time, bytes and wear of the slow device without a fast tier."""
        strain = self.strain(self.alone)
        return {
            "io_time_s": self.devices.io_time(self.alone),
            "io_bytes": slow_bytes(self.alone),
            "wear_slow": strain["wear_slow"],
            "life_slow_years": strain["life_slow_years"],
            "busy_slow": strain["busy_slow"],
        }

    def described(self, name: str, meanwhile: str) -> ChosenArchitecture:
        """An architecture, what provides it on stock Linux, and how robust its lead is.

        ``meanwhile`` is the best that stock Linux has.
        """
        return {
            "name": name,
            "options": next(iter(self.outcomes[name].values()))["options"],
            "mean_io_share": self.mean_share(name),
            "stock_linux": self.availability(name),
            "holds_in": self.holds_in(name),
            "meanwhile": meanwhile,
        }

    def chosen(self) -> Choice:
        """The best architecture over all sizes, and the size of it worth buying."""
        name = self.best()
        return self._choice(name, self.outcomes[name])

    def chosen_stock(self) -> Choice:
        """The size worth buying on stock Linux, and the best that it has at that size.

        Each size counts with the best of stock Linux there. Without a size, the architecture is
        the best over all sizes.
        """
        found = self._choice(self.best_stock(), self.stock_outcomes())
        return found if found.size is None else replace(found, name=self.best_stock(found.size))

    def stock_outcomes(self) -> dict[int, Outcome]:
        """The outcome of the best that stock Linux has, by size."""
        sizes = next(iter(self.outcomes.values()))
        return {size: self.outcomes[self.best_stock(size)][size] for size in sizes}

    def _choice(self, name: str, outcomes: Mapping[int, Outcome]) -> Choice:
        alone_s = self.devices.io_time_s(self.alone)
        times_s = {size: self.devices.io_time_s(o) for size, o in outcomes.items()}
        wanted = sizing.worth_buying(times_s, alone_s)
        return Choice(name, self.affordable(times_s, alone_s), wanted)

    def affordable(self, times_s: Mapping[int, float], alone_s: float) -> int | None:
        """The size worth buying by these I/O times, at most what the board can spare."""
        size = sizing.worth_buying(times_s, alone_s)
        if size is None or self.board is None:
            return size
        largest = self.board.largest(list(times_s))
        return None if largest is None else min(size, largest)

    def best_at(self, size: int) -> str:
        """The architecture with the least I/O time at this size; among equals, stock Linux wins."""
        times = {name: self.devices.io_time_s(by[size]) for name, by in self.outcomes.items()}
        lowest = min(times.values())
        equal = [name for name, time in times.items() if time <= lowest * (1 + EQUAL)]
        return min(equal, key=lambda name: (not self.availability(name), times[name]))

    def holds_in(self, name: str) -> HoldsIn:
        """In how many combinations of latencies this architecture has the lowest mean share."""
        corners = self.devices.corners()
        wins = 0
        for corner in corners:
            shares = {other: self.mean_share(other, corner) for other in self.outcomes}
            wins += shares[name] <= min(shares.values()) + EQUAL
        return {"combinations": wins, "of": len(corners)}

    def at_size(self, name: str, size: int, crowded: Outcome | None = None) -> AtSize:
        """The cost of an architecture at one size, and how much more the cheaper choices cost.

        ``crowded``: its outcome with only what a tier in memory holds beyond the memory it takes.
        """
        devices, outcome = self.devices, self.outcomes[name][size]
        cheaper = self.next_cheaper(name, size)
        at_cheaper = self.outcomes[cheaper.name][cheaper.size] if cheaper else self.alone
        stock = self.best_stock(size)
        return {
            "fast_tier_bytes": size,
            "io_time_s": devices.io_time(outcome),
            "io_share": devices.io_share(outcome, self.alone),
            "slow_bytes": slow_bytes(outcome),
            **self.strain(outcome),
            "memory": self._taken(size, crowded),
            "next_cheaper": {
                "architecture": cheaper.name if cheaper else None,
                "fast_tier_bytes": cheaper.size if cheaper else 0,
                "regret": devices.regret(at_cheaper, outcome),
            },
            "stock_linux": {
                "architecture": stock,
                "regret": devices.regret(self.outcomes[stock][size], outcome),
            },
        }

    def next_cheaper(self, name: str, size: int) -> Sized | None:
        """The best choice at the next smaller size; None if the ladder has no smaller one.

        For an architecture of stock Linux, it is the best that stock Linux has there.
        """
        smaller = max((each for each in self.outcomes[name] if each < size), default=None)
        if smaller is None:
            return None
        is_stock = self.availability(name) is not None
        return Sized(self.best_stock(smaller) if is_stock else self.best_at(smaller), smaller)

    def strain(self, outcome: Outcome) -> BothStrain:
        """Wear per day, life in years and share of the time busy, of both devices."""
        devices, wear = self.devices, outcome["wear"]
        return {
            "wear_fast": devices.wear(wear, "fast"),
            "life_fast_years": devices.life_years(wear, "fast"),
            "busy_fast": devices.busy(outcome, "fast"),
            "wear_slow": devices.wear(wear, "slow"),
            "life_slow_years": devices.life_years(wear, "slow"),
            "busy_slow": devices.busy(outcome, "slow"),
        }

    def _taken(self, size: int, crowded: Outcome | None) -> TakenMemory | None:
        """The memory that a tier in memory takes, and the I/O time if that memory was in use."""
        if self.board is None:
            return None
        taken, all_bytes = self.board.taken_bytes(size), self.board.board_bytes
        return {
            "taken_bytes": taken,
            "share_of_board": share_of(taken, all_bytes) if all_bytes else None,
            "net_bytes": self.board.net_bytes(size),
            "io_share_in_use": self.devices.io_share(crowded, self.alone) if crowded else None,
        }

    def candidate(self, name: str) -> Candidate:
        """An architecture at every size, at typical latencies."""
        base = self.devices.io_time_s(self.alone)
        return {
            "architecture": name,
            "mean_io_share": self.mean_share(name),
            "sizes": [
                {
                    "fast_tier_bytes": size,
                    "io_time_s": self.devices.io_time_s(outcome),
                    "io_share": self.devices.io_time_s(outcome) / base if base else 1.0,
                    "slow_bytes": slow_bytes(outcome),
                    "fast_bytes_written": outcome["fast"]["bytes_written"],
                    "wear_fast": outcome["wear"]["fast"],
                }
                for size, outcome in self.outcomes[name].items()
            ],
        }

    def reaching(self, reference: Reference, name: str) -> int | None:
        """The smallest size from which on the slow tier's I/O stays at or below the reference."""
        if slow_bytes(self.alone) <= reference.io_bytes:
            return 0
        moved = {size: slow_bytes(outcome) for size, outcome in self.outcomes[name].items()}
        return sizing.reaching(moved, reference.io_bytes)

    def against(self, reference: Reference, name: str) -> AgainstReference:
        """The cost of the size that reaches the reference."""
        size = self.reaching(reference, name)
        return {
            "what": reference.what,
            "io_bytes": reference.io_bytes,
            "fast_tier_bytes": size,
            "at": self.at_size(name, size) if size else None,
            "lowest_io_bytes": min(map(slow_bytes, self.outcomes[name].values()), default=0),
        }
