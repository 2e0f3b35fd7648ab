"""How long a page waits for its next access, and what a memory of each size would miss."""

from __future__ import annotations

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, View
from pagewise.report.thin import cumulative, thin
from pagewise.units import PAGE_BYTES, format_share, format_size

COLUMNS = (
    Column("curve", "curve"),
    Column("memory_bytes", "memory", "bytes"),
    Column("miss_ratio", "miss ratio", "share"),
)


def panel(inputs: Inputs) -> Panel | None:
    """Miss-ratio curves of every policy known, and the distribution of reuse distances."""
    curves = miss_series(inputs)
    if not curves:
        return None
    charts = [
        Chart(
            "miss-ratio",
            "Miss ratio by size of memory",
            Axis("memory", "bytes", "log"),
            Axis("misses, share of accesses", "share", low=0, high=1),
            [View("all recordings", curves)],
        )
    ]
    distances = [
        Series(name, cumulative(analysis["reuse_distance"], PAGE_BYTES))
        for name, analysis in inputs.analyses.items()
    ]
    if distances:
        charts.append(
            Chart(
                "reuse-distance",
                "Re-accesses within a reuse distance",
                Axis("distinct pages in between, as memory", "bytes", "log"),
                Axis("share of re-accesses", "share", low=0, high=1),
                [View("all recordings", distances)],
            )
        )
    rows = [(series.name, size, ratio) for series in curves for size, ratio in series.points]
    return Panel(
        "reuse",
        "Reuse and miss-ratio curves",
        finding(inputs),
        charts,
        [Table("miss-ratios", "Miss ratios", COLUMNS, rows)],
        ["LRU curves are exact at every size, from the stack distances of one pass."],
    )


def miss_series(inputs: Inputs) -> list[Series]:
    """The LRU curve of each analysis, then the counted sizes of each policy."""
    series = [
        Series(f"{name}, lru", thin(lru_points(analysis)))
        for name, analysis in inputs.analyses.items()
    ]
    for result in inputs.misses:
        for policy, counts in result["misses"].items():
            points = [
                (int(frames) * PAGE_BYTES, count / max(1, result["requests"]))
                for frames, count in sorted(counts.items(), key=lambda pair: int(pair[0]))
            ]
            series.append(Series(f"{result['name']}, {policy}", points))
    return series


def finding(inputs: Inputs) -> str:
    """The memory at which misses have fallen half way to what no memory avoids."""
    parts = []
    for name, analysis in list(inputs.analyses.items())[:3]:
        points = lru_points(analysis)
        if not points:
            continue
        floor = min(ratio for _, ratio in points)
        size = halving(points)
        if size is None:
            continue
        parts.append(
            f"on {name}, {format_size(size)} of memory halve the misses that memory can avoid; "
            f"{format_share(floor)} of accesses miss at any size, being the first to their page"
        )
    text = ". ".join(f"{part[0].upper()}{part[1:]}" for part in parts)
    return f"{text}." if text else "Misses of each policy, counted exactly."


def halving(points: list[tuple[float, float]]) -> float | None:
    """The memory in bytes at which misses are half way down to what no memory avoids."""
    if not points:
        return None
    floor = min(ratio for _, ratio in points)
    half = floor + (1 - floor) / 2
    return next(size for size, ratio in points if ratio <= half)


def lru_points(analysis: Result) -> list[tuple[float, float]]:
    """Memory in bytes against miss ratio; a size of 0 has no place on a logarithmic axis."""
    return [
        (frames * PAGE_BYTES, ratio) for frames, ratio in analysis["miss_ratio_curve"] if frames
    ]
