"""`pagewise pressure`: when memory was short in a system trace, and because of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.commands.fleets import FleetAddress, FleetEngine, FleetJobs, FleetOptions
from pagewise.commands.heat_map import heat_map
from pagewise.commands.options import Force, Json
from pagewise.commands.system_options import (
    Report,
    SystemTrace,
    Timeline,
    answer,
    show_systems,
)
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures
from pagewise.system_figures import figures_of_pressure
from pagewise.system_traces import pressure
from pagewise.terminal import Part, facts, figures
from pagewise.units import format_seconds, format_share, format_size

if TYPE_CHECKING:
    from pagewise.types import PressureInterval, ProcessSize, TracePressure

EXAMPLES = (
    "pagewise pressure phone.perfetto-trace",
    "pagewise pressure phone.perfetto-trace --report pressure.html",
    "pagewise pressure 'traces/*.perfetto-trace'",
)

INTERVALS_SHOWN = 8
"""How many intervals are listed, so that the summary fits a screen."""
SIZES_SHOWN = 5
"""How many processes are listed by their memory."""
CAUSES_SHOWN = 2
"""How many processes of an interval a row names."""


def run(
    trace: SystemTrace,
    report: Report = None,
    timeline: Timeline = None,
    force: Force = False,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Show intervals of reclaim, refaults and thrashing in a system trace, with their causes.

    For a folder or a pattern in quotes, show how the sums are spread over its traces.
    """
    options = FleetOptions(report, force, engine, address, jobs)
    if is_many(trace):
        show_systems("pressure", trace, figures_at, options, timeline, json=json)
        return
    options.refuse_engine()
    answer(pressure, summary, trace, report, timeline, force=force, json=json)


def figures_at(path: str) -> Figures:
    """The figures of a trace among many."""
    return figures_of_pressure(pressure(path))


def summary(found: TracePressure) -> list[Part]:
    """Sums, the longest intervals, the largest processes, and what DAMON found."""
    heat = found["heat"]
    return [*intervals(found), *largest(found["sizes"]), *(heat_map(heat) if heat else [])]


def compaction(found: TracePressure) -> list[tuple[str, str]]:
    """How long threads compacted memory, if the trace knows."""
    seconds = found["compaction_s"]
    return [] if seconds is None else [("compaction", format_seconds(seconds))]


def intervals(found: TracePressure) -> list[Part]:
    """Sums, and the longest intervals."""
    refaults = found["refault_bytes"]
    lines: list[Part] = [
        facts(
            [
                ("direct reclaim", format_seconds(found["direct_reclaim_s"])),
                ("kswapd", format_seconds(found["kswapd_s"])),
                *compaction(found),
                ("read again", "?" if refaults is None else format_size(refaults)),
                ("waits for pages read again", format_seconds(found["refault_wait_s"])),
                *known_sizes(found),
            ]
        )
    ]
    longest = sorted(found["intervals"], key=lambda each: each["start_s"] - each["end_s"])
    shown = sorted(longest[:INTERVALS_SHOWN], key=lambda each: each["start_s"])
    if not shown:
        return lines
    if len(shown) < len(found["intervals"]):
        lines.append(
            f"The longest {len(shown)} of {len(found['intervals'])} intervals; --json has all:"
        )
    columns = ["kind", "processes", "at", "lasts", "busy", "bytes", "stalled"]
    return [*lines, "", figures(columns, [row(each) for each in shown], words=2)]


def known_sizes(found: TracePressure) -> list[tuple[str, str]]:
    """Swap and the least free and available memory, as far as the trace has samples."""
    sizes = (
        ("swapped in", found["swapped_in_bytes"]),
        ("swapped out", found["swapped_out_bytes"]),
        ("least free memory", found["least_free_bytes"]),
        ("least available memory", found["least_available_bytes"]),
    )
    return [(name, format_size(size)) for name, size in sizes if size is not None]


def largest(sizes: list[ProcessSize]) -> list[Part]:
    """The processes with the most memory."""
    if not sizes:
        return []
    shown = sizes[:SIZES_SHOWN]
    proportional = [each["is_proportional"] for each in shown]
    columns = ["process", "largest", "last", "swapped"]
    rows = [
        [
            each["process"] or f"pid {each['pid']}",
            *(
                "?" if size is None else format_size(size)
                for size in (each["largest_bytes"], each["last_bytes"], each["swapped_bytes"])
            ),
        ]
        for each in shown
    ]
    size = "resident memory"
    if all(proportional):
        size = "proportional size (PSS)"
    elif any(proportional):
        size += ", or by proportional size (PSS) if that is all the trace has of a process"
    return ["", f"Largest processes, by {size}:", figures(columns, rows)]


def row(interval: PressureInterval) -> list[str]:
    """An interval as a row."""
    causes = [
        cause["process"] or f"pid {cause['pid']}" for cause in interval["processes"][:CAUSES_SHOWN]
    ]
    return [
        interval["kind"].replace("-", " "),
        ", ".join(causes),
        format_seconds(interval["start_s"]),
        format_seconds(interval["end_s"] - interval["start_s"]),
        format_seconds(interval["busy_s"]),
        format_size(interval["bytes"]),
        format_share(interval["stalled_share"]),
    ]
