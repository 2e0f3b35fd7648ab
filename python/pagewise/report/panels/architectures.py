"""Every swap architecture over the size of the fast tier: I/O time, accesses, writes, wear."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pagewise import catalog
from pagewise.grids.results import SimulatedCell
from pagewise.report.cells import (
    COLUMNS,
    Setup,
    by_setup,
    label,
    row,
    sorted_cells,
    yearly_wear,
)
from pagewise.report.inputs import Inputs, is_of_objects, is_of_swap
from pagewise.report.model import Axis, Chart, Panel, Series, Table, Unit, View
from pagewise.units import format_share, format_size

Measure: TypeAlias = Callable[[SimulatedCell], float | None]

MEASURES: tuple[tuple[str, str, Unit, Measure], ...] = (
    ("io-time", "I/O time", "seconds", lambda cell: cell["io_time_s"]),
    (
        "slow-accesses",
        "Accesses to the slow device",
        "count",
        lambda cell: cell["slow_reads"] + cell["slow_writes"],
    ),
    ("fast-writes", "Pages written to the fast tier", "count", lambda cell: cell["fast_writes"]),
    ("wear", "Rated life used per year, by the device that wears faster", "share", yearly_wear),
)


def panel(inputs: Inputs) -> Panel | None:
    """Linked charts with one legend, and one view per recording and pair of devices."""
    if not inputs.cells:
        return None
    setups = by_setup(inputs.cells)
    charts = [
        Chart(
            f"architectures-{identifier}",
            title,
            Axis("fast tier", "bytes"),
            Axis("", unit, low=0),
            [View(str(setup), lines(cells, measure)) for setup, cells in setups.items()],
            group="architectures",
        )
        for identifier, title, unit, measure in MEASURES
        if any(measure(cell) is not None for cell in inputs.cells)
    ]
    rows = [row(cell) for cell in sorted_cells(inputs.cells)]
    notes = ["Wear is before write amplification, if this traffic continues day and night."]
    if not any(yearly_wear(cell) is not None for cell in inputs.cells):
        notes = ["Wear is unknown: it needs a clock in the recording, and a device with a rating."]
    return Panel(
        "architectures",
        "Architectures over the size of the fast tier",
        finding(setups),
        charts,
        [Table("architectures", "Every simulated cell", COLUMNS, rows)],
        notes,
    )


def lines(cells: list[SimulatedCell], measure: Measure) -> list[Series]:
    """One line per architecture and option set; flash-only is a reference line."""
    by_label: dict[str, dict[float, float | None]] = {}
    for cell in sorted_cells(cells):
        by_label.setdefault(label(cell), {})[cell["fast_tier_bytes"]] = measure(cell)
    sizes = sorted({cell["fast_tier_bytes"] for cell in cells})
    series = []
    for name, points in by_label.items():
        if name == catalog.baseline():
            level = next(iter(points.values()))
            series.append(Series(name, [(size, level) for size in sizes], is_reference=True))
        else:
            series.append(Series(name, sorted(points.items())))
    return series


def as_swap(setup: Setup, cells: list[SimulatedCell]) -> str:
    """What the cells replay instead of swap: block requests or objects; empty for swap."""
    if all(map(is_of_swap, cells)):
        return ""
    if any(map(is_of_objects, cells)):
        return (
            f"The trace {setup.trace} has the objects of a cache, which cannot size swap; these "
            "figures replay each object as if it were a page of swap. "
        )
    return (
        f"The trace {setup.trace} has block requests, which cannot size swap; these figures replay "
        "them as if they were swap. "
    )


def finding(setups: dict[Setup, list[SimulatedCell]]) -> str:
    """The best architecture of the first setup at a medium size."""
    setup, cells = next(iter(setups.items()))
    contenders = [cell for cell in cells if cell["architecture"] in catalog.systems()]
    sizes = sorted({cell["fast_tier_bytes"] for cell in contenders})
    if not sizes:
        return f"On {setup} only the slow device was simulated."
    size = sizes[len(sizes) // 2]
    ranked = sorted(
        (cell for cell in contenders if cell["fast_tier_bytes"] == size),
        key=lambda cell: cell["io_time_s"],
    )
    best = ranked[0]
    text = as_swap(setup, cells) + (
        f"With {format_size(size)} of fast tier on {setup}, {label(best)} needs the least I/O time"
    )
    alone = next((c for c in cells if c["architecture"] == catalog.baseline()), None)
    if alone and alone["io_time_s"]:
        share = format_share(best["io_time_s"] / alone["io_time_s"])
        text += f", {share} of that of flash-only"
    if len(ranked) > 1 and best["io_time_s"]:
        more = format_share(ranked[1]["io_time_s"] / best["io_time_s"] - 1)
        text += f"; the next, {label(ranked[1])}, needs {more} more"
    return f"{text}."
