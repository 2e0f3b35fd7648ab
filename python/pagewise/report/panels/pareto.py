"""The trade-off between I/O time and wear, with each architecture and size as one point.

If the wear of one setup is unknown, the pages written to both devices stand for it in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagewise import catalog
from pagewise.grids.results import SimulatedCell
from pagewise.report.cells import by_setup, label, sorted_cells, yearly_wear
from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, TableCell, Unit, View
from pagewise.report.panels.architectures import as_swap
from pagewise.units import format_size


def panel(inputs: Inputs) -> Panel | None:
    """A scatter of time against wear; the table has the points that no other beats in both."""
    cells = [cell for cell in inputs.cells if cell["architecture"] not in catalog.bounds()]
    if len(cells) < 2:
        return None
    is_worn = all(yearly_wear(cell) is not None for cell in cells)
    cost_label = "rated life used per year" if is_worn else "pages written to both devices"
    what = "wear" if is_worn else "pages written"
    unit: Unit = "share" if is_worn else "count"
    views = []
    rows: list[Sequence[TableCell]] = []
    for setup, group in by_setup(cells).items():
        views.append(View(str(setup), points(group, is_worn)))
        rows += [
            (
                str(setup),
                label(cell),
                cell["fast_tier_bytes"],
                cell["io_time_s"],
                cost(cell, is_worn),
            )
            for cell in frontier(group, is_worn)
        ]
    chart = Chart(
        "pareto-plane",
        f"I/O time against {what}; lower left is better",
        Axis(cost_label, unit),
        Axis("I/O time", "seconds", low=0),
        views,
        "scatter",
    )
    table = Table("pareto", "Choices that no other beats in both", columns(cost_label, unit), rows)
    setup, first = next(iter(by_setup(cells).items()))
    text = f"{as_swap(setup, first)}{finding(rows, what)}"
    return Panel("pareto", f"I/O time against {what}", text, [chart], [table], notes(cells))


def notes(cells: list[SimulatedCell]) -> list[str]:
    """Why pages written stand for wear, if only some setups have none."""
    unknown = [
        str(setup)
        for setup, group in by_setup(cells).items()
        if any(yearly_wear(cell) is None for cell in group)
    ]
    if not unknown or all(yearly_wear(cell) is None for cell in cells):
        return []
    return [f"Pages written are shown for all, since wear is unknown on {', '.join(unknown)}."]


def columns(cost_label: str, unit: Unit) -> tuple[Column, ...]:
    """The columns of the table."""
    return (
        Column("setup", "recording and devices"),
        Column("architecture", "architecture"),
        Column("fast_tier_bytes", "fast tier", "bytes"),
        Column("io_time_s", "I/O time", "seconds"),
        Column("cost", cost_label, unit),
    )


def cost(cell: SimulatedCell, is_worn: bool) -> float:
    """Wear per year, or pages written if wear is unknown."""
    wear = yearly_wear(cell)
    if is_worn and wear is not None:
        return wear
    return float(cell["fast_writes"] + cell["slow_writes"])


def points(cells: list[SimulatedCell], is_worn: bool) -> list[Series]:
    """A series per architecture, each point labelled with its size."""
    by_label: dict[str, list[SimulatedCell]] = {}
    for cell in sorted_cells(cells):
        by_label.setdefault(label(cell), []).append(cell)
    return [
        Series(
            name,
            [(cost(cell, is_worn), cell["io_time_s"]) for cell in group],
            [f"fast tier {format_size(cell['fast_tier_bytes'])}" for cell in group],
            is_reference=name == catalog.baseline(),
        )
        for name, group in by_label.items()
    ]


def frontier(cells: list[SimulatedCell], is_worn: bool) -> list[SimulatedCell]:
    """The cells that no other cell beats in both time and wear, by time."""
    best: list[SimulatedCell] = []
    lowest = float("inf")
    for cell in sorted(cells, key=lambda cell: (cell["io_time_s"], cost(cell, is_worn))):
        if cost(cell, is_worn) < lowest:
            best.append(cell)
            lowest = cost(cell, is_worn)
    return best


def finding(rows: Sequence[Sequence[TableCell]], what: str) -> str:
    """The architectures on the frontier."""
    setup = rows[0][0]
    names = list(dict.fromkeys(str(row[1]) for row in rows if row[0] == setup))
    better = names[0] if len(names) == 1 else "one of these"
    return (
        f"The best trade-offs between I/O time and {what} on {setup}: {', '.join(names)}. For "
        f"every other choice, some size of {better} is at least as good in both."
    )
