"""Many recordings at once: the files of folders and patterns, and how figures are spread."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from glob import glob, has_magic
from statistics import fmean, median, quantiles
from typing import NotRequired, TypeAlias, TypedDict

from pagewise.errors import PagewiseError, UnreadableInput, UsageError
from pagewise.fleet_figures import Figures
from pagewise.groups import FleetGroups, groups
from pagewise.ranges import Count
from pagewise.recording import Progress
from pagewise.storage import addresses_of, is_remote, local_path, readable
from pagewise.units import format_counted

FiguresOf: TypeAlias = Callable[[str], Figures]
"""Gives the figures of the recording at a path. Raises PagewiseError."""
Answer: TypeAlias = dict[str, float] | PagewiseError
"""The figures of a recording, or why it has none."""
Runner: TypeAlias = Callable[[Sequence[str], FiguresOf], Iterator[Answer]]
"""Gives the answer for each path, in their order."""

OUTLIER_SCORE = 3.5
"""Values with a greater modified z-score are outliers (Iglewicz and Hoaglin, How to Detect and
Handle Outliers, 1993)."""
NORMAL_QUARTILE = 0.6745
"""The median distance of a normal distribution from its mean, in standard deviations."""
NORMAL_DISTANCE = 0.7979
"""The mean distance of a normal distribution from its mean, in standard deviations: the square root
of 2 / pi."""
LINE = re.compile(r":([0-9]+): ")
"""The line that an error names after the path."""
REASONS_MAX = 10
"""How many reasons an error lists if no file can be read."""
OUTLIERS_MAX = 10
"""How many outliers a figure lists, the farthest first."""


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


class FleetTrace(TypedDict):
    """The figures of one recording among many."""

    trace: str
    """The path of the recording."""
    figures: dict[str, float]
    """The figures of the recording."""
    outlying: dict[str, float]
    """The modified z-scores above 3.5 or below -3.5, by figure: how far the recording is from the
    median, in standard deviations."""
    group: NotRequired[Count | None]
    """The number of the recording's group in `groups`, from 1; null if it is in none."""


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
    recordings: list[FleetTrace]
    """Every recording that was read, in the order of the paths."""
    unreadable: list[Unreadable]
    """The files that could not be read."""
    groups: NotRequired[FleetGroups]
    """Groups of recordings whose figures are alike."""


def is_many(path: str) -> bool:
    """Whether a path stands for several recordings: a folder, or a pattern that is no file.

    An address always does, even that of a single file.
    """
    if os.path.lexists(path):
        return os.path.isdir(path)
    return "://" in path or has_magic(path)


def files_of(path: str) -> list[str]:
    """The files in a folder and in the folders below it, or those that fit a pattern, by name.

    ``path`` may be an fsspec address, and the files then are addresses too. ``**`` in a pattern
    stands for any folders. Hidden files and folders are left out. Raises UnreadableInput if there
    is no file.
    """
    if is_remote(path):
        files = addresses_of(path)
    else:
        place, start = local_path(path), path[: len(path) - len(local_path(path))]
        if os.path.isdir(place):
            files = list(_below(place))
        else:
            found = [place] if os.path.lexists(place) else _once(glob(place, recursive=True))
            files = [each for each in found if os.path.isfile(each)]
        files = sorted(f"{start}{each}" for each in files)
    if not files:
        raise UnreadableInput(
            f"{path}: no file found", path=path, hint="give a folder of recordings or a pattern"
        )
    return files


def _below(folder: str) -> Iterator[str]:
    """The files in a folder and below it, and folders that may not be read: those are reported as
    files that cannot be read are. Links to folders are followed, but no folder is read twice, so
    that a link to a folder above ends."""
    seen: set[tuple[int, int]] = set()
    refused: list[OSError] = []
    for place, folders, files in os.walk(folder, followlinks=True, onerror=refused.append):
        status = os.stat(place)
        if (identity := (status.st_dev, status.st_ino)) in seen:
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found = (os.path.join(place, name) for name in files if not name.startswith("."))
        yield from filter(os.path.isfile, found)
    yield from (error.filename for error in refused)


def _once(paths: Iterable[str]) -> list[str]:
    """The paths without those that reach the same file through a link to a folder, as ``**`` does
    again and again where a link leads to a folder above; of these, the shortest."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(paths, key=len):
        folder, name = os.path.split(path)
        found.setdefault((os.path.realpath(folder), name), path)
    return list(found.values())


def answer(path: str, figures_of: FiguresOf) -> Answer:
    """The figures of the recording at a path or address, or why it has none.

    What is at an address is copied to a temporary file first, and read there.
    """
    place = local_path(path)
    try:
        with readable(path) if is_remote(path) else nullcontext(place) as copy:
            place = str(copy)
            return dict(figures_of(place))
    except PagewiseError as error:
        if place == path:
            return error
        text = str(error).replace(place, path)
        hint = error.hint and error.hint.replace(place, path)
        return type(error)(text, path=path, position=error.position, hint=hint)


def in_turn(paths: Sequence[str], figures_of: FiguresOf) -> Iterator[Answer]:
    """The answer for each path, one after the other."""
    return (answer(path, figures_of) for path in paths)


def summary(
    command: str,
    paths: Iterable[str],
    figures_of: FiguresOf,
    *,
    run: Runner = in_turn,
    progress: Progress | None = None,
) -> Fleet:
    """The figures of each recording, their spread, and groups of recordings that are alike.

    A recording that fails is listed with its error. If all fail, raises one error with the reasons.
    ``progress`` counts recordings.
    """
    files = list(paths)
    rows: list[tuple[str, Figures]] = []
    unreadable: list[Unreadable] = []
    errors: list[PagewiseError] = []
    for done, (path, found) in enumerate(zip(files, run(files, figures_of), strict=True), 1):
        if progress is not None:
            progress(done, len(files))
        if isinstance(found, PagewiseError):
            unreadable.append({"trace": path, "error": str(found)})
            errors.append(found)
        else:
            rows.append((path, found))
    if errors and not rows:
        raise nothing_read(unreadable, errors)
    return of_rows(command, rows, unreadable)


def of_rows(
    command: str, rows: Sequence[tuple[str, Figures]], unreadable: list[Unreadable]
) -> Fleet:
    """The spread of figures over recordings that were read, and the groups of these."""
    found, numbers = groups([trace for trace, _ in rows], [figures for _, figures in rows])
    recordings: list[FleetTrace] = [
        {"trace": trace, "figures": dict(figures), "outlying": {}, "group": number}
        for (trace, figures), number in zip(rows, numbers, strict=True)
    ]
    names = dict.fromkeys(name for each in recordings for name in each["figures"])
    return {
        "schema": "pagewise.fleet/1",
        "command": command,
        "traces": len(recordings),
        "figures": {name: spread(name, recordings) for name in names},
        "recordings": recordings,
        "unreadable": unreadable,
        "groups": found,
    }


def nothing_read(
    unreadable: Sequence[Unreadable], errors: Sequence[PagewiseError]
) -> PagewiseError:
    """The error if no recording can be read: the reasons, each with a file.

    A mistake in the request, which recordings that can be read refuse in the same words, is the
    error itself.
    """
    mistakes = [error for error in errors if isinstance(error, UsageError)]
    if len({str(error) for error in mistakes}) == 1:
        return mistakes[0]
    is_mistake = len(mistakes) == len(errors)
    grouped = by_reason(unreadable)
    lines = [f"  {files_in_words(traces)}: {why}" for why, traces in grouped[:REASONS_MAX]]
    if more := sum(len(traces) for _, traces in grouped[REASONS_MAX:]):
        lines.append(f"  {format_counted(more, 'more file')} for other reasons")
    first = unreadable[0]["trace"]
    hints = {error.hint for error in errors}
    hint = hints.pop() if len(hints) == 1 else None
    kind = UsageError if is_mistake else UnreadableInput
    return kind(
        "\n".join(["none of the files can be read:", *lines]),
        path=first,
        hint=hint
        or "to see which formats can be read: pagewise list formats; to see what a file holds: "
        f"pagewise info {shlex.quote(first)}",
    )


def by_reason(unreadable: Iterable[Unreadable]) -> list[tuple[str, list[str]]]:
    """The files without figures by the reason, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for each in unreadable:
        found.setdefault(reason(each), []).append(each["trace"])
    return sorted(found.items(), key=lambda row: -len(row[1]))


def reason(unreadable: Unreadable) -> str:
    """Why a file could not be read, without its path."""
    why = unreadable["error"].removeprefix(unreadable["trace"])
    if match := LINE.match(why):
        return f"line {match[1]}: {why[match.end() :]}"
    return why.lstrip(": ")


def files_in_words(traces: Sequence[str]) -> str:
    """Files that have a reason in common: the first, and how many there are."""
    if len(traces) == 1:
        return traces[0]
    return f"{format_counted(len(traces), 'file')}, such as {traces[0]}"


def spread(name: str, recordings: Iterable[FleetTrace]) -> Spread:
    """How a figure is spread over the recordings that have it; notes in those that are outliers
    how far they are."""
    found = [each for each in recordings if name in each["figures"]]
    values = [each["figures"][name] for each in found]
    outliers = []
    for each, score in zip(found, scores(values), strict=True):
        if abs(score) > OUTLIER_SCORE:
            each["outlying"][name] = score
            outliers.append(each)
    outliers.sort(key=lambda each: (-abs(each["outlying"][name]), each["trace"]))
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    return {
        "traces": len(values),
        "min": min(values),
        "p10": tenths[0],
        "median": median(values),
        "p90": tenths[8],
        "max": max(values),
        "outliers": [
            {"trace": each["trace"], "value": each["figures"][name]}
            for each in outliers[:OUTLIERS_MAX]
        ],
        "outliers_count": len(outliers),
    }


def scores(values: Sequence[float]) -> list[float]:
    """The modified z-score of each value: its distance from the median in standard deviations,
    which the median distance gives. If more than half of the values are equal, that is 0, and the
    mean distance takes its place; if all are equal, all scores are 0."""
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    deviation = median(distances) / NORMAL_QUARTILE or fmean(distances) / NORMAL_DISTANCE
    return [(value - middle) / deviation if deviation else 0.0 for value in values]


def outlying(recordings: Iterable[FleetTrace]) -> list[FleetTrace]:
    """The recordings that are outliers in any figure, the farthest from a median first."""
    found = [each for each in recordings if each["outlying"]]
    return sorted(found, key=lambda each: (-farthest(each), each["trace"]))


def farthest(recording: FleetTrace) -> float:
    """The greatest distance of a recording from a median, in standard deviations; 0 if it is no
    outlier."""
    return max((abs(score) for score in recording["outlying"].values()), default=0.0)
