"""The papers' figures beside ours, and the verdict on each of their statements."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Axis, Cell, Chart, Column, Panel, Series, Table, View

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


def panel(inputs: Inputs) -> Panel | None:
    """The table of verdicts and those of a study's own, then one chart per figure of a paper."""
    if not inputs.studies:
        return None
    figures = [(study, figure) for study in inputs.studies for figure in study["figures"]]
    verdicts = [verdict_row(row) for study in inputs.studies for row in study["verdicts"]]
    tables = [
        Table("verdicts", "Statements of the papers, checked", VERDICTS, verdicts, is_open=True)
    ]
    tables += [
        measured(study, table) for study in inputs.studies for table in study.get("tables") or []
    ]
    tables += [
        Table(
            f"data-{identifier(study, figure)}",
            f"{study['study']}: {figure['title']}",
            [Column(name, name, "ratio" if name in ("y", "std") else "text") for name in names],
            figure["rows"],
        )
        for study, figure in figures
        for names in [figure["columns"]]
    ]
    tables += [sensitivity(study) for study in inputs.studies if study.get("sensitivity")]
    charts = [chart(study, figure) for study, figure in figures]
    title = "The papers beside these recordings"
    return Panel("papers", title, finding(verdicts), charts, tables)


def verdict_row(verdict: Result) -> list[Cell]:
    """One checked statement in the columns of the table."""
    ruling = str(verdict["verdict"])
    if verdict.get("needs"):
        ruling = "needs " + ", ".join(f"{name}={value}" for name, value in verdict["needs"].items())
    readings = f"{verdict['holding']} of {verdict['readings']}" if verdict["readings"] else ""
    name = f"{verdict['check']} {verdict['part']}".strip()
    texts = (verdict[column] for column in ("data", "statement", "paper", "ours"))
    return [name, *map(str, texts), ruling, readings, str(verdict["why"])]


def identifier(study: Result, figure: Result) -> str:
    """The figure's name on the page."""
    return f"figure-{study['study']}-{figure['name']}".replace(" ", "-")


def chart(study: Result, figure: Result) -> Chart:
    """Lines where x is a number, bars where it is a name."""
    is_named = bool(figure["is_categorical"])
    rows: list[dict[str, Any]] = [
        dict(zip(figure["columns"], row, strict=True)) for row in figure["rows"]
    ]
    series = [
        Series(
            name,
            [
                (str(row["x"]) if is_named else row["x"], row["y"])
                for row in rows
                if str(row["series"]) == name
            ],
            is_reference=name.startswith("paper"),
        )
        for name in dict.fromkeys(str(row["series"]) for row in rows)
    ]
    x_label = str(figure["x_label"])
    return Chart(
        identifier(study, figure),
        f"{study['study']}: {figure['title']}",
        Axis(x_label, "text", "category") if is_named else Axis(x_label, "ratio"),
        Axis(str(figure["y_label"]), "ratio", low=0),
        [View("", series)],
        "bar" if is_named else "line",
        is_stacked=bool(figure.get("is_stacked")),
    )


def measured(study: Result, table: Result) -> Table:
    """A table that a study made beside its figures."""
    columns = table["columns"]
    cells = list(zip(*table["rows"], strict=True)) or [()] * len(columns)
    return Table(
        f"{study['study']}-{table['name']}".replace(" ", "-"),
        f"{study['study']}: {table['title']}. {table['note']}",
        [
            Column(
                name,
                name,
                "ratio" if any(isinstance(cell, (int, float)) for cell in column) else "text",
            )
            for name, column in zip(columns, cells, strict=True)
        ],
        [["" if cell is None else cell for cell in row] for row in table["rows"]],
        is_open=True,
    )


def sensitivity(study: Result) -> Table:
    """What each choice that the papers leave open changes."""
    rows = study["sensitivity"]
    names = list(rows[0])
    return Table(
        f"sensitivity-{study['study']}",
        f"{study['study']}: what each open choice changes",
        [Column(name, name.replace("_", " "), kind(rows[0][name])) for name in names],
        [[row[name] for name in names] for row in rows],
    )


def kind(value: object) -> Any:
    """The unit of a column by one of its values."""
    return "ratio" if isinstance(value, float) else "text"


def finding(verdicts: list[list[Cell]]) -> str:
    """How many statements hold."""
    counts = Counter(
        "need a certain reading" if str(row[5]).startswith("needs") else str(row[5])
        for row in verdicts
    )
    words = {"holds": "hold", "does not hold": "do not hold", "not measured here": "not measured"}
    parts = ", ".join(f"{count} {words.get(name, name)}" for name, count in counts.most_common())
    return f"Of {len(verdicts)} checked statements of the papers: {parts}."
