"""How long pages wait for their next access, and the misses at each size of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagewise.report.inputs import Inputs, ReadAnalysis
from pagewise.report.kinds import OBJECTS, PAGES, Kind, kind_of
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, View
from pagewise.report.style import COLORS
from pagewise.report.thin import cumulative, thin
from pagewise.units import format_share

REACCESSES = (
    Column("recording", "recording"),
    Column("reaccess_share", "of accesses, to what was accessed before", "share"),
)
RATIO = Column("miss_ratio", "miss ratio", "share")
MEMORY = {
    PAGES.unit: Column("memory_bytes", "memory", "bytes"),
    OBJECTS.unit: Column("objects", "room for objects", "count"),
}
"""The column for the size of a memory, by the unit of its pages."""


def panel(inputs: Inputs) -> Panel | None:
    """Miss-ratio curves of every known policy, and the distribution of reuse distances."""
    charts: list[Chart] = []
    tables: list[Table] = []
    # Swap counts memory in bytes, caches count objects; a report may have both.
    for kind, suffix in ((PAGES, ""), (OBJECTS, "-objects")):
        curves = miss_series(inputs, kind)
        if curves:
            charts += [miss_chart(curves, kind, suffix), *distance_chart(inputs, kind, suffix)]
            rows = [
                (full_name(curve), size, ratio)
                for curve in curves
                for size, ratio in curve.series.points
            ]
            columns = (Column("curve", "curve"), MEMORY[kind.unit], RATIO)
            caption = f"Miss ratios by {MEMORY[kind.unit].label}"
            tables.append(Table(f"miss-ratios{suffix}", caption, columns, rows))
    if not charts:
        return None
    shares = [
        (name, analysis["reaccess_share"])
        for name, analysis in inputs.accessed().items()
        if "reaccess_share" in analysis  # absent in results of an earlier pagewise
    ]
    if shares:
        tables.append(Table("reaccesses", "The most that memory can serve", REACCESSES, shares))
    notes = ["LRU curves are exact at every size, from the stack distances of one pass."]
    title = "Reuse and miss-ratio curves"
    return Panel("reuse", title, finding(inputs), charts, tables, notes)


@dataclass(frozen=True)
class Curve:
    """The miss ratios of a recording, as a series with the name of the policy."""

    recording: str
    series: Series


def full_name(curve: Curve) -> str:
    """The recording and the policy of a curve."""
    return f"{curve.recording}, {curve.series.name}"


def views_of(curves: list[Curve]) -> list[View]:
    """All curves in one view, or one view per recording if there are more curves than colours."""
    if len(curves) <= COLORS:
        shown = [replace(curve.series, name=full_name(curve)) for curve in curves]
        return [View("all recordings", shown)]
    by_recording: dict[str, list[Series]] = {}
    for curve in curves:
        by_recording.setdefault(curve.recording, []).append(curve.series)
    return [View(name, series) for name, series in by_recording.items()]


def miss_chart(curves: list[Curve], kind: Kind, suffix: str) -> Chart:
    """Miss ratios over the size of memory."""
    label = MEMORY[kind.unit].label
    return Chart(
        f"miss-ratio{suffix}",
        "Miss ratio by size of memory" if kind is PAGES else f"Miss ratio by {label}",
        Axis(label, kind.unit, "log"),
        Axis("misses, share of accesses", "share", low=0, high=1),
        views_of(curves),
    )


def distance_chart(inputs: Inputs, kind: Kind, suffix: str) -> list[Chart]:
    """Re-accesses by reuse distance; None without analyses."""
    distances = [
        Series(name, cumulative(analysis["reuse_distance"], kind.bytes_each))
        for name, analysis in of_kind(inputs, kind)
    ]
    if not distances:
        return []
    between = (
        "distinct pages in between, as memory" if kind is PAGES else "distinct objects between"
    )
    return [
        Chart(
            f"reuse-distance{suffix}",
            "Re-accesses within a reuse distance",
            Axis(between, kind.unit, "log"),
            Axis("share of re-accesses", "share", low=0, high=1),
            [View("all recordings", distances)],
        )
    ]


def of_kind(inputs: Inputs, kind: Kind) -> list[tuple[str, ReadAnalysis]]:
    """The recordings whose unit is that of ``kind``."""
    return [
        (name, analysis)
        for name, analysis in inputs.accessed().items()
        if kind_of(analysis).unit == kind.unit
    ]


def miss_series(inputs: Inputs, kind: Kind) -> list[Curve]:
    """The LRU curve of each analysis, then the misses of each policy at the counted sizes."""
    curves = [
        Curve(name, Series("lru", thin(lru_points(analysis))))
        for name, analysis in of_kind(inputs, kind)
    ]
    known = {full_name(curve) for curve in curves}
    for result in inputs.misses:
        of_result = kind_of(inputs.analyses.get(result["name"], result))
        for policy, counts in result["misses"].items():
            points = [
                (int(frames) * kind.bytes_each, count / max(1, result["requests"]))
                for frames, count in sorted(counts.items(), key=lambda pair: int(pair[0]))
            ]
            curve = Curve(result["name"], Series(policy, points))
            if of_result.unit == kind.unit and full_name(curve) not in known:
                curves.append(curve)
    return curves


def finding(inputs: Inputs) -> str:
    """The memory that halves the avoidable misses."""
    parts = []
    for name, analysis in list(inputs.accessed().items())[:3]:
        kind, points = kind_of(analysis), lru_points(analysis)
        size = halving(points)
        if size is None:
            continue
        floor = min(ratio for _, ratio in points)
        parts.append(
            f"on {name}, {kind.amount(size)} halves the misses that memory can avoid; "
            f"{format_share(floor)} of accesses miss at any size, being the first to their "
            f"{kind.noun.removesuffix('s')}"
        )
    text = ". ".join(f"{part[0].upper()}{part[1:]}" for part in parts)
    return f"{text}." if text else "Misses of each policy, counted exactly."


def halving(points: list[tuple[float, float]]) -> float | None:
    """The memory that halves the avoidable misses, in its unit."""
    if not points:
        return None
    floor = min(ratio for _, ratio in points)
    half = floor + (1 - floor) / 2
    return next(size for size, ratio in points if ratio <= half)


def lru_points(analysis: ReadAnalysis) -> list[tuple[float, float]]:
    """Memory against miss ratio, without a memory of 0: the axis is logarithmic."""
    each = kind_of(analysis).bytes_each
    return [(frames * each, ratio) for frames, ratio in analysis["miss_ratio_curve"] if frames]
