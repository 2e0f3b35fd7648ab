"""The best of a target's page sizes for a program, its gain and cost, and how to set it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pagewise import _core
from pagewise.advice.page_size import Target
from pagewise.advice.page_size import target as target_named
from pagewise.errors import UsageError
from pagewise.huge_pages import settings
from pagewise.models.page_size import (
    BASE_BYTES,
    IDEAL_BYTES,
    LEAST_GAIN,
    MARGIN,
    Choice,
    choose,
    memory_to_judge,
)
from pagewise.models.page_size_curves import Curves, cut_note, footprint_bytes
from pagewise.models.page_size_time import (
    HARDWARE,
    TODAY,
    Hardware,
    Machine,
    Model,
    Terms,
    storage_of,
)
from pagewise.reference_curves import EXACT_FROM
from pagewise.units import format_percent, format_size, parse_share, parse_size

if TYPE_CHECKING:
    from pagewise.answers import AdvicePageSize

SCHEMA = "pagewise.advice-page-size/1"


def advise_page_size(
    curves: Curves,
    *,
    memory: str | int,
    storage: str,
    target: str | None = None,
    terms: Terms = TODAY,
    model: Model = "exact",
    margin: float = MARGIN,
    hardware: Hardware = HARDWARE,
) -> AdvicePageSize:
    """The advice as an object: sizes in bytes, times in nanoseconds per reference, shares.

    ``memory``: a size, or a share of the program's footprint in 4 KiB pages (``"80%"``).
    ``storage``: a name from `pagewise devices` or a device file. ``target``: a name from the
    catalog; the default is that of the program's architecture, or else of this machine. ``terms``,
    ``model``, ``margin`` and ``hardware`` as in `choose`.

    ``gain`` is over 4 KiB; ``regret`` the gain lost without a size of 1 to 32 KiB;
    ``unjudged_bytes`` are sizes too large for this memory. Raises UsageError for unknown names and
    memories too small.
    """
    chosen_target = target_named(target, curves.architecture)
    device = storage_of(storage)
    memory_bytes = memory_of(memory, footprint_bytes(curves))
    sizes = chosen_target.sizes()
    choice = choose(
        curves,
        memory_bytes,
        device,
        sizes=sizes,
        hardware=hardware,
        terms=terms,
        model=model,
        margin=margin,
    )
    low, high = choice.gain_interval
    advice: AdvicePageSize = {
        "schema": SCHEMA,
        "pagewise": _core.version(),
        "target": chosen_target.name,
        "sizes_bytes": sizes,
        "storage": device.name,
        "memory_bytes": memory_bytes,
        "footprint_bytes": footprint_bytes(curves),
        "page_bytes": choice.page_bytes,
        "gain": {"low": low, "typical": choice.gain, "high": high},
        "ideal_bytes": choice.ideal_bytes,
        "regret": choice.regret,
        "footprint_factor": choice.footprint_factor,
        "time_ns": {str(size): float(time.total_ns) for size, time in choice.times.items()},
        "unjudged_bytes": list(choice.unjudged),
        "settings": [each.to_json() for each in chosen_target.settings(choice.page_bytes)],
        "notes": [
            *cut_note(curves),
            *unjudged(choice, chosen_target.name, sizes, terms, margin),
            *_small_gain(choice, sizes),
            *_notes(choice, chosen_target, memory_bytes < footprint_bytes(curves)),
            *host_note(curves, choice, memory_bytes, Machine(device, hardware, terms)),
        ],
    }
    if terms.walk == "nested":
        advice["host_page_bytes"] = choice.page_bytes
    return advice


def host_note(curves: Curves, choice: Choice, memory_bytes: int, machine: Machine) -> list[str]:
    """The host's page size that the choice needs, with nested page walks; none otherwise.

    A TLB entry covers the smaller of both pages. So the guest's TLB misses are those of the host's
    pages if these are smaller.
    """
    if machine.terms.walk != "nested" or choice.page_bytes == BASE_BYTES:
        return []
    chosen, base = (
        machine.rates(curves, size, memory_bytes) for size in (choice.page_bytes, BASE_BYTES)
    )
    split = replace(chosen, first_tlb=base.first_tlb, last_tlb=base.last_tlb)
    whole_ns, split_ns = (
        float(machine.times(rates, choice.page_bytes).total_ns) for rates in (chosen, split)
    )
    size = format_size(choice.page_bytes)
    return [
        f"the host must hold the guest's memory in pages of {size} or more, because a TLB entry "
        f"covers the smaller page of guest and host: with 4 KiB on the host, a reference takes "
        f"{format_percent(split_ns / whole_ns - 1)} longer"
    ]


def memory_of(memory: str | int, footprint: int) -> int:
    """The bytes of a size, or of a share of the footprint such as ``80%``."""
    if isinstance(memory, str) and memory.endswith("%"):
        if _is_above_all(memory):
            raise UsageError(
                f"a memory of {memory} is more than the program uses",
                hint="100% holds every page of it; more changes nothing",
            )
        return round(parse_share(memory) * footprint)
    return parse_size(memory)


def _is_above_all(share: str) -> bool:
    """Whether ``share`` is above 100%, such as ``200%``."""
    try:
        return float(share.removesuffix("%")) > 100
    except ValueError:
        return False


def unjudged(
    choice: Choice,
    target: str,
    sizes: Sequence[int],
    terms: Terms = TODAY,
    margin: float = MARGIN,
) -> list[str]:
    """A note on the sizes that the trace is too short to judge, and what to do."""
    if not choice.unjudged:
        return []
    smallest = choice.unjudged[0]
    needed = format_size(memory_to_judge(max(smallest, terms.readahead_bytes), margin))
    notes = [
        f"not judged: {', '.join(map(format_size, choice.unjudged))}; the memory holds fewer than "
        f"{EXACT_FROM} pages of these sizes, too few to judge from this trace. "
        f"{format_size(smallest)} needs {needed}: give that as --memory, or capture a longer run "
        "or a larger input"
    ]
    if not any(size in choice.times for size in sizes if size != BASE_BYTES):
        notes.append(
            f"4 KiB is the only size of {target} that could be judged, so this advice does not "
            "rule out the others"
        )
    return notes


def _small_gain(choice: Choice, sizes: Sequence[int]) -> list[str]:
    """A note on the larger size that was rejected because it gains too little."""
    best = min((size for size in sizes if size in choice.times), key=choice.total_ns.__getitem__)
    gain = 1 - choice.total_ns[best] / choice.base_ns
    if choice.page_bytes != BASE_BYTES or gain <= 0:
        return []
    return [
        f"{format_size(best)} is the fastest of these sizes with this memory, by "
        f"{format_percent(gain)}, but the advice keeps 4 KiB: the gain is less than "
        f"{format_percent(LEAST_GAIN)}, or would be lost with a little less memory"
    ]


def _notes(choice: Choice, target: Target, is_short: bool) -> list[str]:
    """Notes on how the machine differs from the figures; ``is_short``: the program does not fit."""
    notes = []
    is_larger = choice.page_bytes != BASE_BYTES
    if choice.ideal_bytes in IDEAL_BYTES and choice.regret > 0:
        notes.append(
            f"{format_size(choice.ideal_bytes)} would be best of 1 to 32 KiB and these sizes: it "
            f"gains {format_percent(choice.gain + choice.regret)} over 4 KiB"
        )
    if target.is_transparent and not is_larger and _gives_unasked():
        notes.append(
            "this machine gives programs 2 MiB pages without being asked; for 4 KiB only, set "
            f"{settings.SWITCHES}/{settings.GENERAL} to madvise"
        )
    if target.is_transparent and is_larger:
        notes.append(
            "the memory it takes assumes that every page grows; huge pages only for the heap take "
            "less and gain less"
        )
    if target.is_transparent and is_larger and is_short:
        # mm/memory.c of Linux 6.12, alloc_swap_folio(): only for synchronous devices.
        notes.append(
            "this memory does not hold the whole program: Linux reads transparent huge pages "
            "back as 4 KiB pages, and whole only from zram (6.12), so the gain is less than with "
            "base pages"
        )
    return notes


def _gives_unasked() -> bool:
    """Whether programs here get 2 MiB pages without asking."""
    return settings.present().get(settings.GENERAL) == "always"
