"""Forecasts the page faults of a program in a guest with little memory.

With a captured trace and base pages of 4 KiB, the core follows what the guest's kernel does: which
huge pages it gives, what it reads of files, what it reclaims (crates/sim/src/refs/limited.rs). The
program starts at another address in each run, so the forecast is the median over starts.

Without mappings, or with another base page, the forecast is simpler, and too low in short memory:

    faults(p, m) = first(p) + returns(r, m)

``first(p)`` are first touches: one per page of p bytes that is first written, and one per 64 KiB
that is first read, because Linux maps 64 KiB of a file around a fault. ``returns(r, m)`` are what
LRU misses with a memory of m bytes beyond the first touches, in base pages of r bytes. With fewer
than ``Curves.exact_from`` frames it is a lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from pagewise import _core
from pagewise.huge_pages.forecast import FAULT_AROUND_BYTES
from pagewise.models.page_size_curves import Curves
from pagewise.recording import Progress
from pagewise.units import PAGE_BYTES

STARTS = 8
"""Starts of the program for each page size, within its page size and the 64 KiB around a fault."""
BESIDE_PAGES = 13
"""Pages of the process that starts and measures the program, in the same memory group: those that
busybox's `time` wrote to (Debian 12's busybox-static on x86-64)."""


@dataclass(frozen=True)
class Faults:
    """Faults over starts of the program: the median, and the range."""

    typical: int
    low: int
    high: int


def faults_by_size(
    trace: str,
    page_sizes: Sequence[int],
    memory_bytes: int,
    *,
    progress: Progress | None = None,
) -> Mapping[int, Faults] | None:
    """Faults by page size on a kernel with base pages of 4 KiB; None for a trace without mappings.

    ``page_sizes``: bytes of transparent huge pages, from 4 KiB (none) to 2 MiB. ``memory_bytes``:
    the limit of the memory group. Raises UnreadableInput for any other file.
    """
    asked = [(size, start) for size in page_sizes for start in starts(size)]
    limits = [
        {
            "page_bytes": size,
            "pages": max(0, memory_bytes // PAGE_BYTES - BESIDE_PAGES),
            "shift_pages": start,
        }
        for size, start in asked
    ]
    counted = _core.limited_faults(trace, json.dumps(limits), progress=progress)["faults"]
    if counted is None:
        return None
    totals: dict[int, list[int]] = {}
    for (size, _), faults in zip(asked, counted, strict=True):
        total = faults["anonymous"] + faults["file"] + faults["swap"]
        totals.setdefault(size, []).append(total)
    return {size: Faults(median_low(all_), min(all_), max(all_)) for size, all_ in totals.items()}


def starts(page_bytes: int) -> list[int]:
    """Pages of 4 KiB by which the program lies higher than in the trace, in equal steps."""
    span = max(page_bytes, FAULT_AROUND_BYTES) // PAGE_BYTES
    return [number * span // STARTS for number in range(STARTS)]


def simple_forecast(curves: Curves, page_bytes: int, base_bytes: int, memory_bytes: int) -> int:
    """Faults from curves; ``base_bytes`` is the base page of the kernel."""
    base = curves.sizes[base_bytes]
    returns = int(base.faults(max(1, memory_bytes // base_bytes))) - base.cold
    around = curves.sizes[max(base_bytes, FAULT_AROUND_BYTES)]
    return curves.sizes[page_bytes].cold_written + around.cold - around.cold_written + returns
