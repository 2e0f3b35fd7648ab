"""Numbers with a range, for the types of results that Python computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias


@dataclass(frozen=True)
class Range:
    """The range of a number, for its schema."""

    minimum: int
    maximum: int | None = None


Count: TypeAlias = Annotated[int, Range(0)]
Amount: TypeAlias = Annotated[float, Range(0)]
Share: TypeAlias = Annotated[float, Range(0, 1)]
