"""Many recordings at once: the files of folders and patterns, and how figures are spread."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from glob import escape, glob, has_magic
from statistics import fmean, median, quantiles
from typing import NotRequired, TypeAlias, TypedDict

from pagewise.errors import PagewiseError, UnreadableInput, UsageError
from pagewise.fleet_figures import ERRORS, LOST, OF_SAMPLES, SAMPLE_ERROR_MAX, Figures
from pagewise.groups import FleetGroups, groups, none
from pagewise.ranges import Count
from pagewise.recording import Progress
from pagewise.storage import addresses_of, is_remote, local_path, readable, refuse_endless
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
"""How many reasons for leaving out files get a line each."""
OUTLIERS_FROM = 5
"""Among fewer recordings none is an outlier: what is usual would follow from two or three."""
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
    """Recordings that have this figure in their `outlying`, the farthest first, at most ten."""
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
    median of its group, or of all recordings if it is in none, in standard deviations. Fewer than
    five recordings, figures of samples, and samples that are too small have no scores."""
    group: NotRequired[Count | None]
    """The number of the recording's group in `groups`, from 1; null if it is in none."""
    lost: NotRequired[Count]
    """Number of records that the recording or its import did not keep; absent if the command does
    not count them, or has them among its figures."""


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
    stands for any folders. Hidden files and folders are left out. Broken links are kept, so that
    they are reported as unreadable. Raises UnreadableInput if there is no file.
    """
    if is_remote(path):
        files = addresses_of(path)
    else:
        place, start = local_path(path), path[: len(path) - len(local_path(path))]
        if os.path.isdir(place):
            files = list(_below(place))
        else:
            found = [place] if os.path.lexists(place) else _once(_matching(place))
            files = [each for each in found if os.path.isfile(each) or is_broken_link(each)]
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
    refused: list[OSError] = []
    for place, files in _folders(folder, refused):
        found = (os.path.join(place, name) for name in files if not name.startswith("."))
        yield from (each for each in found if os.path.isfile(each) or is_broken_link(each))
    yield from (error.filename for error in refused)


def _folders(folder: str, refused: list[OSError]) -> Iterator[tuple[str, list[str]]]:
    """A folder and those below it that are not hidden, each once, with the names of their files.

    Appends errors of folders that may not be read, or that vanish, to ``refused``.
    """
    seen: set[tuple[int, int]] = set()
    for place, folders, files in os.walk(folder, followlinks=True, onerror=refused.append):
        try:
            status = os.stat(place)
        except OSError as error:
            refused.append(error)
            folders.clear()
            continue
        if (identity := (status.st_dev, status.st_ino)) in seen:
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield place, files


def _matching(pattern: str) -> Iterator[str]:
    """The paths that match a pattern. For ``**``, no folder is entered twice: `glob.glob` follows
    links, and two links to a folder above make more paths than it can ever list."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        yield from glob(pattern)
        return
    place = parts.index("**")
    before, after = os.sep.join(parts[:place]), os.sep.join(parts[place + 1 :])
    if place > 0 and not before:
        before = os.sep
    bases = glob(before) if has_magic(before) else [before or os.curdir]
    for base in bases:
        for folder, _ in _folders(base, []):
            inner = folder if before else os.path.relpath(folder)
            start = "" if inner == os.curdir else escape(inner)
            yield from _matching(os.path.join(start, after or "*"))


def is_broken_link(path: str) -> bool:
    """Whether a path is a symbolic link that leads to nothing, or to itself."""
    return os.path.islink(path) and not os.path.exists(path)


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
    if is_broken_link(place):
        return UnreadableInput(f"{path}: is a link to a file that does not exist", path=path)
    try:
        refuse_endless(place)
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
    """The spread of figures over recordings that were read, and the groups of these.

    If half of the samples are too small, there are neither groups nor outliers.
    """
    recordings = [recording_of(trace, figures) for trace, figures in rows]
    names = dict.fromkeys(name for each in recordings for name in each["figures"])
    if has_small_samples(recordings):
        found = none("the samples are too small")
    else:
        held = [each["figures"] for each in recordings]
        found, numbers = groups([each["trace"] for each in recordings], held)
        for each, number in zip(recordings, numbers, strict=True):
            each["group"] = number
        for name in names:
            if not name.startswith(OF_SAMPLES):
                score(name, recordings)
    return {
        "schema": "pagewise.fleet/1",
        "command": command,
        "traces": len(recordings),
        "figures": {name: spread(name, recordings) for name in names},
        "recordings": recordings,
        "unreadable": unreadable,
        "groups": found,
    }


def recording_of(trace: str, figures: Figures) -> FleetTrace:
    """A recording with its figures, before it is compared with others."""
    shown = {name: value for name, value in figures.items() if name != LOST}
    found: FleetTrace = {"trace": trace, "figures": shown, "outlying": {}, "group": None}
    if LOST in figures:
        found["lost"] = int(figures[LOST])
    return found


def has_small_samples(recordings: Sequence[FleetTrace]) -> bool:
    """Whether half of the recordings have a sample so small that comparing them says little."""
    return any(error_of(recordings, name) > SAMPLE_ERROR_MAX for name in ERRORS)


def error_of(recordings: Sequence[FleetTrace], name: str) -> float:
    """The median over the recordings of how far estimates may be off; 0 without samples."""
    found = [each["figures"][name] for each in recordings if name in each["figures"]]
    return median(found) if found else 0.0


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


def score(name: str, recordings: Iterable[FleetTrace]) -> None:
    """Notes in the recordings that are outliers in a figure how far they are: from those of their
    group or, for recordings in no group, from all."""
    found = [each for each in recordings if name in each["figures"]]
    for number in dict.fromkeys(each.get("group") for each in found):
        inside = [each for each in found if each.get("group") == number]
        others = found if number is None else inside
        if len(others) < OUTLIERS_FROM:
            continue
        distances = scores(
            [each["figures"][name] for each in inside], [each["figures"][name] for each in others]
        )
        for each, distance in zip(inside, distances, strict=True):
            if abs(distance) > OUTLIER_SCORE:
                each["outlying"][name] = distance


def spread(name: str, recordings: Iterable[FleetTrace]) -> Spread:
    """How a figure is spread over the recordings that have it, with those that are outliers."""
    found = [each for each in recordings if name in each["figures"]]
    values = [each["figures"][name] for each in found]
    outliers = [each for each in found if name in each["outlying"]]
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


def scores(values: Iterable[float], others: Sequence[float]) -> list[float]:
    """The modified z-score of each value among ``others``: its distance from their median in
    standard deviations, which their median distance gives. If more than half of the others are
    equal, that is 0, and the mean distance takes its place; if all are equal, all scores are 0."""
    middle = median(others)
    distances = [abs(value - middle) for value in others]
    deviation = median(distances) / NORMAL_QUARTILE or fmean(distances) / NORMAL_DISTANCE
    return [(value - middle) / deviation if deviation else 0.0 for value in values]


def outlying(recordings: Iterable[FleetTrace]) -> list[FleetTrace]:
    """The recordings that are outliers in any figure, the farthest from a median first."""
    found = [each for each in recordings if each["outlying"]]
    return sorted(found, key=lambda each: (-farthest(each), each["trace"]))


def why_none_unlike(fleet: Fleet) -> str | None:
    """Why no recording can be called unlike the others; None if they were compared."""
    if fleet["traces"] < OUTLIERS_FROM:
        return f"fewer than {OUTLIERS_FROM} recordings are too few to be compared"
    return "the samples are too small" if has_small_samples(fleet.get("recordings") or []) else None


def lossy(recordings: Iterable[FleetTrace]) -> list[FleetTrace]:
    """The recordings that lost records, those first that lost most."""
    found = [each for each in recordings if each.get("lost")]
    return sorted(found, key=lambda each: (-each.get("lost", 0), each["trace"]))


def farthest(recording: FleetTrace) -> float:
    """The greatest distance of a recording from a median, in standard deviations; 0 if it is no
    outlier."""
    return max((abs(score) for score in recording["outlying"].values()), default=0.0)
