"""Which page size: the one with the least time per reference among those that a target has.

Source: spec sheet S4 (procedure S4.2). It departs from it by counting instead of fitting, unless
another model is asked for, and by asking a gain before it leaves 4 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
from numpy import ndarray

from pagewise.errors import UsageError
from pagewise.models.page_size_curves import FRAMES_MIN, Curves, footprint_bytes
from pagewise.models.page_size_time import (
    HARDWARE,
    LEVELS,
    TODAY,
    Hardware,
    Level,
    Machine,
    Storage,
    Terms,
    Times,
)
from pagewise.units import format_size

BASE_BYTES = 4096
"""The page size that gains are told against."""
IDEAL_BYTES = tuple(1024 << step for step in range(6))
"""1 to 32 KiB, the sizes that S4 reports: what a restriction is compared with."""
LEAST_GAIN = 0.03
"""Below this a change of page size is not worth its trouble (S4.2: 3 to 5 %)."""
MEMORY_SPREAD = 0.1
"""How far the memory may be from what was said: the gain's interval goes over it."""
SLOW_SETUP_NS = 50_000.0
"""From here on a device punishes a wrong size so hard that the choice keeps a margin."""
SPREAD_POINTS = 21
CAUTION = 0.9
"""Quantile of the time over the memories of a margin."""


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
    """Lowest and highest gain with a memory within ``MEMORY_SPREAD``, and storage at its range."""
    ideal_bytes: int
    """The best of 1 to 32 KiB and of the sizes given."""
    regret: float
    """Time beyond that of ``ideal_bytes``, as a share of it."""
    footprint_factor: float
    """Memory that holds every page, against pages of 4 KiB."""
    times: dict[int, Times] = field(repr=False)
    """Of every size judged."""
    unjudged: tuple[int, ...] = ()
    """Sizes given that leave fewer than 64 frames, where a filtered trace tells too little."""


def choose(
    curves: Curves,
    memory_bytes: int,
    storage: Storage,
    *,
    sizes: Sequence[int] = IDEAL_BYTES,
    hardware: Hardware = HARDWARE,
    terms: Terms = TODAY,
    margin: float | None = None,
    least_gain: float = LEAST_GAIN,
) -> Choice:
    """The best of ``sizes`` (bytes) for a memory of constant bytes.

    ``margin``: choose for the 90th percentile of the time over memories within this share of
    ``memory_bytes``; by default `MEMORY_SPREAD` for slow storage and none otherwise. 4 KiB stays
    where the best size gains less than ``least_gain``. Raises UsageError where the memory has
    hardly more than 64 pages of 4 KiB.
    """
    machine = Machine(storage, hardware, terms)
    if margin is None:
        margin = default_margin(storage)
    lowest_bytes = memory_bytes * (1 - max(margin, MEMORY_SPREAD))
    known = {*sizes, *IDEAL_BYTES, BASE_BYTES}
    judged = sorted(size for size in known if machine.can_judge(size, lowest_bytes))
    if BASE_BYTES not in judged:
        raise UsageError(
            f"a memory of {format_size(memory_bytes)} is too small to judge a page size",
            hint=f"counts are exact from {FRAMES_MIN} frames up",
        )
    times = {
        size: machine.times(machine.rates(curves, size, memory_bytes), size) for size in judged
    }
    total = {size: float(one.total_ns) for size, one in times.items()}
    cautious = {
        size: float(numpy.quantile(total_ns(curves, size, memory_bytes, margin, machine), CAUTION))
        for size in judged
    }
    best = min((size for size in judged if size in sizes), key=cautious.__getitem__)
    gain = 1 - total[best] / total[BASE_BYTES]
    if gain < least_gain and BASE_BYTES in sizes:
        best, gain = BASE_BYTES, 0.0
    ideal = min(judged, key=total.__getitem__)
    return Choice(
        page_bytes=best,
        time_ns=total[best],
        base_ns=total[BASE_BYTES],
        gain=gain,
        gain_interval=gain_interval(curves, best, memory_bytes, machine),
        ideal_bytes=ideal,
        regret=total[best] / total[ideal] - 1,
        footprint_factor=footprint_bytes(curves, best) / footprint_bytes(curves),
        times=times,
        unjudged=tuple(size for size in sizes if size not in times),
    )


def default_margin(storage: Storage) -> float:
    """The share of the memory that a choice for this storage allows for."""
    return MEMORY_SPREAD if storage.setup_ns["typical"] >= SLOW_SETUP_NS else 0.0


def gain_interval(
    curves: Curves, page_bytes: int, memory_bytes: int, machine: Machine
) -> tuple[float, float]:
    """The lowest and highest gain over the spread of the memory and the range of the storage."""
    gains = [
        1
        - total_ns(curves, page_bytes, memory_bytes, MEMORY_SPREAD, machine, level)
        / total_ns(curves, BASE_BYTES, memory_bytes, MEMORY_SPREAD, machine, level)
        for level in LEVELS
    ]
    return float(numpy.min(gains)), float(numpy.max(gains))


def total_ns(
    curves: Curves,
    page_bytes: int,
    memory_bytes: int,
    spread: float,
    machine: Machine,
    level: Level = "typical",
) -> ndarray:
    """T_TOTAL at memories evenly within ``spread`` of this one."""
    memories = memory_bytes * numpy.linspace(1 - spread, 1 + spread, SPREAD_POINTS)
    return machine.times(machine.rates(curves, page_bytes, memories), page_bytes, level).total_ns
