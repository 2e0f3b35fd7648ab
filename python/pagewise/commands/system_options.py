"""What the commands on system traces share: the argument, losses, and what a trace lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar

import typer

from pagewise.commands.fleets import FleetOptions, show_fleet
from pagewise.commands.options import tell_losses
from pagewise.commands.recordings import reject_lines
from pagewise.errors import UsageError
from pagewise.recording import Progress
from pagewise.storage import refuse_unwritable, write_text
from pagewise.terminal import Part, say, show, show_json, watched
from pagewise.types import TraceKills, TraceLaunches, TracePressure
from pagewise.units import format_count, format_counted, format_size

if TYPE_CHECKING:
    from pagewise.fleet import FiguresOf

SystemTrace: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace of Perfetto or trace-cmd (trace.dat), text of ftrace, a logcat, or snapshots "
        "of /proc; .gz, .zst and .zip are decompressed; - is standard input.",
        show_default=False,
    ),
]
Report: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Also write launches, kills and pressure on one time axis; for a folder or a pattern, "
        "the spread of each figure and every trace.",
    ),
]
Timeline: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--timeline",
        metavar="FILE.json",
        help="Also write launches, kills and pressure as a file for ui.perfetto.dev.",
    ),
]
RECIPES = "`pagewise list recipes` prints configurations that record more"
ROWS_SHOWN = 12
"""How many rows of a table a screen shows; --json has all."""


Found = TypeVar("Found", TraceKills, TraceLaunches, TracePressure)
Returned = TypeVar("Returned", covariant=True)


class Finder(Protocol[Returned]):
    """A function of ``pagewise.system_traces`` that answers from one trace."""

    def __call__(self, trace: str, *, progress: Progress | None = None) -> Returned:
        """The answer. Raises UnreadableInput."""


def answer(
    find: Finder[Found],
    summary: Callable[[Found], Sequence[Part]],
    trace: str,
    report: str | None,
    timeline: str | None,
    *,
    force: bool,
    json: bool,
) -> None:
    """Finds the answer in the trace, prints it, and writes the report and the timeline asked for.

    ``summary`` gives the screen of what ``find`` found.
    """
    refuse_files(trace, report, timeline, force=force)
    with watched("reading the trace") as progress:
        found = find(trace, progress=progress)
    tell(found)
    if json:
        show_json(found)
    else:
        show(*summary(found))
        show_lacks(found["lacks"])
    write_files(trace, report, timeline, force=force)


def show_systems(
    command: str,
    traces: str,
    figures_of: FiguresOf,
    options: FleetOptions,
    timeline: str | None,
    *,
    json: bool,
) -> None:
    """Prints how figures are spread over the traces in a folder, or of those that fit a pattern."""
    if timeline is not None:
        raise UsageError("--timeline: shows one trace, neither a folder nor a pattern")
    show_fleet(command, [traces], figures_of, options, json=json)


def tell(result: TraceLaunches | TraceKills | TracePressure) -> None:
    """Prints to standard error what the trace lost, and where the answer may be incomplete."""
    for line in reject_lines(result["rejects"]):
        say(line)
    if result["rejected"]:
        say(f"note: {format_counted(result['rejected'], 'line')} could not be read")
    tell_losses(result["losses"], result["trace"])
    if result["repeated_packets"]:
        count = format_count(result["repeated_packets"])
        say(
            f"note: {count} packets are in the file twice, as if a trace was joined with itself; "
            "what they say counts twice"
        )
    if result["disordered"]:
        count = format_count(result["disordered"])
        say(f"note: {count} events come after later ones, so some times may be too short")
    if result["untracked"]:
        count = format_count(result["untracked"])
        say(
            f"note: {count} processes, threads or ranges of pages are beyond the limits, so some "
            "names, waits and refaults may be missing"
        )


def show_lacks(lacks: Sequence[str]) -> None:
    """Prints what the trace lacks."""
    if lacks:
        show("", f"The trace lacks: {'; '.join(lacks)}.", f"({RECIPES})")


def refuse_files(trace: str, report: str | None, timeline: str | None, *, force: bool) -> None:
    """Raises UsageError if a path cannot be a file about the trace; call it before the work.

    Report and timeline read the trace again, so it must not be a pipe. They never replace the
    trace, and another file only with ``force``.
    """
    asked = {"--report": report, "--timeline": timeline}
    paths = {option: path for option, path in asked.items() if path is not None}
    if not paths and force:
        raise UsageError("--force needs --report or --timeline")
    source = Path(trace)
    for option, path in paths.items():
        target = Path(path)
        if trace == "-" or source.is_fifo():
            raise UsageError(
                f"{option} reads the trace several times, which a pipe does not allow",
                hint="write the trace to a file first",
            )
        if source.exists() and target.exists() and source.samefile(target):
            raise UsageError(f"{path} is also an input", hint=f"name another file for {option}")
        refuse_unwritable(target, force=force)
    if len({Path(path).absolute() for path in paths.values()}) < len(paths):
        raise UsageError(f"{report} is named twice", hint="name another file for --timeline")


def write_files(trace: str, report: str | None, timeline: str | None, *, force: bool) -> None:
    """Writes the report and the timeline of a trace, if they are asked for."""
    if report is None and timeline is None:
        return
    from pagewise.system_traces import kills, launches, pressure

    found = (launches(trace), kills(trace), pressure(trace))
    if report is not None:
        from pagewise.report import report as build

        results: list[Mapping[str, object]] = [dict(each) for each in found]
        written = build(results, report, force=force)
        say(f"{written['path']}: {format_size(written['bytes'])}")
    if timeline is not None:
        from pagewise.timelines import timeline as events

        text = dumps(events(*found)) + "\n"
        write_text(Path(timeline), text)
        say(f"{timeline}: {format_size(len(text.encode()))}")
