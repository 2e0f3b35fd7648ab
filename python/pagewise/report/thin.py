"""Fewer points for a chart than a curve has, without a visible difference."""

from __future__ import annotations

from collections.abc import Sequence

from pagewise.report.model import Point

POINTS_MAX = 300


def thin(points: Sequence[Point], limit: int = POINTS_MAX) -> list[Point]:
    """At most about ``limit`` points: the first, the last, and those evenly between by rank."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(rank * step)] for rank in range(limit)]
