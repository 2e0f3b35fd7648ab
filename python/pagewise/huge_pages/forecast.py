"""Forecasts what a page size saves a program with ample memory, to compare with a trial.

With ample memory, every fault is a first touch or the first write after a read. A captured trace
has the mappings, so the core counts the faults by what the memory is
(crates/sim/src/refs/faults.rs). A trace without mappings tells only whether a page was first read
or written: the forecast then takes memory that is written first for heap, and the rest for files,
of which Linux maps 64 KiB around a fault (``fault_around_bytes``, mm/memory.c of Linux 6.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.models.page_size_curves import Curves
from pagewise.models.page_size_time import HARDWARE, TODAY, Hardware, Terms
from pagewise.reference_curves import PAGE_SIZES
from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    from pagewise.answers import Forecast

FAULT_AROUND_BYTES = 64 * 1024


def forecast(
    curves: Curves,
    page_bytes: int,
    hardware: Hardware = HARDWARE,
    terms: Terms = TODAY,
    requesting: Curves | None = None,
) -> Forecast:
    """Minor faults with 4 KiB and with this size, and the CPU seconds saved.

    ``requesting``: the counts of a run whose malloc requests huge pages as `verify` does, since its
    heap then grows and shrinks by 2 MiB. Without it, ``minor_faults`` {``base``, ``chosen``} assume
    that the heap is the same.
    ``cpu_s_saved`` {``low``, ``high``}: the faults only; and the faults with the TLB misses, each
    at the full price of a walk, part of which processors hide.
    """
    base, others = _faults(curves, PAGE_BYTES)
    chosen, chosen_others = _faults(requesting or curves, page_bytes)
    in_faults = base * hardware.touch_ns(PAGE_BYTES) - chosen * hardware.touch_ns(page_bytes)
    of_base, of_chosen = (
        _walks_ns(curves, size, hardware, terms) for size in (PAGE_BYTES, page_bytes)
    )
    in_walks = of_base - of_chosen
    return {
        "minor_faults": {"base": base + others, "chosen": chosen + chosen_others},
        "cpu_s_saved": {"low": in_faults / 1e9, "high": (in_faults + max(0, in_walks)) / 1e9},
    }


def transparent_sizes() -> list[int]:
    """The sizes for which `forecast` needs minor faults."""
    return [size for size in PAGE_SIZES if size >= PAGE_BYTES]


def _faults(curves: Curves, page_bytes: int) -> tuple[int, int]:
    """Faults in memory that larger pages can hold, at this size, and other faults."""
    if curves.minor_faults is not None:
        faults = curves.minor_faults[page_bytes]
        return faults["heap"], faults["anonymous"] + faults["file"]
    around = curves.sizes[FAULT_AROUND_BYTES]
    return curves.sizes[page_bytes].cold_written, around.cold - around.cold_written


def _walks_ns(curves: Curves, page_bytes: int, hardware: Hardware, terms: Terms) -> float:
    """The time of all TLB misses."""
    first, second = hardware.tlb_misses(curves.sizes[page_bytes])
    walk_ns = terms.walk_accesses * hardware.dram_ns
    return float(first * hardware.second_tlb_ns + second * walk_ns)
