"""Where slow launches spend their time: launches split into parts, from the study of launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs
from pagewise.report.model import Panel
from pagewise.report.panels.papers import chart, data, figure_in, of_panel
from pagewise.units import format_share

if TYPE_CHECKING:
    from pagewise.comparisons import StudyFigure

OWN_TIME = "own time"
AMPLE = "ample memory"
"""The view to compare the others with."""


def panel(inputs: Inputs) -> Panel | None:
    """A chart of stacked bars, one bar per kind of launch, for each study that splits launches."""
    found = of_panel(inputs, "launch")
    if not found:
        return None
    return Panel(
        "launch",
        "Where slow launches spend their time",
        " ".join(finding(figures) for _, figures in found),
        [chart(study, figures) for study, figures in found],
        [data(study, figures) for study, figures in found],
    )


def finding(figures: list[StudyFigure]) -> str:
    """The bar with the longest wait, and what it waits for."""
    bars: dict[str, dict[str, float]] = {}
    for figure in [each for each in figures if each.get("view") != AMPLE] or figures:
        x, series, y = (figure["columns"].index(name) for name in ("x", "series", "y"))
        view = f", {figure['view']}" if figure.get("view") else ""
        for row in figure["rows"]:
            bars.setdefault(f"{row[x]}{view}", {})[str(row[series])] = float(figure_in(row[y]))
    name, parts = max(bars.items(), key=lambda bar: sum(bar[1].values()) - bar[1].get(OWN_TIME, 0))
    total = sum(parts.values())
    waited = {part: value for part, value in parts.items() if part != OWN_TIME}
    most = max(waited, key=lambda part: waited[part])
    return f"{name}: {format_share(waited[most] / total)} of a launch goes to {most}."
