"""From a program's counts to a page size, with its gain, its cost and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from pagewise import _core
from pagewise.advice.page_size.advise import advise_page_size, memory_of
from pagewise.models.page_size import MARGIN, rates_by_size
from pagewise.models.page_size_curves import Curves, footprint_bytes
from pagewise.models.page_size_time import (
    HARDWARE,
    TODAY,
    Hardware,
    Machine,
    Model,
    Rates,
    Terms,
    storage_of,
)
from pagewise.recording import PathLike, Progress
from pagewise.reference_curves import PAGE_SIZES, curves
from pagewise.units import format_size

if TYPE_CHECKING:
    from pagewise.answers import AssumedTerms, HardwareTimes, MemoryTimes, PageSize
    from pagewise.types import AccessHeat

SCHEMA = "pagewise.page-size/1"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The memories whose curves are shown, as shares of the footprint in 4 KiB pages."""
SAMPLES_MIN = 4


def page_size(
    trace: PathLike,
    *,
    memory: str | int = "80%",
    storage: str = "ufs-3.1",
    target: str | None = None,
    terms: Terms = TODAY,
    model: Model = "exact",
    margin: float = MARGIN,
    hardware: Hardware = HARDWARE,
    from_reference: int = 0,
    progress: Progress | None = None,
) -> PageSize:
    """Recommends a page size for the program of ``trace`` (``.pwf``).

    ``memory``: a size, or a share of the footprint in 4 KiB pages (``"80%"``). ``storage``: a name
    from `pagewise devices` with a known bandwidth, or a device file. ``target``: where to set the
    size (`advise_page_size`). ``terms``: choices that the paper leaves open. ``hardware``: sizes of
    the TLB, and times of TLB, memory and faults. ``from_reference``: leaves out the references
    before this one, the start-up of the program.

    For each of ``memories`` the result has the judged sizes, T_A and T_D counted, and T_TOTAL by
    the two fits, in nanoseconds per reference.
    """
    counted = curves(
        trace,
        tlb=hardware.tlb,
        second_tlb=hardware.second_tlb,
        from_reference=from_reference,
        progress=progress,
    )
    return answer(
        counted,
        str(trace),
        heat=counted.heat,
        memory=memory,
        storage=storage,
        target=target,
        terms=terms,
        model=model,
        margin=margin,
        hardware=hardware,
    )


def answer(
    counted: Curves,
    trace: str,
    *,
    memory: str | int,
    storage: str,
    target: str | None,
    terms: Terms,
    model: Model,
    margin: float,
    hardware: Hardware = HARDWARE,
    heat: AccessHeat | None = None,
) -> PageSize:
    """`page_size` for given counts, with the map ``heat`` of the references."""
    machine = Machine(storage_of(storage), hardware, terms)
    footprint = footprint_bytes(counted)
    asked = memory_of(memory, footprint)
    memories = sorted({asked, *(round(share * footprint) for share in SHARES)})
    shown = [curve(counted, each, machine) for each in memories]
    advice = advise_page_size(
        counted,
        memory=asked,
        storage=storage,
        target=target,
        terms=terms,
        model=model,
        margin=margin,
        hardware=hardware,
    )
    advice["notes"] += lower_bound_note(counted, machine)
    return {
        "schema": SCHEMA,
        "pagewise": _core.version(),
        "trace": trace,
        "program": {
            "references": counted.references,
            "steps": counted.steps,
            "footprint_bytes": footprint,
            "footprint_factors": {
                str(size): footprint_bytes(counted, size) / footprint for size in PAGE_SIZES
            },
        },
        "assumed": {
            "storage": machine.storage.name,
            "hardware": cast("HardwareTimes", asdict(machine.hardware)),
            "terms": cast("AssumedTerms", asdict(terms)),
            "model": model,
            "margin": margin,
        },
        "memory_bytes": asked,
        "advice": advice,
        "memories": [each for each in shown if each["sizes_bytes"]],
        "heat": heat,
    }


def lower_bound_note(counted: Curves, machine: Machine) -> list[str]:
    """A note on page sizes at which the first TLB may miss more often than was counted."""
    tlb = machine.hardware.tlb
    sizes = [size for size in PAGE_SIZES if counted.is_lower_bound(size, tlb)]
    if not sizes:
        return []
    return [
        f"misses of a TLB of {tlb} are lower bounds from {format_size(sizes[0])} to "
        f"{format_size(sizes[-1])}: capture with --filter 4 to count all, if a set has 4 ways or "
        "more"
    ]


def curve(counted: Curves, memory_bytes: int, machine: Machine) -> MemoryTimes:
    """T_TOTAL over page size with this memory: its two parts, and by both fits."""
    sizes = [size for size in PAGE_SIZES if machine.can_judge(size, memory_bytes)]
    rates = rates_by_size(counted, sizes, memory_bytes, machine, "exact")
    times = [machine.times(rates[size], size) for size in sizes]

    def fitted(model: Model) -> list[float] | None:
        if len(sizes) < SAMPLES_MIN:
            return None
        return totals(rates_by_size(counted, sizes, memory_bytes, machine, model), machine)

    return {
        "memory_bytes": memory_bytes,
        "share": memory_bytes / footprint_bytes(counted),
        "sizes_bytes": sizes,
        "translation_ns": [float(time.translation_ns) for time in times],
        "data_ns": [float(time.data_ns) for time in times],
        "first_touch_ns": [machine.first_touch_ns(counted, size) for size in sizes],
        "paper_ns": fitted("paper"),
        "sampled_ns": fitted("sampled"),
    }


def totals(rates: Mapping[int, Rates], machine: Machine) -> list[float]:
    """T_TOTAL of every size, in nanoseconds per reference."""
    return [float(machine.times(rate, size).total_ns) for size, rate in rates.items()]
