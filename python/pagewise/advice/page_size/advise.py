"""Which of a target's page sizes a program should have, its gain and cost, and how to set it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from pagewise.models.page_size_time import TODAY, Model, Terms, storage_of
from pagewise.reference_curves import EXACT_FROM
from pagewise.units import format_percent, format_size, parse_share, parse_size

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
) -> dict[str, Any]:
    """The advice as an object: sizes in bytes, times in nanoseconds per reference, shares.

    ``memory``: of the program, as a size or as a share of its footprint in 4 KiB pages (``"80%"``).
    ``storage``: a name of `pagewise devices` or a device file. ``target``: a name of the catalog;
    by default that of the processor that the program is made for, or else of this machine.
    ``terms``, ``model`` and ``margin`` as in `choose`.

    Fields: ``page_bytes``; ``gain`` over 4 KiB {low, typical, high}; ``ideal_bytes`` and
    ``regret``, what the target's sizes cost against 1 to 32 KiB; ``footprint_factor``;
    ``time_ns`` by size; ``unjudged_bytes``, sizes too large for this memory; ``settings`` with
    undo; ``notes``. Raises UsageError for unknown names and memories too small.
    """
    chosen_target = target_named(target, curves.architecture)
    device = storage_of(storage)
    memory_bytes = memory_of(memory, footprint_bytes(curves))
    sizes = chosen_target.sizes()
    choice = choose(
        curves, memory_bytes, device, sizes=sizes, terms=terms, model=model, margin=margin
    )
    low, high = choice.gain_interval
    return {
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
        "time_ns": {str(size): float(one.total_ns) for size, one in choice.times.items()},
        "unjudged_bytes": list(choice.unjudged),
        "settings": [each.to_json() for each in chosen_target.settings(choice.page_bytes)],
        "notes": [
            *cut_note(curves),
            *unjudged(choice, chosen_target.name, sizes, terms, margin),
            *_small_gain(choice, sizes),
            *_notes(choice, chosen_target, memory_bytes < footprint_bytes(curves)),
        ],
    }


def memory_of(memory: str | int, footprint: int) -> int:
    """Bytes of a size, or of a share of the footprint such as ``80%``."""
    if isinstance(memory, str) and memory.endswith("%"):
        if _is_above_all(memory):
            raise UsageError(
                f"a memory of {memory} is more than all that the program uses",
                hint="100% holds every page of it; with more nothing changes",
            )
        return round(parse_share(memory) * footprint)
    return parse_size(memory)


def _is_above_all(share: str) -> bool:
    """Whether ``200%`` or the like was asked for."""
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
    """Which sizes of a target the trace tells too little of, and what would tell more."""
    if not choice.unjudged:
        return []
    smallest = choice.unjudged[0]
    needed = format_size(memory_to_judge(max(smallest, terms.readahead_bytes), margin))
    notes = [
        f"not judged: {', '.join(map(format_size, choice.unjudged))}; the memory holds fewer than "
        f"{EXACT_FROM} such pages, too few for the trace to tell. {format_size(smallest)} takes "
        f"{needed}: give that as --memory, or capture a longer run or a larger input"
    ]
    if not any(size in choice.times for size in sizes if size != BASE_BYTES):
        notes.append(
            f"4 KiB is the only size of {target} that could be judged, so it says nothing "
            "against the others"
        )
    return notes


def _small_gain(choice: Choice, sizes: Sequence[int]) -> list[str]:
    """Which larger size was left for gaining too little."""
    best = min((size for size in sizes if size in choice.times), key=choice.total_ns.__getitem__)
    gain = 1 - choice.total_ns[best] / choice.base_ns
    if choice.page_bytes != BASE_BYTES or gain <= 0:
        return []
    return [
        f"{format_size(best)} is the quickest of these sizes with this memory, by "
        f"{format_percent(gain)}: 4 KiB stays where less than {format_percent(LEAST_GAIN)} is "
        "gained, or where a little less memory would lose it"
    ]


def _notes(choice: Choice, target: Target, is_short: bool) -> list[str]:
    """What stands between the figures and the machine; ``is_short``: not all of it fits."""
    notes = []
    is_larger = choice.page_bytes != BASE_BYTES
    if choice.ideal_bytes in IDEAL_BYTES and choice.regret > 0:
        notes.append(
            f"{format_size(choice.ideal_bytes)} would be best of 1 to 32 KiB and these sizes; not "
            f"to have it costs {format_percent(choice.regret)}"
        )
    if target.is_transparent and not is_larger and _gives_unasked():
        notes.append(
            "this machine gives programs 2 MiB unasked; for 4 KiB alone set "
            f"{settings.SWITCHES}/{settings.GENERAL} to madvise"
        )
    if target.is_transparent and is_larger:
        notes.append(
            "the memory it takes is that if every page grows; huge pages of the heap alone cost "
            "less, and gain less"
        )
    if target.is_transparent and is_larger and is_short:
        # mm/memory.c of Linux 6.12, alloc_swap_folio(): synchronous devices alone.
        notes.append(
            "this memory does not hold the whole program: Linux reads transparent huge pages back "
            "by 4 KiB, from zram alone whole (6.12), so less is gained than with base pages"
        )
    return notes


def _gives_unasked() -> bool:
    """Whether programs here get large huge pages without asking."""
    return settings.present().get(settings.GENERAL) == "always"
