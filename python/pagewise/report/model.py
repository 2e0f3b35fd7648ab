"""What a panel of the report is made of: prose, charts and tables, free of HTML and of ECharts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pagewise.advice.setting import Setting

Unit: TypeAlias = Literal["count", "bytes", "share", "seconds", "ratio", "text"]
"""How a figure is written: bytes as KiB..GiB, shares as percentages, ratios with four digits."""

ChartKind: TypeAlias = Literal["line", "scatter", "bar"]

Cell: TypeAlias = str | int | float | None
Point: TypeAlias = tuple[float | str, float | None]


@dataclass(frozen=True)
class Axis:
    """One axis: what it measures, in which unit, and whether it is logarithmic."""

    label: str
    unit: Unit = "count"
    scale: Literal["linear", "log", "category"] = "linear"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One named line, set of points or set of bars; the name decides colour, symbol and dash."""

    name: str
    points: Sequence[Point]
    labels: Sequence[str] = ()
    """What the tooltip says about each point, where its coordinates do not say it."""
    is_reference: bool = False
    """Drawn grey and thin: something to compare with, not a contender."""
    is_line: bool = False
    """A line over the bars or areas of a stacked chart, and no part of their stack."""
    is_right: bool = False
    """Measured by the axis on the right."""
    is_moment: bool = False
    """A mark across the chart at each x; no line through the points."""


@dataclass(frozen=True)
class View:
    """One of several sets of series that the reader can switch between, such as one recording's."""

    label: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Chart:
    """A chart; those with the same ``group`` share legend, view switch, zoom and pointer."""

    identifier: str
    title: str
    x: Axis
    y: Axis
    views: Sequence[View]
    kind: ChartKind = "line"
    group: str = ""
    is_stacked: bool = False
    """Bars, or areas under lines, on top of one another."""
    is_stepped: bool = False
    """A line keeps its value until the next point."""
    y_right: Axis | None = None
    """What the series measured on the right have, over the same x."""


@dataclass(frozen=True)
class Column:
    """A column of a table: name in the CSV file, heading on the page, unit of its figures."""

    name: str
    label: str
    unit: Unit = "text"


@dataclass(frozen=True)
class Table:
    """A table; embedded whole as JSON, offered as CSV, shown up to a few hundred rows."""

    identifier: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    is_open: bool = False
    """Shown at once; otherwise behind a line to unfold."""
    note: str = ""
    """How to read it."""


@dataclass(frozen=True)
class Panel:
    """One section: a title, the finding in one or two sentences, and what shows it."""

    identifier: str
    title: str
    finding: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Finding:
    """One of the three answers at the top: a figure, what it says, how sure it is, its proof."""

    figure: str
    statement: str
    interval: str
    evidence: str
    """Identifier of the panel that shows it."""


@dataclass(frozen=True)
class Verdict:
    """The box at the top of the report."""

    findings: Sequence[Finding] = ()
    settings: Sequence[Setting] = ()
