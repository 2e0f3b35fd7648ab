"""Phases of kills: victims of a study, and kills in outputs of `killtrace --json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, ChartKind, Column, Panel, Series, Table, View
from pagewise.report.panels.papers import figure_in, measured, series
from pagewise.units import MIB, format_seconds, format_share

if TYPE_CHECKING:
    from pagewise.comparisons import StudyFigure, StudyResult
    from pagewise.types import Kill, Kills

STUDY = "kill-anatomy"
MICROSECONDS = 1e-6
Phase: TypeAlias = Literal["signal_us", "threads_us", "unmap_us", "pagetables_us"]
PHASES: dict[Phase, str] = {
    "signal_us": "signal delivery",
    "threads_us": "signal handling",
    "unmap_us": "unmapping",
    "pagetables_us": "page tables",
}
COLUMNS = (
    Column("kill", "kill"),
    Column("threads", "threads", "count"),
    Column("rss_bytes", "resident", "bytes"),
    *(Column(name, label, "seconds") for name, label in PHASES.items()),
    Column("reaper_us", "reaper", "seconds"),
    Column("total_us", "total", "seconds"),
    Column("trigger", "trigger"),
    Column("killer", "killer"),
)
KILLS_SHOWN = 40
"""How many kills a chart shows; the table has every kill."""


def panel(inputs: Inputs) -> Panel | None:
    """Charts of the study, of the kills, or of both; None without either."""
    studies = [study for study in inputs.studies if study["study"] == STUDY]
    kills = list(named(inputs.kills))
    if not studies and not kills:
        return None
    charts = [chart for study in studies for chart in study_charts(study)]
    tables = [measured(study, table) for study in studies for table in study["tables"]]
    if kills:
        charts += kill_charts(kills[:KILLS_SHOWN])
        rows = [row(name, kill) for name, kill in kills]
        tables.append(Table("kills", "Every kill", COLUMNS, rows, is_open=len(rows) <= KILLS_SHOWN))
    return Panel("kills", "What a kill is made of", finding(studies, kills), charts, tables)


def named(results: Sequence[Kills]) -> Iterator[tuple[str, Kill]]:
    """Every kill with a unique name: two kills may have the same process number."""
    seen: dict[str, int] = {}
    for result in results:
        for kill in result["kills"]:
            name = f"{kill['comm']} ({kill['pid']})"
            seen[name] = seen.get(name, 0) + 1
            yield (name if seen[name] == 1 else f"{name}, {seen[name]}"), kill


def study_charts(study: StudyResult) -> list[Chart]:
    """The figures of the study, with times in seconds."""
    figures = {str(each["name"]).removeprefix(f"{STUDY}-"): each for each in study["figures"]}
    return [
        Chart(
            f"{STUDY}-{name}",
            str(figures[name]["title"]),
            x,
            y,
            [View("", scaled(figures[name], x_factor, y_factor))],
            kind,
            is_stacked=kind == "bar",
        )
        for name, kind, x, x_factor, y, y_factor in SHOWN
        if name in figures
    ]


SHOWN: tuple[tuple[str, ChartKind, Axis, float | None, Axis, float], ...] = (
    ("phases", "bar", Axis("victim", "text", "category"), None, Axis("time", "seconds"), 1e-6),
    ("memory", "scatter", Axis("resident", "bytes"), MIB, Axis("time", "seconds"), 1e-3),
    ("threads", "line", Axis("threads"), 1, Axis("time", "seconds"), 1e-6),
    ("together", "line", Axis("others dying at once"), 1, Axis("time", "seconds"), 1e-6),
    ("curve", "line", Axis("since the call", "seconds"), 1e-3, Axis("resident", "bytes"), MIB),
)
"""Figures of the study: kind, axes, and the factors to their units; None for names."""


def scaled(figure: StudyFigure, x_factor: float | None, y_factor: float) -> list[Series]:
    """A figure's series in the units of its axes."""
    found = series(figure, y_factor)
    if x_factor is None:
        return found
    return [
        replace(line, points=[(float(x) * x_factor, y) for x, y in line.points]) for line in found
    ]


def kill_charts(kills: Sequence[tuple[str, Kill]]) -> list[Chart]:
    """Charts of the phases and of the falling memory of each kill."""
    phases = [
        Series(label, [(name, seconds(kill[phase])) for name, kill in kills])
        for phase, label in PHASES.items()
    ]
    falls = [
        Series(name, [(time * MICROSECONDS, size) for time, size in kill["rss_curve"]])
        for name, kill in kills
        if kill["rss_curve"]
    ]
    return [
        Chart(
            "kills-phases",
            "Phases of each kill",
            Axis("kill", "text", "category"),
            Axis("time", "seconds", low=0),
            [View("", phases)],
            "bar",
            is_stacked=True,
        ),
        *(
            [
                Chart(
                    "kills-memory",
                    "Resident memory since the call to kill",
                    Axis("time", "seconds"),
                    Axis("resident", "bytes", low=0),
                    [View("", falls)],
                )
            ]
            if falls
            else []
        ),
    ]


def seconds(value: float | None) -> float | None:
    """Microseconds as seconds; None if not recorded."""
    return None if value is None else value * MICROSECONDS


def row(name: str, kill: Kill) -> list[str | float | None]:
    """A kill as a row of the table."""
    killer = kill["killer"]
    return [
        name,
        kill["threads"],
        kill["rss_bytes"],
        *(seconds(kill[phase]) for phase in PHASES),
        seconds(kill["reaper_us"]),
        seconds(kill["total_us"]),
        kill["trigger"],
        "" if killer is None else f"{killer['comm'] or '?'} ({killer['pid']})",
    ]


def finding(studies: Sequence[StudyResult], kills: Sequence[tuple[str, Kill]]) -> str:
    """How long kills take, and which share of that the reclaim takes."""
    sentences = []
    for study in studies:
        table = next(each for each in study["tables"] if each["name"] == f"{STUDY}-paper")
        victim, share = (table["columns"].index(name) for name in ("victim", "reclaim share"))
        shares = [
            f"{format_share(figure_in(row[share]))} ({row[victim]})"
            for row in table["rows"]
            if row[share] is not None and not str(row[victim]).startswith("paper")
        ]
        if shares:
            sentences.append(f"Of a kill, freeing the memory takes {', '.join(shares)}.")
    whole = [
        (total, reclaim)
        for _, kill in kills
        if (total := kill["total_us"]) and (reclaim := kill["reclaim_us"])
    ]
    if whole:
        typical = format_seconds(median(total for total, _ in whole) * MICROSECONDS)
        of_memory = format_share(median(reclaim / total for total, reclaim in whole))
        count = "One kill" if len(kills) == 1 else f"{len(kills)} kills"
        sentences.append(f"{count}, {typical} each (median), {of_memory} of it for the memory.")
    return " ".join(sentences) or "No kill was recorded from beginning to end."
