"""The catalog of parts, in the order of the page: one module and one row each."""

from __future__ import annotations

from lazy.part import Part
from lazy.parts import churn, exchange, forks, numbers, pictures, pressure, small, swipe

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        churn.PART,
        exchange.PART,
        small.PART,
        pressure.PART,
        forks.PART,
        numbers.PART,
        pictures.PART,
        swipe.PART,
    )
}
