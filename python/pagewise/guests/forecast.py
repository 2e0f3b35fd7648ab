"""Forecasts the page faults of a program in a guest with little memory, from its curves.

    faults(p, m) = minor(p) + returns(r, m)

``minor(p)``: the faults with ample memory. They are counted from the mappings in the trace
(crates/sim/src/refs/faults.rs). Without mappings, or with a base page other than 4 KiB, they are
first touches: one per page of p bytes that is first written, and one per 64 KiB that is first read,
because Linux maps 64 KiB of a file around a fault. ``returns(r, m)``: what LRU misses with a memory
of m bytes beyond the first touches, in pages of r: the base page of the guest's kernel, because
Linux splits transparent huge pages that leave memory, and reads them back by base pages. With fewer
than ``Curves.exact_from`` frames of r it is a lower bound.
"""

from __future__ import annotations

from pagewise.huge_pages.forecast import FAULT_AROUND_BYTES
from pagewise.models.page_size_curves import Curves
from pagewise.units import PAGE_BYTES


def expected_faults(curves: Curves, page_bytes: int, base_bytes: int, memory_bytes: int) -> int:
    """The faults with pages of ``page_bytes`` on a kernel with base pages of ``base_bytes``."""
    base = curves.sizes[base_bytes]
    returns = int(base.faults(max(1, memory_bytes // base_bytes))) - base.cold
    return first_touches(curves, page_bytes, base_bytes) + returns


def first_touches(curves: Curves, page_bytes: int, base_bytes: int) -> int:
    """The faults with ample memory."""
    if curves.minor_faults is not None and base_bytes == PAGE_BYTES:
        faults = curves.minor_faults[page_bytes]
        return faults["heap"] + faults["anonymous"] + faults["file"]
    around = curves.sizes[max(base_bytes, FAULT_AROUND_BYTES)]
    return curves.sizes[page_bytes].cold_written + around.cold - around.cold_written
