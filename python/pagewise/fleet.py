"""Many recordings at once: the files of folders and patterns, and how figures are spread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import glob, has_magic
from statistics import median, quantiles
from typing import TypedDict

from pagewise.errors import PagewiseError, UnreadableInput, UsageError
from pagewise.ranges import Count
from pagewise.types import Analysis, Events, Misses

OUTLIER_SCORE = 3.5
"""Values with a greater modified z-score are outliers (Iglewicz and Hoaglin, How to Detect and
Handle Outliers, 1993)."""
NORMAL_QUARTILE = 0.6745
"""The median distance of a normal distribution from its mean, in standard deviations."""
OUTLIERS_MAX = 10
"""How many outliers a figure lists, the farthest first."""

Figures = Mapping[str, float]
"""Figures of one recording by name."""


class Outlier(TypedDict):
    """A recording whose figure is far from those of the others."""

    trace: str
    """The path of the recording."""
    value: float
    """The figure of that recording."""


class Spread(TypedDict):
    """How one figure is spread over the recordings that have it."""

    traces: Count
    """Number of recordings with the figure."""
    min: float
    """The smallest value."""
    p10: float
    """A tenth of the recordings have at most this value."""
    median: float
    """Half of the recordings have at most this value."""
    p90: float
    """Nine tenths of the recordings have at most this value."""
    max: float
    """The greatest value."""
    outliers: list[Outlier]
    """Recordings with a modified z-score above 3.5, the farthest first, at most ten."""
    outliers_count: Count
    """Number of outliers, also of those that are not listed."""


class Unreadable(TypedDict):
    """A file without figures."""

    trace: str
    """The path of the file."""
    error: str
    """Why the file could not be read."""


class Fleet(TypedDict):
    """Figures of many recordings, by their names in the results of one recording."""

    schema: str
    """Name and version of this layout."""
    command: str
    """The command that computed the figures of each recording."""
    traces: Count
    """Number of recordings that were read."""
    figures: dict[str, Spread]
    """The spread of each figure. Shares are fractions, times in seconds."""
    unreadable: list[Unreadable]
    """The files that could not be read."""


def is_many(path: str) -> bool:
    """Whether a path stands for several recordings: a folder, or a pattern that is no file."""
    return os.path.isdir(path) or (has_magic(path) and not os.path.lexists(path))


def files_of(path: str) -> list[str]:
    """The files in a folder and in the folders below it, or those that fit a pattern, by name.

    ``**`` in a pattern stands for any folders. Hidden files and folders are left out. Raises
    UnreadableInput if there is none.
    """
    if os.path.isdir(path):
        found = glob(os.path.join(_literal(path), "**"), recursive=True)
    else:
        found = glob(path, recursive=True)
    files = sorted(each for each in found if os.path.isfile(each))
    if not files:
        raise UnreadableInput(
            f"{path}: no file found", path=path, hint="give a folder of recordings or a pattern"
        )
    return files


def _literal(path: str) -> str:
    """A pattern that only fits this path."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def summary(command: str, paths: Iterable[str], figures_of: Callable[[str], Figures]) -> Fleet:
    """The figures of each recording, and their spread. A recording that fails is listed with its
    error; a mistake in the request, which fails on all of them, is raised."""
    values: dict[str, list[tuple[float, str]]] = {}
    unreadable: list[Unreadable] = []
    count = 0
    mistake: UsageError | None = None
    for path in paths:
        try:
            figures = figures_of(path)
        except PagewiseError as error:
            unreadable.append({"trace": path, "error": str(error)})
            mistake = mistake or (error if isinstance(error, UsageError) else None)
            continue
        count += 1
        for name, value in figures.items():
            values.setdefault(name, []).append((value, path))
    if not count and mistake:
        raise mistake
    return {
        "schema": "pagewise.fleet/1",
        "command": command,
        "traces": count,
        "figures": {name: spread(found) for name, found in values.items()},
        "unreadable": unreadable,
    }


def spread(found: Sequence[tuple[float, str]]) -> Spread:
    """How the values are spread; each comes with its recording."""
    values = sorted(value for value, _ in found)
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    outliers = outliers_of(found)
    return {
        "traces": len(values),
        "min": values[0],
        "p10": tenths[0],
        "median": median(values),
        "p90": tenths[8],
        "max": values[-1],
        "outliers": outliers[:OUTLIERS_MAX],
        "outliers_count": len(outliers),
    }


def outliers_of(found: Sequence[tuple[float, str]]) -> list[Outlier]:
    """The values with a modified z-score above the limit, the farthest first; none if more than
    half of the values are equal, because the score then has no scale."""
    middle = median(value for value, _ in found)
    scale = median(abs(value - middle) for value, _ in found)
    far = sorted((-abs(value - middle), trace, value) for value, trace in found)
    return [
        {"trace": trace, "value": value}
        for distance, trace, value in far
        if scale > 0 and NORMAL_QUARTILE * -distance / scale > OUTLIER_SCORE
    ]


def figures_of_analysis(result: Analysis) -> dict[str, float]:
    """The figures of an analysis that recordings are compared by."""
    if not result["accesses"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    figures: dict[str, float] = {
        "accesses": result["accesses"],
        "pages": result["pages"],
        "write_share": result["writes"] / result["accesses"],
        "top_share.0.1": result["top_share"]["0.1"],
        "pages_for_80_percent": result["pages_for_80_percent"],
        "single_access.pages": result["single_access"]["pages"],
        "reaccess_share": result["reaccess_share"],
    }
    if swap := result.get("swap"):
        figures["swap.pages_in_swap_max"] = swap["pages_in_swap_max"]
        figures["swap.never_returned.pages"] = swap["never_returned"]["pages"]
    return figures


def figures_of_misses(result: Misses) -> dict[str, float]:
    """Requests and pages, and the miss ratio of each policy with each number of frames."""
    if not result["requests"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    return {"requests": result["requests"], "pages": result["pages"]} | {
        f"miss_ratio.{policy}.{frames}": count / result["requests"]
        for policy, counts in result["misses"].items()
        for frames, count in counts.items()
    }


def figures_of_info(result: Events) -> dict[str, float]:
    """How much a recording holds and lost."""
    header = result["header"]
    figures: dict[str, float] = {
        "events": header["events"],
        "accesses": result["accesses"],
        "processes": len(header["processes"]),
        "lost": result["lost"],
    }
    if header["pages"] is not None:
        figures["pages"] = header["pages"]
    if result["duration_s"] is not None:
        figures["duration_s"] = result["duration_s"]
    return figures
