"""Time per memory reference at a page size: T_TOTAL = T_A + T_D of spec sheet S4.

    T_A = T_TLB + e1 * T_TLB2 + e * w * T_DRAM    translation; e1 * T_TLB2 with a second level only
    T_D = T_DRAM + (read * T_IO + zeroed * T_ZERO) data
    T_IO(p) = fault + setup + p / bandwidth        T_ZERO(p) = fault + p * zeroing

e1 and e are misses of the first and of the last TLB level; ``read`` and ``zeroed`` are the faults
that read storage and those that only clear a page; all are per reference. w is the number of memory
accesses of a page walk, 1 in S4. S4 gives none of the constants, and does not say that T_IO grows
with the page; otherwise small pages could never win.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.models.page_size_curves import Curves, SizeCurve
from pagewise.reference_curves import EXACT_FROM, PAGE_SIZES

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.typing import ArrayLike

Level: TypeAlias = Literal["low", "typical", "high"]
Model: TypeAlias = Literal["exact", "paper", "sampled"]
Denominator: TypeAlias = Literal["memory", "cpu"]
FirstTouch: TypeAlias = Literal["counted", "zero-fill", "file-only"]
TlbLevels: TypeAlias = Literal[1, 2]
DENOMINATORS: tuple[Denominator, ...] = ("memory", "cpu")
FIRST_TOUCHES: tuple[FirstTouch, ...] = ("counted", "zero-fill", "file-only")
TLB_LEVELS: tuple[TlbLevels, ...] = (1, 2)
LEVELS: tuple[Level, ...] = ("low", "typical", "high")
Walk: TypeAlias = Literal["native", "nested"]
WALK_LEVELS_MAX = 5
"""Levels of page tables on x86-64 with 57-bit addresses."""


@dataclass(frozen=True)
class Hardware:
    """Times of the processor and the kernel, and the number of TLB entries."""

    tlb_ns: float = 1.0
    """A lookup of the first level; recalled."""
    second_tlb_ns: float = 7.0
    """A lookup of the second level; recalled, x86 of the 2020s."""
    dram_ns: float = 50.0
    """One memory access, also of a page walk; vendors state less than 100 ns."""
    tlb_entries: int = 64
    second_tlb_entries: int = 1536
    tlb_ways: int = 0
    """Entries of a set of the first level; 0 if it is fully associative."""
    second_tlb_ways: int = 0
    fault_ns: float = 1500.0
    """The kernel's part of a fault. With ``zero_ns_per_byte`` it gives the measured 1.9, 3.8, 9.9
    and 259 us of CPU time per first touch of 4 KiB, 16 KiB, 64 KiB and 2 MiB (Linux 6.18, 2-core
    virtual machine, 2026-11-20) within 8 %."""
    zero_ns_per_byte: float = 0.125

    def __post_init__(self) -> None:
        times = {"--dram": self.dram_ns, "--fault": self.fault_ns}
        for option, time_ns in times.items():
            if not (math.isfinite(time_ns) and time_ns >= 0):
                raise UsageError(
                    f"{option}: {time_ns} is not a time in nanoseconds", hint="use 0 or more"
                )

    @property
    def tlb(self) -> str:
        """The first level as `curves` names it."""
        return _named(self.tlb_entries, self.tlb_ways)

    @property
    def second_tlb(self) -> tuple[str, ...]:
        """The second level as `curves` must count it behind the first; none if the stack distances
        tell its misses, because it is fully associative."""
        ways = self.second_tlb_ways
        return (_named(self.second_tlb_entries, ways),) if ways else ()

    def tlb_misses(self, curve: SizeCurve) -> tuple[int, int]:
        """Misses of the first level, and of both."""
        first = curve.misses_of_tlb(self.tlb)
        for name in self.second_tlb:
            if name not in curve.second_tlb_misses:
                raise UsageError(
                    f"no TLB of {name} was counted", hint="give it to curves as second_tlb"
                )
            return first, curve.second_tlb_misses[name]
        return first, int(curve.tlb_misses(self.second_tlb_entries))

    def touch_ns(self, page_bytes: int) -> float:
        """The time of a first touch that only clears the page."""
        return self.fault_ns + page_bytes * self.zero_ns_per_byte


def _named(entries: int, ways: int) -> str:
    return f"{entries}x{ways}" if ways else str(entries)


@dataclass(frozen=True)
class Terms:
    """Choices that S4 leaves open. The defaults describe a machine of today."""

    references: Denominator = "memory"
    """The denominator: references that miss a filter of 64 blocks of 512 bytes, which stand for
    those that leave the processor's caches; or all references. It scales times, but changes no
    optimum.
    """
    cold: FirstTouch = "file-only"
    """First touches: each reads storage; each clears a page; or only writes clear a page."""
    tlb_levels: TlbLevels = 2
    readahead_bytes: int = 0
    """Bytes of the aligned cluster that a fault reads, and that later leaves as a unit; 0: none."""
    walk: Walk = "native"
    """A page walk on the machine itself, or in a virtual machine, whose host translates the address
    of each entry of the guest's page table as well."""
    walk_levels: int = 4
    """Levels of the page tables of guest and host; x86-64 and arm64 with pages of 4 KiB have 4."""
    cached_levels: int = 3
    """Upper levels that the processor's page-walk caches hold. With the default, a native walk
    needs one access, as in S4."""

    @property
    def walk_accesses(self) -> int:
        """Memory accesses of a page walk: 4 natively and 24 nested, if no level is cached.

        A nested walk has (g + 1)(h + 1) - 1 accesses, for g levels of the guest and h of the host
        (Bhargava and others, "Accelerating two-dimensional page walks for virtualized systems",
        ASPLOS 2008). Here both have the same number of levels in memory.
        """
        walked = self.walk_levels - self.cached_levels
        return walked if self.walk == "native" else (walked + 1) ** 2 - 1

    def __post_init__(self) -> None:
        if not 1 <= self.walk_levels <= WALK_LEVELS_MAX:
            raise UsageError(
                f"--walk-levels: {self.walk_levels} is not a number of levels",
                hint=f"use 1 to {WALK_LEVELS_MAX}",
            )
        if not 0 <= self.cached_levels < self.walk_levels:
            raise UsageError(
                f"--cached-levels: {self.cached_levels} of {self.walk_levels} levels cannot be "
                "cached",
                hint=f"use 0 to {self.walk_levels - 1}",
            )
        if self.readahead_bytes not in (0, *PAGE_SIZES):
            raise UsageError(
                f"--readahead: {self.readahead_bytes} bytes is not a possible size",
                hint="use 0, or a power of two from 512 to 2MiB, e.g. 32KiB",
            )


HARDWARE = Hardware()
TODAY = Terms()
PAPER = Terms(cold="counted", tlb_levels=1)
"""S4 taken literally: every fault reads storage, and there is a single TLB."""


@dataclass(frozen=True)
class Storage:
    """Times to read a page: figures by level, in nanoseconds and nanoseconds per byte."""

    name: str
    setup_ns: Mapping[str, float]
    ns_per_byte: Mapping[str, float]

    def read_ns(self, page_bytes: int, level: Level = "typical") -> float:
        """The time to read one page of this size."""
        return self.setup_ns[level] + page_bytes * self.ns_per_byte[level]


@dataclass(frozen=True)
class Rates:
    """Counts per reference at one page size: TLB misses, and faults by kind.

    Faults are arrays if the memory is an array.
    """

    first_tlb: float
    last_tlb: float
    read: ndarray
    zeroed: float


@dataclass(frozen=True)
class Times:
    """Nanoseconds per reference at one page size."""

    translation_ns: float
    data_ns: ndarray

    @property
    def total_ns(self) -> ndarray:
        """T_TOTAL."""
        return self.translation_ns + self.data_ns


def storage_of(text: str) -> Storage:
    """The storage for a name of ``pagewise devices`` or a device file.

    Raises UsageError if its bandwidth is unknown: two latencies do not give the cost of a byte.
    """
    device = _core.device(text)
    transfer = device.get("transfer")
    if transfer is None:
        raise UsageError(
            f"{device['name']}: the time to read a page of another size is not known",
            hint="use optane-ssd, zram-lz4, emmc-5.1, ufs-3.1 or hdd, or measure your own: "
            "pagewise devices probe FOLDER",
        )
    setup = transfer["setup_ns"]
    bandwidth = transfer["bandwidth_mb_s"]
    ns_per_byte = {
        level: 1e3 / rate
        for level, rate in (
            ("low", bandwidth["high"]),
            ("typical", bandwidth["typical"]),
            ("high", bandwidth["low"]),
        )
    }
    setup_ns = {"low": setup["low"], "typical": setup["typical"], "high": setup["high"]}
    return Storage(device["name"], setup_ns, ns_per_byte)


@dataclass(frozen=True)
class Machine:
    """The machine that a program runs on, and the terms for its times."""

    storage: Storage
    hardware: Hardware = HARDWARE
    terms: Terms = TODAY

    def cluster_bytes(self, page_bytes: int) -> int:
        """Bytes that one fault moves."""
        return max(page_bytes, self.terms.readahead_bytes)

    def references(self, curves: Curves) -> int:
        """The denominator of every rate."""
        return curves.steps if self.terms.references == "memory" else curves.references

    def can_judge(self, page_bytes: int, memory_bytes: float) -> bool:
        """Whether the counts of a filtered trace are exact at this page size and memory."""
        return memory_bytes // self.cluster_bytes(page_bytes) >= EXACT_FROM

    def rates(self, curves: Curves, page_bytes: int, memory_bytes: ArrayLike) -> Rates:
        """Counts per reference, for one memory or an array of them.

        Fewer than 64 frames count as 64, so faults are then a lower bound.
        """
        import numpy

        references = self.references(curves)
        first, second = self.hardware.tlb_misses(curves.sizes[page_bytes])
        moved_bytes = self.cluster_bytes(page_bytes)
        moved = curves.sizes[moved_bytes]
        frames = numpy.maximum(numpy.asarray(memory_bytes) // moved_bytes, EXACT_FROM)
        faults = moved.faults(frames.astype(int))
        zeroed_here = self._zeroed(moved)
        return Rates(
            first_tlb=first / references,
            last_tlb=(second if self.terms.tlb_levels == 2 else first) / references,
            read=(faults - zeroed_here) / references,
            zeroed=zeroed_here / references,
        )

    def _zeroed(self, moved: SizeCurve) -> int:
        """First touches that clear a page; the others read storage."""
        zeroed = {"counted": 0, "zero-fill": moved.cold, "file-only": moved.cold_written}
        return zeroed[self.terms.cold]

    def first_touch_ns(self, curves: Curves, page_bytes: int) -> float:
        """The time of first touches per reference, which is part of ``data_ns`` of `times`."""
        moved_bytes = self.cluster_bytes(page_bytes)
        moved = curves.sizes[moved_bytes]
        zeroed = self._zeroed(moved)
        read_ns = self.hardware.fault_ns + self.storage.read_ns(moved_bytes)
        touched_ns = (moved.cold - zeroed) * read_ns + zeroed * self.hardware.touch_ns(moved_bytes)
        return touched_ns / self.references(curves)

    def times(self, rates: Rates, page_bytes: int, level: Level = "typical") -> Times:
        """T_A and T_D of these rates."""
        hardware, moved_bytes = self.hardware, self.cluster_bytes(page_bytes)
        walked_ns = self.terms.walk_accesses * hardware.dram_ns
        translation_ns = hardware.tlb_ns + rates.last_tlb * walked_ns
        if self.terms.tlb_levels == 2:
            translation_ns += rates.first_tlb * hardware.second_tlb_ns
        read_ns = hardware.fault_ns + self.storage.read_ns(moved_bytes, level)
        zero_ns = hardware.touch_ns(moved_bytes)
        data_ns = hardware.dram_ns + rates.read * read_ns + rates.zeroed * zero_ns
        return Times(translation_ns, data_ns)
