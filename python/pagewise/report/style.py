"""Colour, symbol and dash of every series, the same in all charts of a report.

Colours are those of Okabe and Ito (2008), told apart with every common colour blindness; symbol and
dash differ too, so that a series is known in black and white.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from pagewise import catalog

COLORS = 8
"""Number of colours in the page's style sheet, ``--series-0`` and on."""

SYMBOLS = ("circle", "triangle", "rect", "diamond")
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 3), (9, 3, 2, 3), (14, 4))


class SeriesStyle(TypedDict):
    """How one series is drawn."""

    color: int
    symbol: str
    dash: list[int]


def styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """A style for each name of one group of charts.

    An architecture has its rank of the catalog wherever it appears; a variant of it (other options)
    and every other name take the free ranks in order of appearance.
    """
    given = list(dict.fromkeys(names))
    ranked = (*catalog.systems(), *catalog.bounds())
    ranks = {name: ranked.index(name) for name in given if name in ranked}
    free = iter(rank for rank in range(len(given) + COLORS) if rank not in ranks.values())
    for name in given:
        rank = ranks.get(name)
        ranks[name] = next(free) if rank is None else rank
    return {name: style(rank) for name, rank in ranks.items()}


def style(rank: int) -> SeriesStyle:
    """The style of the series with this rank; every lap of colours shifts symbols and dashes."""
    lap = rank // COLORS
    return {
        "color": rank % COLORS,
        "symbol": SYMBOLS[(rank + lap) % len(SYMBOLS)],
        "dash": list(DASHES[(rank + lap) % len(DASHES)]),
    }
