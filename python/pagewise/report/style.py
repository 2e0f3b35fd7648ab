"""Colour, symbol and dash of every series, the same in all charts of a report.

Colours are those of Okabe and Ito (2008), told apart with every common colour blindness; symbol and
dash differ too, so that a series is known in black and white.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

COLORS = 8
"""Number of colours in the page's style sheet, ``--series-0`` and on."""

SYMBOLS = ("circle", "triangle", "rect", "diamond")
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 3), (9, 3, 2, 3), (14, 4), (5, 2, 1, 2, 1, 2))

LEADING = ("adaptive", "hierarchical", "hybrid", "nvm-cache", "priority", "clairvoyant", "flash")
"""Names that always come first, so that their colours are the same in every report."""


class SeriesStyle(TypedDict):
    """How one series is drawn."""

    color: int
    symbol: str
    dash: list[int]


def styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """A style for each name; the leading names first, the others in order of appearance."""
    given = list(dict.fromkeys(names))
    ordered = [name for name in LEADING if name in given]
    ordered += [name for name in given if name not in ordered]
    return {name: style(rank) for rank, name in enumerate(ordered)}


def style(rank: int) -> SeriesStyle:
    """The style of the series with this rank; after eight colours the dashes shift."""
    lap = rank // COLORS
    return {
        "color": rank % COLORS,
        "symbol": SYMBOLS[(rank + lap) % len(SYMBOLS)],
        "dash": list(DASHES[(rank + lap) % len(DASHES)]),
    }
