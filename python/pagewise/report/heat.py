"""Maps of accesses: a column for a time, a row for a range of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagewise.report.model import Axis, Point, Series

LEVELS = (
    (0, 0.08, "no access"),
    (0.25, 0.3, "up to a quarter of the most"),
    (0.5, 0.6, "up to a half"),
    (1, 1, "more than a half"),
)
"""Largest share of the most accesses, shade, and name of the series."""
MARKS_MAX = 8
"""Addresses beside a map."""


@dataclass(frozen=True)
class HeatRow:
    """A range of addresses, in hexadecimal, and the accesses to it in each bin; None where the
    range was not watched."""

    first: str
    last: str
    accesses: Sequence[float | None]


def address_axis(rows: Sequence[HeatRow]) -> Axis:
    """The axis of the ranges, some of them with their first address."""
    every = -(-len(rows) // MARKS_MAX)
    marks = [row.first if place % every == 0 else "" for place, row in enumerate(rows)]
    return Axis("", "count", low=-0.5, high=len(rows) - 0.5, names=marks)


def heat_series(rows: Sequence[HeatRow], start: float, length: float, unit: str) -> list[Series]:
    """The cells by their accesses, as shares of the most.

    ``start`` and ``length`` of a bin are in the unit of the other axis; ``unit`` is that of the
    accesses in the tooltips.
    """
    most = max((value for row in rows for value in row.accesses if value), default=0)
    points: dict[str, list[Point]] = {name: [] for _, _, name in LEVELS}
    labels: dict[str, list[str]] = {name: [] for _, _, name in LEVELS}
    for number, row in enumerate(rows):
        for place, value in enumerate(row.accesses):
            if value is None:
                continue
            share = value / most if most else 0
            name = next(name for limit, _, name in LEVELS if share <= limit)
            points[name].append((start + (place + 0.5) * length, number))
            labels[name].append(f"{row.first}-{row.last}: {value:.3g} {unit}")
    return [
        Series(name, points[name], labels[name], shade=shade)
        for _, shade, name in LEVELS
        if points[name]
    ]
