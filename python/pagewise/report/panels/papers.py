"""The papers' figures and ours, and a verdict on each of their statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, Unit, View
from pagewise.study_rows import verdict_rows

if TYPE_CHECKING:
    from pagewise.comparisons import Scalar, StudyFigure, StudyResult, StudyTable

VERDICTS = (
    Column("check", "check"),
    Column("data", "on"),
    Column("statement", "statement"),
    Column("paper", "paper"),
    Column("ours", "ours"),
    Column("verdict", "verdict"),
    Column("readings", "readings"),
    Column("why", "why"),
)
WITH_PANEL = ("lazy-unmap", "kill-anatomy")
"""Studies whose figures and tables have their own panels."""
OWN_PANEL = {
    "launch": ("launch-simulated-parts", "launch-parts"),
    "relaunch": ("relaunch-",),
    "tiers": tuple(
        f"{study}-live-{figure}"
        for study in ("multiswap", "nvm-cache")
        for figure in ("wait", "occupancy")
    ),
}
"""Beginnings of the names of figures that have their own panel, by the name of the panel."""
ROWS_OPEN = 12
"""A study's table with more rows is folded, so that the page stays readable."""


def panel(inputs: Inputs) -> Panel | None:
    """The table of verdicts, the other tables of the studies, and charts of their figures."""
    if not inputs.studies:
        return None
    own = [study for study in inputs.studies if study["study"] not in WITH_PANEL]
    charts = [drawn for study in own for drawn in by_chart(study)]
    verdicts = [row for study in inputs.studies for row in verdict_rows(study)[1]]
    tables = [
        Table("verdicts", "Statements of the papers, checked", VERDICTS, verdicts, is_open=True)
    ]
    tables += [measured(study, table) for study in own for table in study.get("tables") or []]
    tables += [data(study, figures) for study, figures in charts]
    tables += [sensitivity(study) for study in inputs.studies if study.get("sensitivity")]
    return Panel(
        "papers",
        "The papers beside these recordings",
        finding(verdicts),
        [chart(study, figures) for study, figures in charts],
        tables,
    )


def by_chart(study: StudyResult) -> list[tuple[StudyResult, list[StudyFigure]]]:
    """The study with its figures by chart, without figures that have their own panels."""
    return grouped(study, [figure for figure in study["figures"] if not panel_of(figure)])


def panel_of(figure: StudyFigure) -> str:
    """The name of a figure's own panel; empty if it has none."""
    name = str(figure["name"])
    return next((own for own, prefixes in OWN_PANEL.items() if name.startswith(prefixes)), "")


def of_panel(inputs: Inputs, name: str) -> list[tuple[StudyResult, list[StudyFigure]]]:
    """The figures of a panel of their own, by study and chart."""
    return [
        each
        for study in inputs.studies
        for each in grouped(
            study, [figure for figure in study["figures"] if panel_of(figure) == name]
        )
    ]


def grouped(
    study: StudyResult, figures: Sequence[StudyFigure]
) -> list[tuple[StudyResult, list[StudyFigure]]]:
    """The study with these figures, grouped by the charts whose views they are."""
    charts: dict[str, list[StudyFigure]] = {}
    for figure in figures:
        charts.setdefault(chart_title(figure), []).append(figure)
    return [(study, figures) for figures in charts.values()]


def chart_title(figure: StudyFigure) -> str:
    """The title of the chart that has the figure as a view."""
    return str(figure.get("chart") or figure["title"])


def identifier(study: StudyResult, figure: StudyFigure) -> str:
    """The identifier of a figure on the page."""
    return f"figure-{study['study']}-{figure['name']}".replace(" ", "-")


def chart(study: StudyResult, figures: list[StudyFigure]) -> Chart:
    """Bars over names; lines over numbers and over ordered names."""
    first = figures[0]
    is_named = bool(first["is_categorical"])
    is_bar = is_named and not first.get("is_joined")
    x_label, y_label = str(first["x_label"]), str(first["y_label"])
    is_log = bool(first.get("has_log_y"))
    group = first.get("group")
    return Chart(
        identifier(study, first),
        chart_title(first),
        Axis(x_label, "text", "category") if is_named else Axis(x_label, "ratio"),
        Axis(y_label, "ratio", "log") if is_log else Axis(y_label, "ratio", low=0),
        [View(str(figure.get("view") or ""), series(figure)) for figure in figures],
        "bar" if is_bar else "line",
        group=f"{study['study']}-{group}" if group else "",
        is_stacked=bool(first.get("is_stacked")),
    )


def series(figure: StudyFigure, factor: float = 1, reference: str = "paper") -> list[Series]:
    """The points of a figure by series, with y times ``factor``; a series named ``reference...``
    is one to compare with."""
    x, y, line = (figure["columns"].index(name) for name in ("x", "y", "series"))
    is_named = bool(figure["is_categorical"])
    return [
        Series(
            name,
            [
                (
                    str(row[x]) if is_named else figure_in(row[x]),
                    None if row[y] is None else factor * figure_in(row[y]),
                )
                for row in figure["rows"]
                if str(row[line]) == name
            ],
            is_reference=name.startswith(reference),
        )
        for name in dict.fromkeys(str(row[line]) for row in figure["rows"])
    ]


def figure_in(cell: Scalar) -> float:
    """The number in a cell, which is known to have one."""
    if not isinstance(cell, (int, float)):
        raise TypeError(f"not a number: {cell!r}")
    return cell


def data(study: StudyResult, figures: list[StudyFigure]) -> Table:
    """The points of a chart as a table, view after view."""
    columns = list(figures[0]["columns"])
    rows = []
    for figure in figures:
        view = [str(figure.get("view") or "")] if len(figures) > 1 else []
        for row in figure["rows"]:
            point = dict(zip(figure["columns"], row, strict=True))
            rows.append([*view, *(point.get(name) for name in columns)])
    names = [*(["view"] if len(figures) > 1 else []), *columns]
    return Table(
        f"data-{identifier(study, figures[0])}",
        chart_title(figures[0]),
        [Column(name, name, "ratio" if name in ("y", "std") else "text") for name in names],
        rows,
    )


def measured(study: StudyResult, table: StudyTable) -> Table:
    """A table of the study besides its figures."""
    columns, rows = table["columns"], table["rows"]
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    shares = table.get("shares") or []
    return Table(
        f"{study['study']}-{table['name']}".replace(" ", "-"),
        str(table["title"]),
        [
            Column(name, name, "share" if name in shares else unit(column))
            for name, column in zip(columns, cells, strict=True)
        ],
        [["" if cell is None else cell for cell in row] for row in rows],
        is_open=len(rows) <= ROWS_OPEN,
        note=str(table["note"]),
    )


def unit(column: Sequence[object]) -> Unit:
    """The unit of a column that is not a share: a ratio or text."""
    is_figures = any(isinstance(cell, (int, float)) for cell in column)
    return "ratio" if is_figures else "text"


def sensitivity(study: StudyResult) -> Table:
    """The effect of each choice that the papers leave open, as a share of the value without it."""
    rows = study["sensitivity"]
    names = list(rows[0])
    return Table(
        f"sensitivity-{study['study']}",
        f"{study['study']}: what each open choice changes",
        [
            Column(
                name,
                name.replace("_", " "),
                "share" if isinstance(rows[0][name], float) else "text",
            )
            for name in names
        ],
        [[row[name] for name in names] for row in rows],
    )


def finding(verdicts: Sequence[Sequence[str]]) -> str:
    """How many statements have each verdict."""
    counts = Counter(
        "need a certain reading" if row[5].startswith("needs") else row[5] for row in verdicts
    )
    plural = {
        "holds": "hold",
        "does not hold": "do not hold",
        "not measurable": "are not measurable",
    }
    single = {
        "need a certain reading": "needs a certain reading",
        "not measurable": "is not measurable",
    }
    parts = ", ".join(
        f"{count} {(single if count == 1 else plural).get(name, name)}"
        for name, count in counts.most_common()
    )
    return f"Of {len(verdicts)} checked statements of the papers: {parts}."
