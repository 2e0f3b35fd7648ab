"""Which page size: the one with the least time per reference among those that a target has.

Source: spec sheet S4 (procedure S4.2). It departs from it by counting instead of fitting, unless
another model is asked for, by asking a gain before it leaves 4 KiB, and by a margin of memory.
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
"""The page size that gains compare with."""
IDEAL_BYTES = tuple(1024 << step for step in range(6))
"""1 to 32 KiB, the sizes that S4 reports: what a restriction is compared with."""
LEAST_GAIN = 0.03
"""Below this a change of page size is not worth its trouble (S4.2: 3 to 5 %)."""
MEMORY_SPREAD = 0.1
"""How far the memory may differ from the given size; the gain's interval covers this range."""
MARGIN = 0.15
"""A choice is made for the mean over memories within this share. Faults fall in steps, and the next
run has its steps elsewhere: docs/studies/page-size-2g.md has what that saves on another input."""
WIDE_MARGIN = 0.25
"""The same where inputs differ in size as well."""
SPREAD_POINTS = 21


@dataclass(frozen=True)
class Choice:
    """A page size, what it gives and what it costs; times in nanoseconds per reference."""

    page_bytes: int
    time_ns: float
    base_ns: float
    """At 4 KiB."""
    gain: float
    """Share of the time at 4 KiB that it saves."""
    gain_interval: tuple[float, float]
    """Lowest and highest gain with a memory within `MEMORY_SPREAD`, and storage at its range."""
    ideal_bytes: int
    """The best of 1 to 32 KiB and of the sizes given, for exactly this memory."""
    regret: float
    """Time beyond that of ``ideal_bytes``, as a share of it."""
    footprint_factor: float
    """Memory that holds every page, against pages of 4 KiB."""
    times: dict[int, Times] = field(repr=False)
    """Of every size judged."""
    unjudged: tuple[int, ...] = ()
    """Sizes given that leave fewer than 64 frames, where a filtered trace tells too little."""

    @property
    def total_ns(self) -> dict[int, float]:
        """T_TOTAL of every size judged."""
        return {size: float(one.total_ns) for size, one in self.times.items()}


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
    """The best of ``sizes`` (bytes) for a memory of constant bytes.

    Best is the lowest mean time over memories within ``margin`` of ``memory_bytes``, a share. 4 KiB
    stays where the best gains less than ``least_gain``. Raises UsageError where the memory has
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
    total = {size: float(one.total_ns) for size, one in times.items()}
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
        regret=total[best] / total[ideal] - 1,
        footprint_factor=footprint_bytes(curves, best) / footprint_bytes(curves),
        times=times,
        unjudged=tuple(size for size in sizes if size not in times),
    )


def lowest_share(margin: float) -> float:
    """The smallest memory that the choice considers, as a share of the given one."""
    return 1 - max(margin, MEMORY_SPREAD)


def memory_to_judge(page_bytes: int, margin: float = MARGIN) -> int:
    """The smallest memory, in bytes, for which `choose` judges this page size or cluster."""
    return math.ceil(EXACT_FROM * page_bytes / lowest_share(margin))


def mean_times_ns(
    curves: Curves,
    sizes: Sequence[int],
    memory_bytes: int,
    machine: Machine,
    margin: float,
    model: Model = "exact",
) -> dict[int, float]:
    """By size, the mean T_TOTAL over memories within ``margin``: what is minimised."""
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
    """Times by size at memories evenly within ``spread`` of this one."""
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
    """Rates of every size: counted, or as a model gives them from ``samples`` (bytes).

    By default ``paper`` fits all sizes, as S4 does, and ``sampled`` four of them.
    """
    counted = {size: machine.rates(curves, size, memory_bytes) for size in sizes}
    if model == "exact":
        return counted
    from pagewise.models.page_size_fit import four_of, predicted

    samples = samples or (four_of(sizes) if model == "sampled" else sizes)
    return predicted(counted, samples, model, 0.5 / machine.references(curves))
