"""The colour, symbol and dash of each series, the same in all charts of a report.

The colours are those of Okabe and Ito (2008), distinct with every common colour blindness. Symbols
and dashes differ too, so that series are distinct in black and white.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from pagewise import catalog

COLORS = 8
"""How many colours the page's style sheet has, from ``--series-0`` on."""

SYMBOLS = ("circle", "triangle", "rect", "diamond")
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 3), (9, 3, 2, 3), (14, 4))


class SeriesStyle(TypedDict):
    """The colour, symbol and dash of one series."""

    color: int
    symbol: str
    dash: list[int]


def styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """A style for each name of one group of charts.

    An architecture has its rank in the catalog in every chart. Its variants (with other options)
    and all other names take the free ranks in order of appearance.
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
    """The style for a rank; each time the colours run out, symbols and dashes shift."""
    lap = rank // COLORS
    return {
        "color": rank % COLORS,
        "symbol": SYMBOLS[(rank + lap) % len(SYMBOLS)],
        "dash": list(DASHES[(rank + lap) % len(DASHES)]),
    }
