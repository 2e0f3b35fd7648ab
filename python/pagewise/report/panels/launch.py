"""Where slow launches spend their time: each launch taken apart, from the study of launches."""

from __future__ import annotations

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Panel
from pagewise.report.panels.papers import OWN_PANEL, chart, data
from pagewise.units import format_share

OWN_TIME = "own time"


def panel(inputs: Inputs) -> Panel | None:
    """One stacked bar per kind of launch."""
    found = [
        (study, figure)
        for study in inputs.studies
        for figure in study["figures"]
        if figure["name"] in OWN_PANEL
    ]
    if not found:
        return None
    return Panel(
        "launch",
        "Where slow launches spend their time",
        " ".join(finding(figure) for _, figure in found),
        [chart(study, [figure]) for study, figure in found],
        [data(study, [figure]) for study, figure in found],
    )


def finding(figure: Result) -> str:
    """The bar that waits longest beside its own time, and for what."""
    bars: dict[str, dict[str, float]] = {}
    x, series, y = (figure["columns"].index(name) for name in ("x", "series", "y"))
    for row in figure["rows"]:
        bars.setdefault(str(row[x]), {})[str(row[series])] = float(row[y])
    name, parts = max(bars.items(), key=lambda bar: sum(bar[1].values()) - bar[1].get(OWN_TIME, 0))
    total = sum(parts.values())
    waited = {part: value for part, value in parts.items() if part != OWN_TIME}
    most = max(waited, key=lambda part: waited[part])
    return f"{name}: {format_share(waited[most] / total)} of a launch is {most}."
