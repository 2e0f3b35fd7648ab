"""The papers' figures beside ours, and the verdict on each of their statements."""

from __future__ import annotations

from collections import Counter

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Axis, Cell, Chart, Column, Panel, Series, Table, View

VERDICTS = (
    Column("study", "study"),
    Column("check", "check"),
    Column("paper", "paper"),
    Column("ours", "ours"),
    Column("verdict", "verdict"),
    Column("reason", "why"),
)
POINTS = (
    Column("x", "x"),
    Column("series", "series"),
    Column("y", "y", "ratio"),
    Column("std", "std", "ratio"),
    Column("n", "n", "count"),
    Column("seed", "seed"),
)


def panel(inputs: Inputs) -> Panel | None:
    """The table of verdicts, then one chart per figure of a paper."""
    if not inputs.studies:
        return None
    figures = [(study, figure) for study in inputs.studies for figure in study["figures"]]
    verdicts: list[list[Cell]] = [
        [study["study"], *(text(verdict.get(column.name)) for column in VERDICTS[1:])]
        for study in inputs.studies
        for verdict in study["verdicts"]
    ]
    tables = [
        Table("verdicts", "Statements of the papers, checked", VERDICTS, verdicts, is_open=True)
    ]
    tables += [
        Table(
            f"data-{identifier(study, figure)}",
            f"{study['study']}: {figure['title']}",
            POINTS,
            [[row.get(column.name) for column in POINTS] for row in figure["rows"]],
        )
        for study, figure in figures
    ]
    charts = [chart(study, figure) for study, figure in figures]
    title = "The papers beside these recordings"
    return Panel("papers", title, finding(verdicts), charts, tables)


def text(value: object) -> str:
    """A figure or a word of a verdict as text."""
    return "" if value is None else str(value)


def identifier(study: Result, figure: Result) -> str:
    """The figure's name on the page."""
    return f"figure-{study['study']}-{figure['name']}".replace(" ", "-")


def chart(study: Result, figure: Result) -> Chart:
    """Lines where x is a number, bars where it is a name."""
    rows = figure["rows"]
    is_number = all(isinstance(row["x"], (int, float)) for row in rows)
    names = dict.fromkeys(str(row["series"]) for row in rows)
    series = [
        Series(
            name,
            [
                (row["x"] if is_number else str(row["x"]), row["y"])
                for row in rows
                if str(row["series"]) == name
            ],
            is_reference=name.startswith("paper"),
        )
        for name in names
    ]
    x_label = str(figure.get("x_label", ""))
    return Chart(
        identifier(study, figure),
        f"{study['study']}: {figure['title']}",
        Axis(x_label, "ratio") if is_number else Axis(x_label, "text", "category"),
        Axis(str(figure.get("y_label", "")), "ratio", low=0),
        [View("", series)],
        "line" if is_number else "bar",
    )


def finding(verdicts: list[list[Cell]]) -> str:
    """How many statements hold."""
    counts = Counter(str(row[4]) for row in verdicts)
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"Of {len(verdicts)} checked statements of the papers: {parts}."
