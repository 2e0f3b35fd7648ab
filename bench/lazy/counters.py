"""Counts page-fault traps of a running process, and samples where its processor time goes.

Uses perf_event_open. Traps are the software event page-faults: pages that a system call
populates raise no trap and are not counted. Samples are of the processors' clock, with the kernel's
call chain. A sample counts as fault handling if its chain contains the page-fault handler, or the
handling of a fault for a system call that populates. Others may be in a call about mappings.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
SOFTWARE, CPU_CLOCK, PAGE_FAULTS = 1, 0, 2
SAMPLE_TID, SAMPLE_TIME, SAMPLE_CALLCHAIN = 1 << 1, 1 << 2, 1 << 5
INHERIT, EXCLUDE_IDLE, NO_USER_CHAIN, USE_CLOCK = 1 << 1, 1 << 7, 1 << 22, 1 << 25
CLOSE_ON_EXEC = 8
RECORD_SAMPLE = 9
ATTRIBUTE_BYTES = 136
RING_PAGES = 1024
HANDLERS = ("asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "__handle_mm_fault")
CALLS = [
    f"__{machine}_sys_{call}"
    for machine in ("x64", "arm64")
    for call in ("brk", "madvise", "mmap", "mprotect", "mremap", "munmap")
]


def open_event(
    config: int,
    *,
    process: int = -1,
    processor: int = -1,
    period: int = 0,
    sample: int = 0,
    flags: int = 0,
) -> int:
    """Opens one perf event of the software kind; raises OSError if the kernel refuses."""
    attribute = bytearray(ATTRIBUTE_BYTES)
    fields = (SOFTWARE, ATTRIBUTE_BYTES, config, period, sample, 0, flags)
    struct.pack_into("=IIQQQQQ", attribute, 0, *fields)
    struct.pack_into("=i", attribute, 92, 1)  # CLOCK_MONOTONIC
    library = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * ATTRIBUTE_BYTES).from_buffer(attribute)
    number = PERF_EVENT_OPEN[os.uname().machine]
    opened = library.syscall(number, ctypes.byref(buffer), process, processor, -1, CLOSE_ON_EXEC)
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"perf_event_open: {os.strerror(code)}")
    return int(opened)


class Traps:
    """The page-fault traps of a process, of its current threads and of later ones."""

    def __init__(self, process: int) -> None:
        threads = [int(thread) for thread in os.listdir(f"/proc/{process}/task")]
        self.events = [open_event(PAGE_FAULTS, process=thread, flags=INHERIT) for thread in threads]

    def count(self) -> int:
        """The number of traps so far."""
        return sum(struct.unpack("=Q", os.read(event, 8))[0] for event in self.events)


@dataclass(frozen=True)
class Sample:
    """State of a thread at one tick."""

    process: int
    thread: int
    time_s: float
    is_in_fault: bool
    is_in_call: bool
    """In a system call about mappings, outside the faults that it handles."""


class Sampler:
    """Samples all processors, once per ``period_s`` of busy time of each."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.handlers, self.calls = symbol_ranges(HANDLERS), symbol_ranges(CALLS)
        self.rings = [
            Ring(processor, int(period_s * 1e9)) for processor in range(os.cpu_count() or 1)
        ]

    def take(self) -> list[Sample]:
        """The samples since the last call."""
        return [
            self.sample(process, thread, time_ns / 1e9, chain)
            for ring in self.rings
            for process, thread, time_ns, chain in ring.take()
        ]

    def sample(self, process: int, thread: int, time_s: float, chain: Sequence[int]) -> Sample:
        """Classifies a call chain by the functions in it."""
        is_in_fault = passes(chain, self.handlers)
        is_in_call = not is_in_fault and passes(chain, self.calls)
        return Sample(process, thread, time_s, is_in_fault, is_in_call)


class Ring:
    """The samples of one processor, in the ring that the kernel writes."""

    def __init__(self, processor: int, period_ns: int) -> None:
        event = open_event(
            CPU_CLOCK,
            processor=processor,
            period=period_ns,
            sample=SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN,
            flags=EXCLUDE_IDLE | NO_USER_CHAIN | USE_CLOCK,
        )
        self.size = RING_PAGES * mmap.PAGESIZE
        self.memory = mmap.mmap(event, mmap.PAGESIZE + self.size)

    def take(self) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """Process, thread, time in ns and call chain of each new sample."""
        head, tail = struct.unpack_from("=QQ", self.memory, 1024)
        while tail < head:
            kind, _, length = struct.unpack("=IHH", self.part(tail, 8))
            if kind == RECORD_SAMPLE:
                body = self.part(tail + 8, length - 8)
                process, thread, time_ns, depth = struct.unpack_from("=IIQQ", body)
                yield process, thread, time_ns, struct.unpack_from(f"={depth}Q", body, 24)
            tail += length
        struct.pack_into("=Q", self.memory, 1032, tail)

    def part(self, start: int, length: int) -> bytes:
        """Bytes of the ring, which may wrap around its end."""
        at = start % self.size
        ahead = bytes(self.memory[mmap.PAGESIZE + at : mmap.PAGESIZE + min(at + length, self.size)])
        return ahead + bytes(self.memory[mmap.PAGESIZE : mmap.PAGESIZE + length - len(ahead)])


def passes(chain: Sequence[int], ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether an address of a call chain is in one of these functions."""
    return any(low <= address < high for address in chain for low, high in ranges)


def symbol_ranges(names: Sequence[str]) -> list[tuple[int, int]]:
    """First address and end of kernel functions; functions that the kernel lacks are omitted."""
    symbols = sorted(
        (int(address, 16), name)
        for address, kind, name, *_ in map(
            str.split, Path("/proc/kallsyms").read_text().splitlines()
        )
        if kind in "tT"
    )
    ends = [address for address, _ in symbols[1:]] + [1 << 64]
    return [
        (address, end) for (address, name), end in zip(symbols, ends, strict=True) if name in names
    ]
