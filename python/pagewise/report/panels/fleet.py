"""Figures of many recordings: how each is spread, and which recordings are unlike the others."""

from __future__ import annotations

from collections.abc import Sequence

from pagewise.fleet import OUTLIERS_FROM, Fleet, FleetTrace, outlying, why_none_unlike
from pagewise.fleet_figures import Unit, in_words, telling, unit_of, written
from pagewise.groups import FleetGroup
from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Column, Panel, Point, Series, Table, TableCell, View
from pagewise.report.thin import thin
from pagewise.units import format_count, format_counted

TITLES: dict[Unit, str] = {
    "share": "shares",
    "count": "counts",
    "bytes": "sizes",
    "seconds": "times",
}
"""Units in the order of their charts, and what their figures are called together."""
SPREAD_COLUMNS = (
    Column("figure", "figure"),
    Column("recordings", "recordings", "count"),
    Column("min", "min"),
    Column("p10", "10 % have at most"),
    Column("median", "median"),
    Column("p90", "90 % have at most"),
    Column("max", "max"),
    Column("outliers", "unlike the others", "count"),
)
GROUPED = "group"
"""The column of the group of a recording."""
LEFT_OUT_COLUMNS = (Column("trace", "file"), Column("why", "why"))
ONE_EACH = ("recordings", "unlike the others")
"""Names of the points of recordings, and of those that are outliers in any figure."""
POINTS_MAX = 2000
"""How many recordings that are not outliers a chart draws; the table has all."""
FEWEST = 2
"""Fewer recordings have no spread to draw."""


def panel(inputs: Inputs) -> Panel | None:
    """Charts and tables of each result of a folder; None without such results."""
    if not inputs.fleets:
        return None
    charts, tables = [], []
    for number, fleet in enumerate(inputs.fleets):
        of_command = f" ({fleet['command']})" if len(inputs.fleets) > 1 else ""
        charts += spreads(fleet, number, of_command) + scatters(fleet, number, of_command)
        tables += tables_of(fleet, number, of_command)
    notes = [
        "Unlike the others: more than 3.5 standard deviations from the median (modified z-score), "
        f"among {OUTLIERS_FROM} recordings or more. Where groups were found, that is the median of "
        "its group."
    ]
    return Panel("fleet", "Many recordings", finding(inputs), charts, tables, notes)


def held_by(fleet: Fleet) -> Sequence[FleetTrace]:
    """The recordings of a result; results of an earlier pagewise do not list them."""
    return fleet.get("recordings") or []


def spreads(fleet: Fleet, number: int, of_command: str) -> list[Chart]:
    """For each unit a chart of its figures: the share of recordings that have at most a value."""
    charts = []
    recordings = held_by(fleet)
    for unit, title in TITLES.items():
        series = []
        for name in fleet["figures"]:
            values = sorted(each["figures"][name] for each in recordings if name in each["figures"])
            if unit_of(name) == unit and len(values) >= FEWEST and values[0] < values[-1]:
                series.append(Series(in_words(name), cumulative(values, unit)))
        if series:
            charts.append(
                Chart(
                    f"fleet-{number}-{unit}",
                    f"How {title} are spread over the recordings{of_command}",
                    value_axis(title[:-1], unit, series),
                    Axis("share of recordings that have at most this", "share", low=0, high=1),
                    [View("all figures", series)],
                )
            )
    return charts


def cumulative(values: Sequence[float], unit: Unit) -> list[Point]:
    """Sorted values, each with the share of values up to it."""
    low = lowest(unit)
    points: list[Point] = [
        (max(low, value), rank / len(values)) for rank, value in enumerate(values, 1)
    ]
    return thin(points)


def lowest(unit: Unit) -> float:
    """What a smaller value counts as, since a logarithmic axis has no 0."""
    return {"share": 0.0, "count": 1.0, "bytes": 1.0, "seconds": 1e-6}[unit]


def value_axis(label: str, unit: Unit, series: Sequence[Series] = ()) -> Axis:
    """An axis of values of a unit: shares from 0 to 1, others logarithmic.

    A share of what another architecture takes may be above 1; the axis then ends with ``series``.
    """
    if unit != "share":
        return Axis(label, unit, "log")
    shares = [x for each in series for x, _ in each.points if isinstance(x, float | int)]
    return Axis(label, unit, low=0, high=max([1, *shares]))


def top_axis(label: str, unit: Unit, views: Sequence[View]) -> Axis:
    """The axis of the second values of points, as `value_axis` is of the first."""
    if unit != "share":
        return Axis(label, unit, "log")
    shares = [y for view in views for each in view.series for _, y in each.points if y is not None]
    return Axis(label, unit, low=0, high=max([1, *shares]))


def scatters(fleet: Fleet, number: int, of_command: str) -> list[Chart]:
    """A point for each recording: its first count against a share, one view for each share.

    Without shares, against a time.
    """
    recordings = held_by(fleet)
    names = list(fleet["figures"])
    counts = [name for name in names if unit_of(name) == "count"]
    for unit in ("share", "seconds"):
        others = [name for name in names if unit_of(name) == unit]
        views = (
            [
                View(in_words(name), series)
                for name in others
                if (series := points_of(recordings, counts[0], name))
            ]
            if counts
            else []
        )
        if views and len(recordings) >= FEWEST:
            return [
                Chart(
                    f"fleet-{number}-recordings",
                    f"Each recording by {in_words(counts[0])}{of_command}",
                    value_axis(in_words(counts[0]), "count"),
                    top_axis(TITLES[unit][:-1], unit, views),
                    views,
                    "scatter",
                )
            ]
    return []


def points_of(recordings: Sequence[FleetTrace], first: str, second: str) -> list[Series]:
    """The recordings that have both figures; outliers are a series of their own."""
    both = [each for each in recordings if first in each["figures"] and second in each["figures"]]
    found = [[each for each in both if not each["outlying"]], outlying(both)]
    series = []
    for label, group in zip(ONE_EACH, found, strict=True):
        shown = [group[round(at)] for at in evenly(len(group))]
        points: list[Point] = [
            (
                max(lowest(unit_of(first)), each["figures"][first]),
                max(lowest(unit_of(second)), each["figures"][second]),
            )
            for each in shown
        ]
        if points:
            series.append(Series(label, points, [each["trace"] for each in shown]))
    return series


def evenly(count: int) -> Sequence[float]:
    """The places of at most ``POINTS_MAX`` of this many recordings."""
    if count <= POINTS_MAX:
        return range(count)
    return [at * (count - 1) / (POINTS_MAX - 1) for at in range(POINTS_MAX)]


def tables_of(fleet: Fleet, number: int, of_command: str) -> list[Table]:
    """The spread of each figure, every recording, and the files that were left out."""
    spread_rows: list[Sequence[TableCell]] = [
        (
            in_words(name),
            spread["traces"],
            *(
                written(name, value)
                for value in (
                    *(spread["min"], spread["p10"], spread["median"]),
                    *(spread["p90"], spread["max"]),
                )
            ),
            spread["outliers_count"],
        )
        for name, spread in fleet["figures"].items()
    ]
    title = f"How the figures are spread{of_command}"
    made = [Table(f"fleet-{number}-spread", title, SPREAD_COLUMNS, spread_rows, is_open=True)]
    names = list(fleet["figures"])
    groups = fleet.get("groups")
    found = groups["found"] if groups else []
    if groups and found:
        title = f"Groups of recordings that are alike: {groups['why']}{of_command}"
        made.append(
            Table(f"fleet-{number}-groups", title, columns_of_groups(found), rows_of_groups(found))
        )
    grouped = [Column(GROUPED, "group", "count")] if found else []
    columns = (
        Column("trace", "recording"),
        Column("unlike", "unlike the others in"),
        *grouped,
        *(Column(name, in_words(name), unit_of(name)) for name in names),
    )
    far = outlying(held_by(fleet))
    near = [each for each in held_by(fleet) if not each["outlying"]]
    rows: list[Sequence[TableCell]] = [
        (
            each["trace"],
            ", ".join(map(in_words, each["outlying"])),
            *([each.get("group")] if found else []),
            *(each["figures"].get(name) for name in names),
        )
        for each in [*far, *near]
    ]
    if rows:
        title = f"Every recording, those unlike the others first{of_command}"
        made.append(Table(f"fleet-{number}-every", title, columns, rows, is_open=True))
    left_out: list[Sequence[TableCell]] = [
        (each["trace"], each["error"]) for each in fleet["unreadable"]
    ]
    if left_out:
        title = f"Files that were left out{of_command}"
        made.append(Table(f"fleet-{number}-left-out", title, LEFT_OUT_COLUMNS, left_out))
    return made


def columns_of_groups(found: Sequence[FleetGroup]) -> Sequence[Column]:
    """A column for each group, after the figure."""
    numbers = range(1, len(found) + 1)
    return (Column("figure", "median of"), *(Column(f"g{at}", f"group {at}") for at in numbers))


def rows_of_groups(found: Sequence[FleetGroup]) -> list[Sequence[TableCell]]:
    """How many recordings each group has, its typical recording, and the medians, those first that
    differ most."""
    counts = ("recordings", *(format_count(each["traces"]) for each in found))
    typical = ("typical recording", *(each["typical"] for each in found))
    medians = [
        (
            in_words(name),
            *(
                written(name, each["medians"][name]) if name in each["medians"] else None
                for each in found
            ),
        )
        for name in telling([each["medians"] for each in found])
    ]
    return [counts, typical, *medians]


def finding(inputs: Inputs) -> str:
    """How many recordings are unlike the others, and the farthest, for each result."""
    sentences = []
    for fleet in inputs.fleets:
        count, far = format_counted(fleet["traces"], "recording"), outlying(held_by(fleet))
        why = None if far else why_none_unlike(fleet)
        text = f"{fleet['command']}: {count}; "
        text += why or f"{format_count(len(far))} unlike the others"
        if far:
            text += f", the farthest {far[0]['trace']} ({farthest_in_words(far[0], fleet)})"
        if (groups := fleet.get("groups")) and groups["found"]:
            text += f"; {len(groups['found'])} groups of recordings that are alike"
        if left_out := len(fleet["unreadable"]):
            text += f"; {format_counted(left_out, 'file')} left out"
        sentences.append(f"{text}.")
    return " ".join(sentences)


def farthest_in_words(recording: FleetTrace, fleet: Fleet) -> str:
    """The figure by which a recording is farthest from the others, with the median of its group
    or, if it is in none, of all."""
    scores = recording["outlying"]
    name = max(scores, key=lambda each: abs(scores[each]))
    words = f"{in_words(name)} {written(name, recording['figures'].get(name, 0.0))}"
    groups, number = fleet.get("groups"), recording.get("group")
    if groups and number and 0 < number <= len(groups["found"]):
        medians = groups["found"][number - 1]["medians"]
        return f"{words}, median of its group {written(name, medians.get(name, 0.0))}"
    spread = fleet["figures"].get(name)
    return words if spread is None else f"{words}, median {written(name, spread['median'])}"
