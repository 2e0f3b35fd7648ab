"""Page sizes judged for one program, memory and storage: what the tables of the study are made of.

A memory is a share of the program's own footprint in pages of 4 KiB, the same bytes at every size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pagewise.models.page_size import LEAST_GAIN, rates_by_size
from pagewise.models.page_size_curves import Curves, footprint_bytes
from pagewise.models.page_size_time import (
    Machine,
    Model,
    Rates,
    Storage,
    Terms,
    Times,
    storage_of,
)
from pagewise.reference_curves import PAGE_SIZES
from pagewise.units import PAGE_BYTES

NVM = ("optane-pmem", "optane-ssd")
"""What the paper may mean by NVM storage."""
STORAGES = ("optane-pmem", "zram-lz4", "optane-ssd", "ufs-3.1", "hdd")
FITTED_BYTES = PAGE_SIZES[:8]
"""512 B to 64 KiB: what a model is fitted to and judged over."""
PAPER_BYTES = PAGE_SIZES[1:7]
"""1 to 32 KiB, the sizes that S4 reports."""
TARGET_BYTES = (PAGE_BYTES, 16384, 65536)
"""Base pages and folios that processors and kernels have."""
OTHERS = ("alike", "unlike")
SHARES = tuple(tenth / 10 for tenth in range(1, 10))


@dataclass(frozen=True)
class Program:
    """One of the five workloads: the counts of a run, and of runs on other inputs where there are.

    ``others``: ``alike`` is an input of the same kind and size, ``unlike`` one of another size.
    """

    name: str
    curves: Curves
    others: Mapping[str, Curves]


@dataclass(frozen=True)
class Cell:
    """A program's counts at a memory, and what it would run on."""

    curves: Curves
    share: float
    machine: Machine

    @property
    def memory_bytes(self) -> int:
        """The memory, in whole bytes."""
        return round(self.share * footprint_bytes(self.curves))

    def judged(self, sizes: Sequence[int], margin: float = 0.0) -> tuple[int, ...]:
        """Those of ``sizes`` whose counts are exact."""
        lowest = self.memory_bytes * (1 - margin)
        return tuple(size for size in sizes if self.machine.can_judge(size, lowest))

    def rates(
        self, sizes: Sequence[int], model: Model = "exact", samples: Sequence[int] = ()
    ) -> dict[int, Rates]:
        """Counts per reference, or a model of them; lower bounds at sizes that are not judged."""
        return rates_by_size(self.curves, sizes, self.memory_bytes, self.machine, model, samples)

    def times(self, sizes: Sequence[int]) -> dict[int, Times]:
        """T_A and T_D, counted."""
        rates = self.rates(sizes)
        return {size: self.machine.times(rates[size], size) for size in sizes}

    def total_ns(self, rates: Mapping[int, Rates]) -> dict[int, float]:
        """T_TOTAL of each size at these rates."""
        return {size: float(self.machine.times(one, size).total_ns) for size, one in rates.items()}


def machine_of(storage: str, terms: Terms) -> Machine:
    """A machine with this storage."""
    return Machine(known_storage(storage), terms=terms)


@cache
def known_storage(name: str) -> Storage:
    """The storage of that name, read once."""
    return storage_of(name)


def kept(total_ns: Mapping[int, float]) -> int:
    """The best size, or 4 KiB where that gains less than `LEAST_GAIN`."""
    best = min(total_ns, key=total_ns.__getitem__)
    return best if gain(total_ns, best) >= LEAST_GAIN else PAGE_BYTES


def best_of(cell: Cell, sizes: Sequence[int]) -> int:
    """The size that is taken at this cell."""
    return kept(cell.total_ns(cell.rates(cell.judged(sizes))))


def gain(total_ns: Mapping[int, float], page_bytes: int) -> float:
    """Share of the time at 4 KiB that a size saves."""
    return 1 - total_ns[page_bytes] / total_ns[PAGE_BYTES]


def regret(total_ns: Mapping[int, float], page_bytes: int) -> float:
    """Time of a size beyond that of the best, as a share of it."""
    return total_ns[page_bytes] / min(total_ns.values()) - 1
