"""A swap area of two tiers under running programs: fault latency, and pages by tier over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Panel, Series, View
from pagewise.report.panels.papers import chart_title, data, figure_in, identifier, of_panel, series
from pagewise.units import MIB, format_seconds, format_size

if TYPE_CHECKING:
    from pagewise.comparisons import StudyFigure

MICROSECONDS = 1e-6
LATENCY = "-wait"
"""The end of the name of a figure with latencies; the others have pages over time."""
MEDIAN, FAST = "50 %", "fast tier"


def panel(inputs: Inputs) -> Panel | None:
    """A chart of latencies and a chart of pages for each study; None without such a study."""
    found = of_panel(inputs, "tiers")
    if not found:
        return None
    return Panel(
        "tiers",
        "Two tiers of swap under running programs",
        " ".join(sentence for _, figures in found for sentence in [finding(figures)] if sentence),
        [
            latencies(identifier(study, figures[0]), figures[0])
            if is_latency(figures[0])
            else occupancy(identifier(study, figures[0]), figures)
            for study, figures in found
        ],
        [data(study, figures) for study, figures in found],
    )


def is_latency(figure: StudyFigure) -> bool:
    """Whether a figure has latencies."""
    return str(figure["name"]).endswith(LATENCY)


def latencies(name: str, figure: StudyFigure) -> Chart:
    """Quantiles of the time of a read, a line for each run and tier."""
    return Chart(
        name,
        chart_title(figure),
        Axis(str(figure["x_label"]), "text", "category"),
        Axis("time", "seconds", "log"),
        [View("", series(figure, MICROSECONDS))],
    )


def occupancy(name: str, figures: list[StudyFigure]) -> Chart:
    """Pages of each tier over time, a view for each run."""
    return Chart(
        name,
        chart_title(figures[0]),
        Axis("time since the start of the run", "seconds"),
        Axis("pages", "bytes", low=0),
        [View(str(figure.get("view") or ""), in_order(figure)) for figure in figures],
        is_stacked=True,
    )


def in_order(figure: StudyFigure) -> list[Series]:
    """The series in bytes, the points by time."""
    return [
        replace(each, points=sorted(each.points, key=lambda point: float(point[0])))
        for each in series(figure, MIB)
    ]


def finding(figures: list[StudyFigure]) -> str:
    """The range of medians of each tier, or the run with the most pages in swap."""
    x, line, y = (figures[0]["columns"].index(name) for name in ("x", "series", "y"))
    if is_latency(figures[0]):
        medians: dict[str, list[float]] = {}
        for row in figures[0]["rows"]:
            if row[x] == MEDIAN:
                tier = str(row[line]).rpartition(", ")[2]
                medians.setdefault(tier, []).append(figure_in(row[y]) * MICROSECONDS)
        spans = [
            f"{' to '.join(dict.fromkeys(map(format_seconds, (min(times), max(times)))))} from the "
            f"{tier}"
            for tier, times in medians.items()
        ]
        return f"A read takes {', '.join(spans)} (medians)." if spans else ""
    used: dict[tuple[str, float], dict[str, float]] = {}
    for figure in figures:
        for row in figure["rows"]:
            at = used.setdefault((str(figure.get("view") or ""), figure_in(row[x])), {})
            at[str(row[line])] = figure_in(row[y]) * MIB
    (run, _), most = max(used.items(), key=lambda moment: sum(moment[1].values()))
    total, fast = (format_size(round(size)) for size in (sum(most.values()), most.get(FAST, 0.0)))
    return f"Most pages were in swap in {run}: {total}, {fast} of them in the fast tier."
