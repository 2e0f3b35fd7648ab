"""Reduces the points of curves, and computes cumulative shares."""

from __future__ import annotations

from collections.abc import Sequence

from pagewise.report.model import Point

POINTS_MAX = 300
SHARE_SEEN = 0.002


def thin(points: Sequence[Point], limit: int = POINTS_MAX) -> list[Point]:
    """At most ``limit`` points: the first, the last, and evenly spaced points between."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(rank * step)] for rank in range(limit)]


def cumulative(histogram: Sequence[Sequence[int]], unit: float) -> list[Point]:
    """Largest value of each bucket, times ``unit``, against the share of all counts up to it.

    A bucket of 0 counts as 1, since a logarithmic axis has no 0. The flat start, where the share is
    too small to see, is left out.
    """
    total = sum(count for _, count in histogram) or 1
    points: list[Point] = []
    running = 0
    for largest, count in histogram:
        running += count
        if running >= SHARE_SEEN * total:
            points.append((max(1, largest) * unit, running / total))
    return points
