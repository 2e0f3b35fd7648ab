"""How `info`, `analyze` and `misses` print the spread of figures over many recordings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pagewise.errors import UsageError
from pagewise.fleet import (
    Fleet,
    FleetTrace,
    Spread,
    Unreadable,
    by_reason,
    files_in_words,
    files_of,
    outlying,
    summary,
)
from pagewise.fleet_figures import SAMPLE_ERROR_MAX, Figures, best_policies, in_words, written
from pagewise.recording import Progress
from pagewise.storage import refuse_unwritable
from pagewise.terminal import Part, facts, figures, say, show, show_json, watched
from pagewise.units import format_count, format_counted, format_seconds, format_share, format_size

REASONS_SHOWN = 3
"""How many reasons for leaving out files get a line each."""
OUTLYING_SHOWN = 10
"""How many recordings that are unlike the others get a line each."""
FIGURES_SHOWN = 3
"""How many figures such a line has."""

FleetReport: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="For a folder or a pattern: also write a page with the spread of each figure, every "
        "recording, and those that are unlike the others.",
    ),
]


def refuse_report(traces: Sequence[str], report: str | None, *, force: bool) -> None:
    """Raises UsageError if ``--report`` or ``--force`` is given for single recordings."""
    if report is not None:
        raise UsageError(
            "--report works only for a folder or a pattern",
            hint=f"for one recording: {shlex.join(['pagewise', 'report', *traces, '-o', report])}",
        )
    if force:
        raise UsageError("--force needs --report")


def show_fleet(
    command: str,
    paths: Sequence[str],
    figures_of: Callable[[str], Figures],
    *,
    report: str | None,
    force: bool,
    json: bool,
) -> None:
    """Computes the figures of all recordings in folders and patterns, and prints their spread.

    With ``report`` also writes the page. If no file can be read, prints nothing and raises
    UnreadableInput with the reasons, or UsageError if each file rules out the request.
    """
    files = [file for path in paths for file in files_of(path)]
    if report is not None:
        page = Path(report)
        refuse_unwritable(page, force=force)
        if page.exists() and any(page.samefile(file) for file in files):
            raise UsageError(
                f"{report} is also an input", hint="name a file outside the folder for --report"
            )
    elif force:
        raise UsageError("--force needs --report")
    with watched("reading", counted="recordings") as progress:
        result = summary(command, watching(files, progress), figures_of)
    if json:
        show_json(result)
    else:
        show(*lines(result))
    tell_unreadable(result["unreadable"])
    tell_small_samples(result)
    if report is not None:
        from pagewise.report import report as build

        made = build([dict(result)], report, force=force)
        say(f"{made['path']}: {format_size(made['bytes'])}", path=made["path"])


def watching(files: Sequence[str], progress: Progress | None) -> Iterator[str]:
    """The files, with a report of progress before each."""
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files))
        yield file


def tell_unreadable(unreadable: Sequence[Unreadable]) -> None:
    """Prints to standard error which files were left out, by reason."""
    grouped = by_reason(unreadable)
    for why, traces in grouped[:REASONS_SHOWN]:
        say(f"note: left out {files_in_words(traces)}: {why}", path=traces[0])
    if more := sum(len(traces) for _, traces in grouped[REASONS_SHOWN:]):
        say(f"note: left out {format_counted(more, 'more file')}; --json lists all")


def tell_small_samples(result: Fleet) -> None:
    """Prints to standard error that samples are too small for good estimates, if half are."""
    error = result["figures"].get("sample.error")
    if error and error["median"] > SAMPLE_ERROR_MAX:
        say(
            "note: in half of the recordings the sample is so small that miss ratios may be off by "
            f"{format_share(error['median'])} or more; --sample 32k takes 32,000 pages of large "
            "recordings, and small ones whole"
        )


def lines(result: Fleet) -> list[Part]:
    """A table of the figures, and the recordings that are unlike the others."""
    rows = [
        [
            in_words(name),
            *(written(name, value) for value in values(spread)),
            format_count(spread["outliers_count"]),
        ]
        for name, spread in result["figures"].items()
    ]
    titles = ["figure", "min", "10 %", "median", "90 %", "max", "outliers"]
    parts: list[Part] = [headline(result), "", figures(titles, rows, words=1)]
    parts += best(result)
    found = outlying(result["recordings"])
    if not found:
        return parts
    count = format_count(len(found))
    shown = f"{count} unlike the others, the farthest first:"
    if len(found) > OUTLYING_SHOWN:
        shown = f"{count} unlike the others; the farthest {OUTLYING_SHOWN} (--json has all):"
    return [*parts, "", shown, facts([differing(each) for each in found[:OUTLYING_SHOWN]])]


def best(result: Fleet) -> list[Part]:
    """In how many recordings each policy misses least; nothing for fewer than two policies."""
    counts = best_policies([each["figures"] for each in result["recordings"]])
    policies = list(dict.fromkeys(policy for row in counts.values() for policy in row))
    if len(policies) < 2:
        return []
    rows = [
        [frames, *(format_count(row.get(policy, 0)) for policy in policies)]
        for frames, row in counts.items()
    ]
    title = "recordings in which a policy misses least; equal policies count each:"
    return ["", title, figures(["frames", *policies], rows)]


def headline(result: Fleet) -> str:
    """How many recordings there are, and how much they hold."""
    text = format_counted(result["traces"], "recording")
    if left_out := len(result["unreadable"]):
        text += f", {format_counted(left_out, 'file')} left out"
    held = [each["figures"] for each in result["recordings"]]
    if events := total(held, "events"):
        text += f"; together {format_count(round(events))} events"
        if seconds := total(held, "duration_s"):
            text += f" and {format_seconds(seconds)}"
    return text


def total(held: Sequence[Mapping[str, float]], name: str) -> float:
    """The sum of a figure over the recordings that have it."""
    return sum(each.get(name, 0) for each in held)


def values(spread: Spread) -> tuple[float, ...]:
    """The values of a row of the table."""
    return spread["min"], spread["p10"], spread["median"], spread["p90"], spread["max"]


def differing(recording: FleetTrace) -> tuple[str, str]:
    """A recording, and the figures by which it is unlike the others, the farthest first."""
    scores = recording["outlying"]
    names = sorted(scores, key=lambda name: -abs(scores[name]))
    words = [f"{in_words(name)} {written(name, recording['figures'][name])}" for name in names]
    more = f"; {len(words) - FIGURES_SHOWN} more" if len(words) > FIGURES_SHOWN else ""
    return recording["trace"], "; ".join(words[:FIGURES_SHOWN]) + more
