"""Relaunches before and after: launches of frozen applications without relaunchd and with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs
from pagewise.report.model import Panel
from pagewise.report.panels.papers import chart, data, figure_in, of_panel
from pagewise.units import format_seconds

if TYPE_CHECKING:
    from pagewise.comparisons import StudyFigure

TIMES = "relaunch-launch"
"""The figure of launch times; the others have faults and bytes."""


def panel(inputs: Inputs) -> Panel | None:
    """Charts of launch times, faults and bytes by application; None without such a study."""
    found = of_panel(inputs, "relaunch")
    if not found:
        return None
    times = [figure for _, figures in found for figure in figures if figure["name"] == TIMES]
    return Panel(
        "relaunch",
        "Relaunch before and after",
        " ".join(map(finding, times)),
        [chart(study, figures) for study, figures in found],
        [data(study, figures) for study, figures in found],
    )


def finding(figure: StudyFigure) -> str:
    """How many applications launch faster with relaunchd, and which gains least."""
    x, y = (figure["columns"].index(name) for name in ("x", "y"))
    times: dict[str, list[float]] = {}
    for row in figure["rows"]:
        times.setdefault(str(row[x]), []).append(figure_in(row[y]))
    # Rows without relaunchd come first.
    change = {app: pair[1] / pair[0] for app, pair in times.items() if len(pair) == 2 and pair[0]}
    if not change:
        return "No application was launched both ways."
    faster = sum(ratio < 1 for ratio in change.values())
    last = max(change, key=lambda app: change[app])
    before, after = map(format_seconds, times[last])
    return (
        f"{faster} of {len(change)} applications launch faster with relaunchd (medians). {last} "
        f"gains least: {after} instead of {before}."
    )
