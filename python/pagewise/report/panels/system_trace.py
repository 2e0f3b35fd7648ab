"""Launches, kills and pressure of a system trace, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagewise.report.heat import HeatRow, address_axis, heat_series
from pagewise.report.inputs import Inputs
from pagewise.report.model import (
    Axis,
    Chart,
    Column,
    Panel,
    Point,
    Series,
    Table,
    TableCell,
    View,
)
from pagewise.report.system_findings import format_launches
from pagewise.system_figures import came_back, cpu_times
from pagewise.units import format_counted, format_seconds, format_size

if TYPE_CHECKING:
    from pagewise.types import Judged, TraceKill, TraceLaunch

GROUP = "system-trace"
PARTS = {
    "kill_wait_s": "wait for kills",
    "direct_reclaim_s": "direct reclaim",
    "kswapd_s": "kswapd",
    "refault_s": "I/O",
    "swapin_s": "swap-ins",
    "cpu_s": "processor",
    "rest_s": "rest",
}
KINDS = ("direct-reclaim", "kswapd", "compaction", "refaults", "thrashing")
"""Kinds of pressure, in the order in which they are drawn, the first at the bottom."""
LAUNCH_COLUMNS = (
    Column("trace", "trace"),
    Column("process", "app"),
    Column("class", "class"),
    Column("start_s", "start", "seconds"),
    Column("duration_s", "took", "seconds"),
    *(Column(name, label, "seconds") for name, label in PARTS.items()),
    Column("running_s", "running", "seconds"),
    Column("runnable_s", "ready without a CPU", "seconds"),
    Column("cache_miss_bytes", "read", "bytes"),
    Column("swap_in_bytes", "swapped in", "bytes"),
    Column("kills_before", "kills in the 10 s before", "count"),
    Column("kills", "kills", "count"),
)
KILL_COLUMNS = (
    Column("trace", "trace"),
    Column("time_s", "time", "seconds"),
    Column("process", "process"),
    Column("pid", "pid", "count"),
    Column("adj", "adj", "count"),
    Column("reason", "reason"),
    Column("free_bytes", "free", "bytes"),
    Column("came_back_after_s", "came back after", "seconds"),
    Column("needless", "needless"),
    Column("late", "late"),
    Column("wrong_victim", "wrong victim"),
)
POLICY_COLUMNS = (
    Column("trace", "trace"),
    Column("policy", "policy"),
    Column("decisions", "decisions", "count"),
    Column("victims", "victims", "count"),
    Column("victims_named", "kills that agree", "count"),
    Column("victims_not_named", "kills that do not", "count"),
    Column("false_alarms", "false alarms", "count"),
    Column("missed_freezes", "missed freezes", "count"),
)
PRESSURE_COLUMNS = (
    Column("trace", "trace"),
    Column("kind", "kind"),
    Column("start_s", "start", "seconds"),
    Column("end_s", "end", "seconds"),
    Column("busy_s", "busy", "seconds"),
    Column("bytes", "bytes", "bytes"),
    Column("processes", "processes"),
)


def panel(inputs: Inputs) -> Panel | None:
    """Three charts that share the time axis; None without system traces."""
    names = list(dict.fromkeys([*inputs.launches, *inputs.trace_kills, *inputs.pressure]))
    if not names:
        return None
    results = [
        *inputs.launches.values(),
        *inputs.trace_kills.values(),
        *inputs.pressure.values(),
    ]
    # A log may name kills from before the first kernel event.
    killed = [kill["time_s"] for each in inputs.trace_kills.values() for kill in each["kills"]]
    high = max(each["duration_s"] for each in results) or 1
    time = Axis("time", "seconds", low=min([0, *killed]), high=high)
    charts = []
    if inputs.launches:
        charts.append(
            Chart(
                "system-trace-launches",
                "Launches: start, and how long each took",
                time,
                Axis("took", "seconds", low=0),
                [View(name, launch_series(inputs, name)) for name in names],
                "scatter",
                group=GROUP,
            )
        )
    if inputs.trace_kills:
        charts.append(
            Chart(
                "system-trace-kills",
                "Kills, by free memory then",
                time,
                Axis("free", "bytes", low=0),
                [View(name, kill_series(inputs, name)) for name in names],
                "scatter",
                group=GROUP,
            )
        )
    if any(found["intervals"] for found in inputs.pressure.values()):
        charts.append(
            Chart(
                "system-trace-pressure",
                "Pressure, by kind",
                time,
                Axis("", "count", low=0, high=len(KINDS) + 1, names=("", *map(spaced, KINDS))),
                [View(name, pressure_series(inputs, name)) for name in names],
                group=GROUP,
            )
        )
    charts += heat_charts(inputs, names, time)
    notes = []
    if inputs.launches:
        notes.append(
            "The parts of a launch add up to its duration; waits and processor time are sums over "
            "all threads, so the rest can be below 0."
        )
    if inputs.trace_kills:
        notes.append("A kill without known free memory is in the table only.")
    if any(found.get("replay") for found in inputs.trace_kills.values()):
        notes.append(
            "Kill policies are replayed at the trace's samples of memory and processes. A kill "
            "agrees if the policy would have killed the process by then."
        )
    lacks = {lack for found in inputs.pressure.values() for lack in found.get("lacks") or ()}
    if lacks:
        notes.append(f"Unknown, since the trace lacks it: {'; '.join(sorted(lacks))}.")
    title = "Launches, kills and pressure"
    return Panel("system-trace", title, finding(inputs), charts, tables(inputs), notes)


def launch_series(inputs: Inputs, name: str) -> list[Series]:
    """Launches by class."""
    by_class: dict[str, list[TraceLaunch]] = {}
    found = inputs.launches.get(name)
    for launch in found["launches"] if found else []:
        by_class.setdefault(launch["class"] or "class unknown", []).append(launch)
    return [
        Series(
            label,
            [(launch["start_s"], launch["duration_s"]) for launch in launches],
            [launch["process"] for launch in launches],
        )
        for label, launches in sorted(by_class.items())
    ]


def kill_series(inputs: Inputs, name: str) -> list[Series]:
    """Kills with known free memory, those that came back soon apart."""
    found = inputs.trace_kills.get(name)
    known = [kill for kill in found["kills"] if kill["free_bytes"] is not None] if found else []
    series = []
    for label, is_soon in (
        ("came back within 60 s", True),
        ("did not", False),
        ("did not before the trace ended", None),
    ):
        kills = [kill for kill in known if kill["came_back_soon"] is is_soon]
        if kills:
            points: list[Point] = [(kill["time_s"], kill["free_bytes"]) for kill in kills]
            series.append(Series(label, points, [named(kill) for kill in kills]))
    return series


def named(kill: TraceKill) -> str:
    """A kill in a few words."""
    process = kill["process"] or f"pid {kill['pid']}"
    return f"{process} (adj {kill['adj']}): {kill['reason'] or kill['killer']}"


def heat_charts(inputs: Inputs, names: Sequence[str], time: Axis) -> list[Chart]:
    """A map of time and addresses for each trace with regions of DAMON."""
    charts = []
    for number, (name, found) in enumerate(inputs.pressure.items()):
        heat = found.get("heat")
        if heat is None or not heat["ranges"]:
            continue
        rows = [HeatRow(row["first"], row["last"], row["accesses"]) for row in heat["ranges"]]
        series = heat_series(rows, heat["start_s"], heat["bin_s"], "samples an interval")
        of_trace = f", {name}" if len(inputs.pressure) > 1 else ""
        charts.append(
            Chart(
                f"system-trace-heat-{number}",
                f"Accesses that DAMON found, by time and first address of a range{of_trace}",
                time,
                address_axis(rows),
                [View(each, series if each == name else []) for each in names],
                "scatter",
                group=GROUP,
                cell=(heat["bin_s"], 1),
            )
        )
    return charts


def spaced(kind: str) -> str:
    """A kind of pressure as text."""
    return kind.replace("-", " ")


def pressure_series(inputs: Inputs, name: str) -> list[Series]:
    """Intervals as bars at the height of their kind; a point without a value parts them."""
    found = inputs.pressure.get(name)
    series = []
    for height, kind in enumerate(KINDS, 1):
        points: list[Point] = []
        for interval in found["intervals"] if found else []:
            if interval["kind"] == kind:
                points += [(interval["start_s"], height), (interval["end_s"], height)]
                points.append((interval["end_s"], None))
        if points:
            series.append(Series(spaced(kind), points))
    return series


def tables(inputs: Inputs) -> list[Table]:
    """Every launch, kill and interval."""
    launches: list[Sequence[TableCell]] = [
        (
            name,
            launch["process"],
            launch["class"],
            launch["start_s"],
            launch["duration_s"],
            *part_values(launch),
            *cpu_times(launch),
            launch.get("cache_miss_bytes"),
            launch.get("swap_in_bytes"),
            launch.get("kills_before"),
            launch["kills"],
        )
        for name, found in inputs.launches.items()
        for launch in found["launches"]
    ]
    kills: list[Sequence[TableCell]] = [
        (
            name,
            kill["time_s"],
            kill["process"],
            kill["pid"],
            kill["adj"],
            kill["reason"] or kill["killer"],
            kill["free_bytes"],
            kill["came_back_after_s"],
            *(judged(kill[what]) for what in ("needless", "late", "wrong_victim")),
        )
        for name, result in inputs.trace_kills.items()
        for kill in result["kills"]
    ]
    policies: list[Sequence[TableCell]] = [
        (
            name,
            policy["policy"],
            len(policy["decisions"]),
            sum(len(decision["victims"]) for decision in policy["decisions"]),
            policy.get("victims_named"),
            policy.get("victims_not_named"),
            policy["false_alarms"],
            policy["missed_freezes"],
        )
        for name, result in inputs.trace_kills.items()
        if (replay := result.get("replay")) is not None
        for policy in replay["policies"]
    ]
    pressure: list[Sequence[TableCell]] = [
        (
            name,
            interval["kind"],
            interval["start_s"],
            interval["end_s"],
            interval["busy_s"],
            interval["bytes"],
            ", ".join(cause["process"] or str(cause["pid"]) for cause in interval["processes"]),
        )
        for name, held in inputs.pressure.items()
        for interval in held["intervals"]
    ]
    every = []
    if inputs.launches:
        every.append(
            Table("system-trace-launches", "Launches", LAUNCH_COLUMNS, launches, is_open=True)
        )
    if inputs.trace_kills:
        every.append(Table("system-trace-kills", "Kills", KILL_COLUMNS, kills, is_open=True))
    if policies:
        caption = "What kill policies would have done"
        every.append(Table("system-trace-policies", caption, POLICY_COLUMNS, policies))
    if pressure:
        every.append(
            Table("system-trace-pressure", "Intervals of pressure", PRESSURE_COLUMNS, pressure)
        )
    return every


def part_values(launch: TraceLaunch) -> list[float | None]:
    """The parts of a launch in the order of the columns."""
    parts = launch["parts"]
    return [
        parts["kill_wait_s"],
        parts["direct_reclaim_s"],
        parts["kswapd_s"],
        parts["refault_s"],
        parts["swapin_s"],
        parts["cpu_s"],
        parts["rest_s"],
    ]


def judged(answer: Judged) -> str:
    """An answer with its reason."""
    word = {None: "", True: "yes: ", False: "no: "}[answer["answer"]]
    return word + answer["why"]


def finding(inputs: Inputs) -> str:
    """The slowest launch, the kills that came back soon, and the bytes that were read again."""
    sentences = []
    launches = [each for found in inputs.launches.values() for each in found["launches"]]
    if launches:
        slowest = max(launches, key=lambda launch: launch["duration_s"])
        sentences.append(
            f"{format_launches(len(launches))}; the slowest, {slowest['process']}, took "
            f"{format_seconds(slowest['duration_s'])}."
        )
    kills = [each for found in inputs.trace_kills.values() for each in found["kills"]]
    if kills:
        sentences.append(f"{format_counted(len(kills), 'kill')}; {came_back(kills)}.")
    known = [each.get("refault_bytes") for each in inputs.pressure.values()]
    again = sum(each for each in known if each is not None)
    if again:
        sentences.append(f"{format_size(again)} of files were read again.")
    if inputs.launches and not launches:
        sentences.append("The trace has no finished launch.")
    if inputs.trace_kills and not kills:
        shows = all(found.get("shows_kills", True) for found in inputs.trace_kills.values())
        unknown = "Kills are unknown: a trace records no events of kills."
        sentences.append("The trace has no kill." if shows else unknown)
    heats = [each.get("heat") for each in inputs.pressure.values()]
    regions = sum(heat["regions"] for heat in heats if heat is not None)
    if regions:
        sentences.append(f"DAMON counted accesses in {format_counted(regions, 'region')}.")
    if inputs.pressure and not any(each["intervals"] for each in inputs.pressure.values()):
        sentences.append("No interval of pressure is in the trace.")
    return " ".join(sentences)
