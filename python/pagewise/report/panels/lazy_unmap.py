"""Faults by allocator, and resident memory over time, from the study of lazy unmapping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.allocations import BASELINE, OURS
from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Panel, View
from pagewise.report.panels.papers import figure_in, measured, series
from pagewise.units import MIB, format_share

if TYPE_CHECKING:
    from pagewise.comparisons import StudyFigure

STUDY = "lazy-unmap"
RESIDENT = f"{STUDY}-resident-"
SWIPED = {
    f"{STUDY}-fig3-faults": "Page faults of a swipe under the kernel's pool",
    f"{STUDY}-fig3-response": "Instructions from event to frame under the kernel's pool",
}
"""Charts of programs under a kernel with the pool, by their figures, where the study has them."""


def panel(inputs: Inputs) -> Panel | None:
    """Charts with one view per program."""
    studies = [study for study in inputs.studies if study["study"] == STUDY]
    if not studies:
        return None
    figures = {str(each["name"]): each for study in studies for each in study["figures"]}
    faults = figures[f"{STUDY}-faults"]
    charts = [
        Chart(
            "lazy-unmap-faults",
            "Faults on blocks from 64 KiB, as a share of those without a pool",
            Axis("program", "text", "category"),
            Axis("faults", "share", low=0),
            [View("", series(faults, reference=BASELINE))],
            "bar",
        ),
        Chart(
            "lazy-unmap-resident",
            "Resident memory of blocks from 64 KiB",
            Axis("time", "seconds"),
            Axis("memory", "bytes", low=0),
            views(figures),
        ),
        *(
            Chart(
                name,
                f"{title}, as a share of those without a pool",
                Axis("browser, threshold of malloc", "text", "category"),
                Axis("no pool = 1", "share", low=0),
                [View("", series(figures[name], reference="no pool"))],
                "bar",
            )
            for name, title in SWIPED.items()
            if name in figures
        ),
    ]
    tables = [measured(study, table) for study in studies for table in study["tables"]]
    return Panel(STUDY, "Memory that stays mapped when freed", finding(faults), charts, tables)


def views(figures: dict[str, StudyFigure]) -> list[View]:
    """Resident memory by program, in bytes."""
    return [
        View(str(figure["view"]), series(figure, MIB, BASELINE))
        for name, figure in figures.items()
        if name.startswith(RESIDENT)
    ]


def finding(faults: StudyFigure) -> str:
    """The share of faults that our pool leaves, by program."""
    program, allocator, y = (faults["columns"].index(name) for name in ("x", "series", "y"))
    left = [
        f"{row[program]} {format_share(figure_in(row[y]))}"
        for row in faults["rows"]
        if row[allocator] == OURS
    ]
    return f"Of the faults on large blocks, our pool leaves: {', '.join(left)}."
