"""What a system trace answers: launches of apps, kills, and pressure on memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median
from typing import TypedDict

from pagewise import _core
from pagewise.bootstrap import ratio_interval
from pagewise.errors import NothingRecorded
from pagewise.ranges import Amount, Count
from pagewise.recording import PathLike, Progress
from pagewise.types import (
    TraceKills,
    TraceLaunch,
    TraceLaunches,
    TraceLaunchParts,
    TracePressure,
)

SEED = 1
"""The seed of the random numbers of intervals."""
LAUNCHES_MIN = 2
"""The fewest launches on each side that have an interval."""
PARTS = tuple(TraceLaunchParts.__annotations__)
"""The parts of a launch, which add up to its duration."""


class MedianLaunch(TypedDict):
    """The launches of an app in one trace."""

    launches: Count
    """Number of launches."""
    duration_s: Amount
    """Median duration."""
    parts: dict[str, float | None]
    """Median of each part; null if a launch does not have it."""


class LaunchChange(TypedDict):
    """The launches of an app in two traces."""

    process: str
    """The package of the app."""
    launch_class: str | None
    """`cold`, `warm` or `hot`; null if unknown."""
    before: MedianLaunch
    """The launches in the first trace."""
    after: MedianLaunch
    """The launches in the second trace."""
    ratio: Amount | None
    """The median duration after over that before; null if that is 0."""
    ratio_low: Amount | None
    """Lower end of the 95 % interval of the ratio; null with fewer than two launches on a side."""
    ratio_high: Amount | None
    """Upper end of the 95 % interval of the ratio."""
    verdict: str
    """`faster` or `slower` if the interval does not contain 1, otherwise `no difference shown`."""


class LaunchesCompared(TypedDict):
    """Launches in two traces, by app and class."""

    schema: str
    """Name and version of this layout."""
    before: str
    """The path of the first trace."""
    after: str
    """The path of the second trace."""
    seed: Count
    """The seed of the intervals, which are by bootstrap over launches."""
    changes: list[LaunchChange]
    """Apps that both traces launch, by name and class."""
    only_before: list[str]
    """Apps that only the first trace launches."""
    only_after: list[str]
    """Apps that only the second trace launches."""


def launches(trace: PathLike, *, progress: Progress | None = None) -> TraceLaunches:
    """The launches of apps in a system trace, and what each waited for.

    ``trace``: a trace of Perfetto, or another format of ``pagewise list formats`` for whole
    systems. Raises UnreadableInput.
    """
    return _core.launches(os.fspath(trace), progress=progress)


def kills(trace: PathLike, *, progress: Progress | None = None) -> TraceKills:
    """The kills in a system trace: who, when, why, who came back, and whether it was needed.

    Raises UnreadableInput.
    """
    return _core.trace_kills(os.fspath(trace), progress=progress)


def pressure(trace: PathLike, *, progress: Progress | None = None) -> TracePressure:
    """Intervals of direct reclaim, kswapd, refaults and thrashing in a system trace.

    Raises UnreadableInput.
    """
    return _core.pressure(os.fspath(trace), progress=progress)


def compare_launches(
    before: PathLike, after: PathLike, *, seed: int = SEED, progress: Progress | None = None
) -> LaunchesCompared:
    """Compares the launches in two system traces, by app and class.

    Raises UnreadableInput, and NothingRecorded if a trace has no launch.
    """
    sides = []
    for trace in (before, after):
        found = launches(trace, progress=progress)
        if not found["launches"]:
            raise NothingRecorded(
                f"{os.fspath(trace)}: has no finished launch",
                hint="record with the category am; `pagewise list recipes` prints a configuration",
            )
        sides.append(by_app(found["launches"]))
    first, second = sides
    both = [key for key in first if key in second]
    return {
        "schema": "pagewise.launches-compared/1",
        "before": os.fspath(before),
        "after": os.fspath(after),
        "seed": seed,
        "changes": [change(key, first[key], second[key], seed) for key in sorted(both, key=str)],
        "only_before": named(first.keys() - second.keys()),
        "only_after": named(second.keys() - first.keys()),
    }


def by_app(found: Sequence[TraceLaunch]) -> dict[tuple[str, str | None], list[TraceLaunch]]:
    """Launches by package and class."""
    grouped: dict[tuple[str, str | None], list[TraceLaunch]] = {}
    for launch in found:
        grouped.setdefault((launch["process"], launch["class"]), []).append(launch)
    return grouped


def named(keys: set[tuple[str, str | None]]) -> list[str]:
    """Packages with their classes."""
    return sorted(f"{process} ({kind or 'class unknown'})" for process, kind in keys)


def change(
    key: tuple[str, str | None],
    before: Sequence[TraceLaunch],
    after: Sequence[TraceLaunch],
    seed: int,
) -> LaunchChange:
    """The comparison of the launches of one app."""
    old, new = (typical(side) for side in (before, after))
    low = high = None
    newer, older = ([launch["duration_s"] for launch in side] for side in (after, before))
    ratio = new["duration_s"] / old["duration_s"] if old["duration_s"] else None
    is_enough = min(len(before), len(after)) >= LAUNCHES_MIN and min(older) > 0
    if is_enough:
        low, high = ratio_interval(newer, older, 0.5, seed, f"{key[0]} {key[1]}")
    verdict = "no difference shown"
    if low is not None and high is not None and not low <= 1 <= high:
        verdict = "faster" if high < 1 else "slower"
    return {
        "process": key[0],
        "launch_class": key[1],
        "before": old,
        "after": new,
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "verdict": verdict,
    }


def typical(found: Sequence[TraceLaunch]) -> MedianLaunch:
    """The medians of launches."""
    parts: dict[str, float | None] = {}
    for name in PARTS:
        values = [part_of(launch, name) for launch in found]
        known = [value for value in values if value is not None]
        parts[name] = median(known) if len(known) == len(values) else None
    return {
        "launches": len(found),
        "duration_s": median(launch["duration_s"] for launch in found),
        "parts": parts,
    }


def part_of(launch: TraceLaunch, name: str) -> float | None:
    """A part of a launch by its name."""
    value = dict(launch["parts"])[name]
    return float(value) if isinstance(value, int | float) else None
