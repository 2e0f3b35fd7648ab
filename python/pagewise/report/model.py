"""The parts of a panel: prose, charts and tables, independent of HTML and ECharts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pagewise.advice.setting import Setting

Unit: TypeAlias = Literal["count", "bytes", "share", "seconds", "ratio", "text"]
"""The format of a figure: bytes as KiB..GiB, shares as percentages, ratios with four digits."""

ChartKind: TypeAlias = Literal["line", "scatter", "bar"]

TableCell: TypeAlias = str | int | float | None
Point: TypeAlias = tuple[float | str, float | None]


@dataclass(frozen=True)
class Axis:
    """An axis: its quantity, its unit, and whether it is logarithmic."""

    label: str
    unit: Unit = "count"
    scale: Literal["linear", "log", "category"] = "linear"
    low: float | None = None
    high: float | None = None
    names: Sequence[str] = ()
    """Names of the values 0, 1, 2 and so on, shown in place of figures; empty marks have none."""


@dataclass(frozen=True)
class Series:
    """A named line, set of points or set of bars; the name determines colour, symbol and dash."""

    name: str
    points: Sequence[Point]
    labels: Sequence[str] = ()
    """Text for the tooltip of each point, if the coordinates are not enough."""
    is_reference: bool = False
    """Drawn grey and thin, as a reference for the other series."""
    is_line: bool = False
    """Drawn as a line over stacked bars or areas, outside the stack."""
    is_right: bool = False
    """Measured by the right axis."""
    is_moment: bool = False
    """Drawn as a mark across the chart at each x, without a line."""
    shade: float | None = None
    """Drawn as cells of a map in one colour of this strength, from 0 to 1; see ``Chart.cell``."""


@dataclass(frozen=True)
class View:
    """One of several sets of series to switch between, such as one recording's."""

    label: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Chart:
    """A chart; charts of the same ``group`` share legend, view switch, zoom and pointer."""

    identifier: str
    title: str
    x: Axis
    y: Axis
    views: Sequence[View]
    kind: ChartKind = "line"
    group: str = ""
    is_stacked: bool = False
    """Bars, or areas under lines, are stacked."""
    is_stepped: bool = False
    """A line keeps its value until the next point."""
    y_right: Axis | None = None
    """The right axis, for the series measured there; None without such series."""
    cell: tuple[float, float] | None = None
    """Width and height of a cell of a map, in the units of the axes; None without such series."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in the CSV file, its heading, and its unit."""

    name: str
    label: str
    unit: Unit = "text"


@dataclass(frozen=True)
class Table:
    """A table: embedded whole as JSON, offered as CSV; the page shows a few hundred rows."""

    identifier: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]
    is_open: bool = False
    """Shown unfolded; otherwise behind a line to unfold."""
    note: str = ""
    """How to read the table."""


@dataclass(frozen=True)
class Panel:
    """A section: a title, the finding in one or two sentences, and its charts and tables."""

    identifier: str
    title: str
    finding: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Finding:
    """One of the three answers at the top: a figure, a statement, its range, and its evidence."""

    figure: str
    statement: str
    interval: str
    evidence: str
    """Identifier of the panel with the evidence."""


@dataclass(frozen=True)
class Conclusion:
    """The box at the top of the report."""

    findings: Sequence[Finding] = ()
    settings: Sequence[Setting] = ()
    missing: str = ""
    """What would add findings, if there are none."""
