"""Turns charts with a single bar into sentences: there is nothing to compare."""

from __future__ import annotations

from dataclasses import replace

from pagewise.report.model import Chart, Panel, Unit, View
from pagewise.units import (
    format_count,
    format_figure,
    format_seconds,
    format_share,
    format_size,
)


def without_single_bars(panel: Panel) -> Panel:
    """The panel with a note in place of each chart that never has more than one bar."""
    lone = [chart for chart in panel.charts if has_one_bar(chart)]
    charts = [chart for chart in panel.charts if chart not in lone]
    notes = [sentence(chart, view) for chart in lone for view in chart.views]
    return replace(panel, charts=charts, notes=[*notes, *panel.notes])


def has_one_bar(chart: Chart) -> bool:
    """Whether no view of a bar chart has two bars to compare."""
    return chart.kind == "bar" and all(len(bars(chart, view)) <= 1 for view in chart.views)


def bars(chart: Chart, view: View) -> set[str]:
    """The bars of a view, by place on the axis and, unless stacked, by series."""
    drawn = [
        (str(x), "" if chart.is_stacked else series.name)
        for series in view.series
        for x, y in series.points
        if y is not None
    ]
    return {f"{x}\0{name}" for x, name in drawn}


def sentence(chart: Chart, view: View) -> str:
    """The bar of a chart as a sentence."""
    parts = [
        f"{series.name} {figure(y, chart.y.unit)}"
        for series in view.series
        for _, y in series.points
        if y is not None
    ]
    names = {str(x) for series in view.series for x, y in series.points if y is not None}
    where = ", ".join(filter(None, [view.label if len(chart.views) > 1 else "", *names]))
    title = f"{chart.title}{f' ({where})' if where else ''}"
    return f"{title}: {', '.join(parts) or 'not known'}."


def figure(value: float, unit: Unit) -> str:
    """A figure with its unit."""
    match unit:
        case "bytes":
            return format_size(value)
        case "share":
            return format_share(value)
        case "seconds":
            return format_seconds(value)
        case "count":
            return format_count(round(value))
        case _:
            return format_figure(value)
