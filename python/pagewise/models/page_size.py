"""Chooses the page size with the least time per reference among those of a target.

Source: spec sheet S4 (procedure S4.2). It departs from S4 in three ways: it counts instead of
fitting, unless another model is requested; it leaves 4 KiB only for a minimum gain; and it applies
a margin of memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
from numpy.typing import ArrayLike

from pagewise.errors import UsageError
from pagewise.models.page_size_curves import Curves, footprint_bytes
from pagewise.models.page_size_time import (
    HARDWARE,
    LEVELS,
    TODAY,
    Hardware,
    Level,
    Machine,
    Model,
    Rates,
    Storage,
    Terms,
    Times,
)
from pagewise.reference_curves import EXACT_FROM
from pagewise.units import PAGE_BYTES, format_percent, format_size

BASE_BYTES = PAGE_BYTES
"""The page size to compare gains with."""
IDEAL_BYTES = tuple(1024 << step for step in range(6))
"""1 to 32 KiB, the sizes that S4 reports: a target is compared with them."""
LEAST_GAIN = 0.03
"""A smaller gain is not worth a change of page size (S4.2: 3 to 5 %)."""
MEMORY_SPREAD = 0.1
"""How far the memory may differ from the given size; the range of the gain covers this."""
MARGIN = 0.15
"""The choice is the best for the mean over memories within this share. Faults fall in steps, and
the steps of the next run differ: docs/studies/page-size-2g.md shows what the margin saves."""
WIDE_MARGIN = 0.25
"""The margin if the inputs also differ in size."""
SPREAD_POINTS = 21


@dataclass(frozen=True)
class Choice:
    """A page size, its gain and its cost; times in nanoseconds per reference."""

    page_bytes: int
    time_ns: float
    base_ns: float
    """The time with 4 KiB."""
    gain: float
    """Share of the time with 4 KiB that this size saves."""
    gain_interval: tuple[float, float]
    """Lowest and highest gain over memories within `MEMORY_SPREAD` and the range of the storage."""
    ideal_bytes: int
    """The best of 1 to 32 KiB and of the given sizes, for exactly this memory."""
    regret: float
    """The gain of ``ideal_bytes`` minus that of this size. Like the gain, it is a share of the time
    with 4 KiB: the time of the ideal size may be nearly nothing."""
    footprint_factor: float
    """The memory that holds every page, relative to that with 4 KiB."""
    times: dict[int, Times] = field(repr=False)
    """The times of every judged size."""
    unjudged: tuple[int, ...] = ()
    """The given sizes that leave fewer than 64 frames, too few for a filtered trace."""

    @property
    def total_ns(self) -> dict[int, float]:
        """T_TOTAL of every judged size."""
        return {size: float(time.total_ns) for size, time in self.times.items()}


def choose(
    curves: Curves,
    memory_bytes: int,
    storage: Storage,
    *,
    sizes: Sequence[int] = IDEAL_BYTES,
    hardware: Hardware = HARDWARE,
    terms: Terms = TODAY,
    model: Model = "exact",
    margin: float = MARGIN,
    least_gain: float = LEAST_GAIN,
) -> Choice:
    """The best of ``sizes`` (bytes) for a memory of a constant number of bytes.

    The best has the lowest mean time over memories within ``margin``, a share of ``memory_bytes``.
    4 KiB stays if the best gains less than ``least_gain``. Raises UsageError if the memory has
    hardly more than 64 pages of 4 KiB.
    """
    machine = Machine(storage, hardware, terms)
    lowest_bytes = memory_bytes * lowest_share(margin)
    known = sorted({*sizes, *IDEAL_BYTES, BASE_BYTES})
    judged = tuple(size for size in known if machine.can_judge(size, lowest_bytes))
    if BASE_BYTES not in judged:
        looked_at = "" if margin <= MARGIN else f" less {format_percent(margin)} (--margin)"
        raise UsageError(
            f"a memory of {format_size(memory_bytes)}{looked_at} is too small to judge a page size",
            hint=f"counts are exact from {EXACT_FROM} frames up",
        )

    mean_ns = mean_times_ns(curves, judged, memory_bytes, machine, margin, model)
    rates = rates_by_size(curves, judged, memory_bytes, machine, model)
    times = {size: machine.times(rates[size], size) for size in judged}
    total = {size: float(time.total_ns) for size, time in times.items()}
    best = min((size for size in judged if size in sizes), key=mean_ns.__getitem__)
    if 1 - mean_ns[best] / mean_ns[BASE_BYTES] < least_gain and BASE_BYTES in sizes:
        best = BASE_BYTES
    gains = [
        1 - near[best].total_ns / near[BASE_BYTES].total_ns
        for near in (
            times_within(curves, judged, memory_bytes, machine, MEMORY_SPREAD, model, level)
            for level in LEVELS
        )
    ]
    ideal = min(judged, key=total.__getitem__)
    return Choice(
        page_bytes=best,
        time_ns=total[best],
        base_ns=total[BASE_BYTES],
        gain=1 - total[best] / total[BASE_BYTES],
        gain_interval=(float(numpy.min(gains)), float(numpy.max(gains))),
        ideal_bytes=ideal,
        regret=(total[best] - total[ideal]) / total[BASE_BYTES],
        footprint_factor=footprint_bytes(curves, best) / footprint_bytes(curves),
        times=times,
        unjudged=tuple(size for size in sizes if size not in times),
    )


def lowest_share(margin: float) -> float:
    """The smallest memory that the choice considers, as a share of the given memory."""
    return 1 - max(margin, MEMORY_SPREAD)


def memory_to_judge(page_bytes: int, margin: float = MARGIN) -> int:
    """The smallest memory, in bytes, with which `choose` can judge this page size or cluster."""
    return math.ceil(EXACT_FROM * page_bytes / lowest_share(margin))


def mean_times_ns(
    curves: Curves,
    sizes: Sequence[int],
    memory_bytes: int,
    machine: Machine,
    margin: float,
    model: Model = "exact",
) -> dict[int, float]:
    """The mean T_TOTAL by size over memories within ``margin``, which `choose` minimises."""
    return {
        size: float(numpy.mean(times.total_ns))
        for size, times in times_within(
            curves, sizes, memory_bytes, machine, margin, model, "typical"
        ).items()
    }


def times_within(
    curves: Curves,
    sizes: Sequence[int],
    memory_bytes: int,
    machine: Machine,
    spread: float,
    model: Model,
    level: Level,
) -> dict[int, Times]:
    """Times by size at memories evenly spaced within ``spread`` of this memory."""
    memories = memory_bytes * numpy.linspace(1 - spread, 1 + spread, SPREAD_POINTS)
    rates = rates_by_size(curves, sizes, memories, machine, model)
    return {size: machine.times(rates[size], size, level) for size in sizes}


def rates_by_size(
    curves: Curves,
    sizes: Sequence[int],
    memory_bytes: ArrayLike,
    machine: Machine,
    model: Model,
    samples: Sequence[int] = (),
) -> dict[int, Rates]:
    """Rates of every size, counted or from a model of ``samples`` (bytes).

    By default, ``paper`` fits all sizes, as S4 does, and ``sampled`` fits four.
    """
    counted = {size: machine.rates(curves, size, memory_bytes) for size in sizes}
    if model == "exact":
        return counted
    from pagewise.models.page_size_fit import four_of, predicted

    samples = samples or (four_of(sizes) if model == "sampled" else sizes)
    return predicted(counted, samples, model, 0.5 / machine.references(curves))
