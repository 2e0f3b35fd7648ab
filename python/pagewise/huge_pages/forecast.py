"""What a page size should save a program that has all the memory it wants, to hold trials against.

With enough memory, every fault is a first touch. Linux maps 64 KiB of a file around a fault
whatever the page size (``fault_around_bytes``, mm/memory.c of Linux 6.18), so faults of files do
not change.

The forecast counts memory that is read before it is written as memory of files. That is wrong for
anonymous memory: Linux maps the zero page at the read and copies 4 KiB at the write
(``do_anonymous_page``), two faults for each 4 KiB at every page size but 2 MiB.
"""

from __future__ import annotations

from typing import Any

from pagewise.models.page_size_curves import Curves
from pagewise.models.page_size_time import HARDWARE, Hardware
from pagewise.units import PAGE_BYTES

FAULT_AROUND_BYTES = 64 * 1024


def forecast(curves: Curves, page_bytes: int, hardware: Hardware = HARDWARE) -> dict[str, Any]:
    """Minor faults with 4 KiB and with this size, and the CPU seconds saved.

    ``minor_faults`` {``base``, ``chosen``}, if all memory that is first written, not read, comes
    in the larger pages; the heap alone does, where a program asks through its malloc.
    ``cpu_s_saved`` {``low``, ``high``}: the faults alone, and the TLB misses with them at the full
    price of a walk, which processors in part hide.
    """
    around = curves.sizes[FAULT_AROUND_BYTES]
    of_files = around.cold - around.cold_written
    base, chosen = (curves.sizes[size].cold_written for size in (PAGE_BYTES, page_bytes))
    in_faults = base * hardware.touch_ns(PAGE_BYTES) - chosen * hardware.touch_ns(page_bytes)
    in_walks = _walks_ns(curves, PAGE_BYTES, hardware) - _walks_ns(curves, page_bytes, hardware)
    return {
        "minor_faults": {"base": base + of_files, "chosen": chosen + of_files},
        "cpu_s_saved": {"low": in_faults / 1e9, "high": (in_faults + max(0, in_walks)) / 1e9},
    }


def _walks_ns(curves: Curves, page_bytes: int, hardware: Hardware) -> float:
    """Time of all TLB misses."""
    entries = [hardware.tlb_entries, hardware.second_tlb_entries]
    first, second = curves.sizes[page_bytes].tlb_misses(entries)
    return float(first * hardware.second_tlb_ns + second * hardware.dram_ns)
