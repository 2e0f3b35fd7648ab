"""How `info`, `analyze` and `misses` print the spread of figures over many recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pagewise.errors import UnreadableInput
from pagewise.fleet import Figures, Fleet, Spread, files_of, summary
from pagewise.recording import Progress
from pagewise.terminal import Part, facts, figures, say, show, show_json, watched
from pagewise.units import format_count, format_counted, format_figure, format_share

SHARES = ("share", "top_share", "pages_for_80_percent", "single_access", "never_returned", "ratio")
"""Parts of the names of figures that are shares."""
UNREADABLE_SHOWN = 3
"""How many files that could not be read get a line each."""


def show_fleet(
    command: str,
    paths: Sequence[str],
    figures_of: Callable[[str], Figures],
    *,
    json: bool,
) -> None:
    """Computes the figures of all recordings in folders and patterns, and prints their spread."""
    files = [file for path in paths for file in files_of(path)]
    with watched("reading", counted="recordings") as progress:
        result = summary(command, watching(files, progress), figures_of)
    if json:
        show_json(result)
    else:
        show(*lines(result))
    unreadable = result["unreadable"]
    for each in unreadable[:UNREADABLE_SHOWN]:
        say(f"note: left out: {each['error']}", path=each["trace"])
    if more := unreadable[UNREADABLE_SHOWN:]:
        say(f"note: left out {format_counted(len(more), 'more file')}; --json lists all")
    if not result["traces"]:
        raise UnreadableInput("none of the files can be read", path=paths[0])


def watching(files: Sequence[str], progress: Progress | None) -> Iterator[str]:
    """The files, with a report of progress before each."""
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files))
        yield file


def lines(result: Fleet) -> list[Part]:
    """A table of the figures, and the outliers of each."""
    rows = [
        [name, *(value(name, each) for each in values(spread)), str(spread["outliers_count"])]
        for name, spread in result["figures"].items()
    ]
    titles = ["figure", "min", "10 %", "median", "90 %", "max", "outliers"]
    parts: list[Part] = [f"{format_count(result['traces'])} recordings", ""]
    parts.append(figures(titles, rows, words=1))
    farthest = [
        (name, f"{value(name, outlier['value'])} in {outlier['trace']}")
        for name, spread in result["figures"].items()
        for outlier in spread["outliers"][:1]
    ]
    return [*parts, "", "farthest from the others", facts(farthest)] if farthest else parts


def values(spread: Spread) -> tuple[float, ...]:
    """The values of a row of the table."""
    return spread["min"], spread["p10"], spread["median"], spread["p90"], spread["max"]


def value(name: str, number: float) -> str:
    """A figure in its unit."""
    if any(part in name for part in SHARES):
        return format_share(number)
    return format_figure(number) if number < 100 else format_count(round(number))
