"""Forecasts what a page size saves a program with ample memory, to compare with a trial.

With ample memory, every fault is a first touch. Linux maps 64 KiB of a file around a fault at every
page size (``fault_around_bytes``, mm/memory.c of Linux 6.18), so faults on files do not change.

The forecast counts memory that is read before it is written as file memory. That is wrong for
anonymous memory: Linux maps the zero page at the read and copies 4 KiB at the write
(``do_anonymous_page``), which makes two faults per 4 KiB at every page size except 2 MiB.
"""

from __future__ import annotations

from pagewise.answers import Forecast
from pagewise.models.page_size_curves import Curves
from pagewise.models.page_size_time import HARDWARE, TODAY, Hardware, Terms
from pagewise.units import PAGE_BYTES

FAULT_AROUND_BYTES = 64 * 1024


def forecast(
    curves: Curves, page_bytes: int, hardware: Hardware = HARDWARE, terms: Terms = TODAY
) -> Forecast:
    """Minor faults with 4 KiB and with this size, and the CPU seconds saved.

    ``minor_faults`` {``base``, ``chosen``} assumes that all memory whose first touch is a write
    comes in larger pages; in fact only the heap does, if a program asks through its malloc.
    ``cpu_s_saved`` {``low``, ``high``}: the faults only; and the faults with the TLB misses, each
    at the full price of a walk, part of which processors hide.
    """
    around = curves.sizes[FAULT_AROUND_BYTES]
    of_files = around.cold - around.cold_written
    base, chosen = (curves.sizes[size].cold_written for size in (PAGE_BYTES, page_bytes))
    in_faults = base * hardware.touch_ns(PAGE_BYTES) - chosen * hardware.touch_ns(page_bytes)
    of_base, of_chosen = (
        _walks_ns(curves, size, hardware, terms) for size in (PAGE_BYTES, page_bytes)
    )
    in_walks = of_base - of_chosen
    return {
        "minor_faults": {"base": base + of_files, "chosen": chosen + of_files},
        "cpu_s_saved": {"low": in_faults / 1e9, "high": (in_faults + max(0, in_walks)) / 1e9},
    }


def _walks_ns(curves: Curves, page_bytes: int, hardware: Hardware, terms: Terms) -> float:
    """The time of all TLB misses."""
    entries = [hardware.tlb_entries, hardware.second_tlb_entries]
    first, second = curves.sizes[page_bytes].tlb_misses(entries)
    walk_ns = terms.walk_accesses * hardware.dram_ns
    return float(first * hardware.second_tlb_ns + second * walk_ns)
