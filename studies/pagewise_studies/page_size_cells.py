"""Page sizes judged for a program, a memory and a storage, as in the tables of the study.

A memory is a share of the program's footprint in 4 KiB pages; its bytes are the same at each size.
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
    Walk,
    storage_of,
)
from pagewise.reference_curves import PAGE_SIZES
from pagewise.units import PAGE_BYTES

NVM = ("optane-pmem", "optane-ssd")
"""The devices that the paper may mean by NVM storage."""
STORAGES = ("optane-pmem", "zram-lz4", "optane-ssd", "ufs-3.1", "hdd")
FITTED_BYTES = PAGE_SIZES[:8]
"""512 B to 64 KiB, the sizes to which a model is fitted and on which it is judged."""
PAPER_BYTES = PAGE_SIZES[1:7]
"""1 to 32 KiB, the sizes that S4 reports."""
TARGET_BYTES = (PAGE_BYTES, 16384, 65536)
"""Sizes of base pages and folios in processors and kernels."""
OTHERS = ("alike", "unlike")
WALKS: tuple[tuple[Walk, int], ...] = (("native", 3), ("nested", 3), ("nested", 0))
"""Page walks with 1, 3 and 24 memory accesses, by the levels that are cached. S4 takes 1, although
a page walk in its guests is nested."""
SHARES = tuple(tenth / 10 for tenth in range(1, 10))


@dataclass(frozen=True)
class Program:
    """One of the five workloads: the counts of a run, and of any runs on other inputs.

    ``others``: the input ``alike`` has the same kind and size, the input ``unlike`` another size.
    """

    name: str
    curves: Curves
    others: Mapping[str, Curves]


@dataclass(frozen=True)
class Cell:
    """A program's counts, a memory, and the machine that it would run on."""

    curves: Curves
    share: float
    machine: Machine

    @property
    def memory_bytes(self) -> int:
        """The memory, in whole bytes."""
        return round(self.share * footprint_bytes(self.curves))

    def judged(self, sizes: Sequence[int], margin: float = 0.0) -> tuple[int, ...]:
        """The sizes whose counts are exact."""
        lowest = self.memory_bytes * (1 - margin)
        return tuple(size for size in sizes if self.machine.can_judge(size, lowest))

    def rates(
        self, sizes: Sequence[int], model: Model = "exact", samples: Sequence[int] = ()
    ) -> dict[int, Rates]:
        """Counts per reference, exact or modelled; lower bounds at sizes that are not judged."""
        return rates_by_size(self.curves, sizes, self.memory_bytes, self.machine, model, samples)

    def times(self, sizes: Sequence[int]) -> dict[int, Times]:
        """T_A and T_D of each size, from the counts."""
        rates = self.rates(sizes)
        return {size: self.machine.times(rates[size], size) for size in sizes}

    def total_ns(self, rates: Mapping[int, Rates]) -> dict[int, float]:
        """T_TOTAL of each size at these rates."""
        return {
            size: float(self.machine.times(rate, size).total_ns) for size, rate in rates.items()
        }


def machine_of(storage: str, terms: Terms) -> Machine:
    """A machine with this storage."""
    return Machine(known_storage(storage), terms=terms)


@cache
def known_storage(name: str) -> Storage:
    """The storage of this name, read once."""
    return storage_of(name)


def kept(total_ns: Mapping[int, float]) -> int:
    """The best size, or 4 KiB if the best size gains less than `LEAST_GAIN`."""
    best = min(total_ns, key=total_ns.__getitem__)
    return best if gain(total_ns, best) >= LEAST_GAIN else PAGE_BYTES


def best_of(cell: Cell, sizes: Sequence[int]) -> int:
    """The size that the study takes for a cell."""
    return kept(cell.total_ns(cell.rates(cell.judged(sizes))))


def gain(total_ns: Mapping[int, float], page_bytes: int) -> float:
    """Share of the time at 4 KiB that a size saves."""
    return 1 - total_ns[page_bytes] / total_ns[PAGE_BYTES]


def regret(total_ns: Mapping[int, float], page_bytes: int) -> float:
    """The gain of the best size minus that of this size.

    The share is of the time at 4 KiB, as of any gain: the time of the best size may be nearly
    nothing, of which any other time is a multiple that says nothing.
    """
    return (total_ns[page_bytes] - min(total_ns.values())) / total_ns[PAGE_BYTES]
