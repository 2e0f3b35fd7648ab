"""`pagewise launches`: what launches of apps waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.fleets import FleetAddress, FleetEngine, FleetJobs, FleetOptions
from pagewise.commands.options import Force, Json
from pagewise.commands.system_options import (
    ROWS_SHOWN,
    Report,
    SystemTrace,
    Timeline,
    answer,
    show_systems,
)
from pagewise.errors import UsageError
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures
from pagewise.system_figures import cpu_times, figures_of_launches
from pagewise.system_traces import LaunchChange, LaunchesCompared, compare_launches, launches
from pagewise.terminal import Part, cell, figures, show, show_json, watched
from pagewise.units import format_count, format_seconds, format_size

if TYPE_CHECKING:
    from pagewise.types import TraceLaunch, TraceLaunches

EXAMPLES = (
    "pagewise launches phone.perfetto-trace",
    "pagewise launches before.perfetto-trace after.perfetto-trace",
    "pagewise launches 'traces/*.perfetto-trace' --report fleet.html",
)


def run(
    trace: SystemTrace,
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[AFTER]",
            help="A second trace, whose launches are compared with those of the first.",
            show_default=False,
        ),
    ] = None,
    report: Report = None,
    timeline: Timeline = None,
    force: Force = False,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Show when apps were launched, and what each launch waited for.

    With two traces, compare the medians of each app. For a folder or a pattern in quotes, show how
    the figures are spread over its traces.
    """
    options = FleetOptions(report, force, engine, address, jobs)
    if after is not None:
        options.refuse_engine()
        for each in (trace, after):
            if is_many(each):
                raise UsageError(f"{each}: two traces are compared, not folders or patterns")
        for option, path in (("--report", report), ("--timeline", timeline)):
            if path is not None:
                raise UsageError(f"{option}: shows one trace", hint="leave out the second trace")
        if force:
            raise UsageError("--force needs --report or --timeline")
        with watched("reading traces") as progress:
            compared = compare_launches(trace, after, progress=progress)
        if json:
            show_json(compared)
        else:
            show(*changes(compared))
        return
    if is_many(trace):
        show_systems("launches", trace, figures_at, options, timeline, json=json)
        return
    options.refuse_engine()
    answer(launches, summary, trace, report, timeline, force=force, json=json)


def figures_at(path: str) -> Figures:
    """The figures of a trace among many."""
    return figures_of_launches(launches(path))


def summary(found: TraceLaunches) -> list[Part]:
    """The slowest launches with their parts."""
    count = len(found["launches"])
    noun = "launch" if count == 1 else "launches"
    words = f"{format_count(count)} {noun} in {format_seconds(found['duration_s'])}"
    more = [
        f"{format_count(number)} {what}"
        for number, what in (
            (found["unfinished"], "not finished in the trace"),
            (found["cancelled"], "cancelled"),
            (found["left_out"], "left out"),
        )
        if number
    ]
    lines: list[Part] = [", ".join([words, *more])]
    if names := [cell(each["process"] or "?") for each in found["unfinished_launches"]]:
        more_names = ", ..." if len(names) > ROWS_SHOWN else ""
        lines.append(f"not finished: {', '.join(names[:ROWS_SHOWN])}{more_names}")
    slowest = sorted(found["launches"], key=lambda launch: -launch["duration_s"])[:ROWS_SHOWN]
    if not slowest:
        return lines
    if len(slowest) < len(found["launches"]):
        lines.append(f"The slowest {len(slowest)}; --json has all:")
    columns = ["app", "class", "at", "took", "cpu", "I/O", "reclaim", "kswapd", "read", "kills"]
    lines += ["", figures(columns, [row(launch) for launch in slowest], words=2)]
    return [*lines, "", further(slowest[0]), *main_threads(slowest)]


def row(launch: TraceLaunch) -> list[str]:
    """A launch as a row."""
    parts = launch["parts"]
    read = launch["cache_miss_bytes"]
    return [
        launch["process"],
        launch["class"] or "?",
        format_seconds(launch["start_s"]),
        format_seconds(launch["duration_s"]),
        format_seconds(parts["cpu_s"]),
        format_seconds(parts["refault_s"]),
        format_seconds(parts["direct_reclaim_s"]),
        format_seconds(parts["kswapd_s"]),
        "?" if read is None else format_size(read),
        "?" if launch["kills"] is None else format_count(launch["kills"]),
    ]


def further(launch: TraceLaunch) -> str:
    """What the columns of a launch leave out: parts of its processor time, swap-ins, kills."""
    words = []
    ran_s, ready_s = cpu_times(launch)
    if ran_s is not None:
        ran = f"all threads ran {format_seconds(ran_s)}"
        words.append(f"{ran} and were ready without a CPU {format_seconds(ready_s)}")
    swapped = launch["swap_in_bytes"]
    if ran_s is not None or swapped is not None:
        words.append(f"swapped in: {'unknown' if swapped is None else format_size(swapped)}")
    before = launch["kills_before"]
    kills = "unknown" if before is None else format_count(before)
    words.append(f"kills in the 10 s before: {kills}")
    return f"{cell(launch['process'])}: {'; '.join(words)}."


def main_threads(slowest: Sequence[TraceLaunch]) -> list[Part]:
    """What the first thread of the slowest launch did.

    The sum of its times is shorter than a launch that made the process.
    """
    launch = slowest[0]
    main = launch["main_thread"]
    if main is None:
        return []
    lived_s = sum(
        (
            main["running_s"],
            main["runnable_s"] or 0,
            main["uninterruptible_s"],
            main["sleeping_s"],
        )
    )
    return [
        f"The first thread of {cell(launch['process'])}, {format_seconds(lived_s)} of the launch: "
        f"it ran {format_seconds(main['running_s'])}, was ready without a CPU "
        f"{format_seconds(main['runnable_s'])}, waited uninterruptibly "
        f"{format_seconds(main['uninterruptible_s'])} "
        f"({format_seconds(main['io_s'])} of it for I/O), slept "
        f"{format_seconds(main['sleeping_s'])}.",
    ]


def changes(compared: LaunchesCompared) -> list[Part]:
    """The comparison of two traces."""
    rows = [changed(change) for change in compared["changes"]]
    columns = ["app", "class", "before", "after", "ratio", "95 % interval", "launches", "verdict"]
    lines: list[Part] = [figures(columns, rows, words=2)] if rows else ["No app is in both traces."]
    for side, names in (("first", compared["only_before"]), ("second", compared["only_after"])):
        if names:
            lines.append(f"Only in the {side} trace: {', '.join(map(cell, names))}")
    return lines


def changed(change: LaunchChange) -> list[str]:
    """A comparison as a row."""
    before, after = change["before"], change["after"]
    low, high, ratio = change["ratio_low"], change["ratio_high"], change["ratio"]
    return [
        change["process"],
        change["launch_class"] or "?",
        format_seconds(before["duration_s"]),
        format_seconds(after["duration_s"]),
        "?" if ratio is None else f"{ratio:.2f}",
        "?" if low is None or high is None else f"{low:.2f} to {high:.2f}",
        f"{before['launches']}, {after['launches']}",
        change["verdict"],
    ]
