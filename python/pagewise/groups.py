"""Groups of recordings whose figures are alike, or the finding that there are none.

Ward's method (1963) divides the recordings into 2 to 6 groups. Two groups are apart if the
silhouette (Rousseeuw 1987) of their recordings is at least `APART` on the line between the centres
of both: a normal distribution that is cut in two has 0.6, a uniform or an exponential one up to
0.7. The same method divides made-up recordings without groups that have the means and covariances
of the real ones, as the gap statistic does (Tibshirani, Walther and Hastie 2001); groups count only
if they are farther apart than all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from pagewise.fleet_figures import OF_SAMPLES, Figures, unit_of
from pagewise.ranges import Count

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.random import Generator
    from numpy.typing import NDArray

    Points: TypeAlias = NDArray[float64]
    """A row for each recording, a column for each scaled figure."""
    Labels: TypeAlias = NDArray[int64]
    """The group of each recording, from 0."""

RECORDINGS_MIN = 30
"""Fewer recordings look as if they had groups too often."""
GROUPS_MAX = 6
SHARE_MIN = 0.1
"""The smallest share of the recordings that is a group; fewer are outliers."""
APART = 0.8
"""The silhouette of two groups that are apart: of two normal distributions whose means are 5.6
standard deviations apart."""
FEW_FIGURES = (1, 2, 3, 5)
"""By how many figures recordings are divided, beside by all."""
SAMPLE_MAX = 300
"""How many recordings form the groups; each further one joins the group with the nearest centre."""
MADE_UP = 30
"""How many times recordings without groups are made up, from three distributions in turn."""
HELD_MIN = 0.9
"""The share of recordings that must have a figure; those without it are in no group."""
ALIKE = 0.95
"""A figure with a greater correlation with an earlier one follows from it and does not count."""
BEYOND = 0.5
"""How far beyond its 10 % and 90 % values a figure counts, in the distance between both."""
SHORTEST_S = 1e-3
"""Shorter times count as this one, since a time of 0 has no logarithm."""
SMALLEST_SHARE = 0.001
"""Smaller shares count as this one, and those nearer to 1 as 1 less this one."""
SEED = 1


class FleetGroup(TypedDict):
    """Recordings whose figures are alike."""

    traces: Count
    """Number of recordings."""
    typical: str
    """The recording that is nearest to the centre."""
    medians: dict[str, float]
    """Median of each figure, also of those by which the recordings were not compared."""


class FleetGroups(TypedDict):
    """Groups of recordings whose figures are alike, and how far the groups are apart."""

    compared: list[str]
    """The figures by which the groups are apart; empty if there are no groups."""
    apart: float | None
    """How far the two nearest groups are apart: the mean silhouette of their recordings on the line
    between the centres of both, from -1 to 1. Without groups it is the greatest of all divisions,
    and null if the recordings were not divided."""
    apart_by_chance: float | None
    """The greatest such value of recordings that were made up without groups; null if it was not
    needed."""
    why: str
    """Why there are these groups, or none."""
    found: list[FleetGroup]
    """The groups, the largest first; empty if there are none."""


def groups(traces: Sequence[str], rows: Sequence[Figures]) -> tuple[FleetGroups, list[int | None]]:
    """The groups of recordings by their figures, and the number of each recording's group from 1.

    The number is None for a recording that lacks a figure, and for all if there are no groups. The
    answer depends only on the figures and their order.
    """
    import numpy

    nowhere: list[int | None] = [None] * len(rows)
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if not name.startswith(OF_SAMPLES)
        and sum(name in row for row in rows) >= HELD_MIN * len(rows)
    ]
    whole = [at for at, row in enumerate(rows) if all(name in row for name in names)]
    if len(whole) < RECORDINGS_MIN:
        return none(f"fewer than {RECORDINGS_MIN} recordings have the same figures"), nowhere
    random = numpy.random.default_rng(SEED)
    held = {name: numpy.array([float(rows[at][name]) for at in whole]) for name in names}
    columns = compared(held, random)
    if not columns:
        return none("the recordings hardly differ"), nowhere
    points = numpy.column_stack(list(columns.values()))
    places = numpy.unique(numpy.linspace(0, len(whole) - 1, SAMPLE_MAX).round().astype(int))
    answer, division = divided(points[places], list(columns), random)
    if division is None:
        return answer, nowhere
    sample, points = points[places][:, division.figures], points[:, division.figures]
    labels = division.labels
    centres = [numpy.median(sample[labels == each], axis=0) for each in range(division.count)]
    distances = numpy.array([numpy.linalg.norm(points - centre, axis=1) for centre in centres])
    nearest = distances.argmin(axis=0)
    members = [numpy.flatnonzero(nearest == each) for each in range(len(centres))]
    order = sorted(
        (each for each, inside in enumerate(members) if len(inside)),
        key=lambda each: (-len(members[each]), members[each][0]),
    )
    numbers = list(nowhere)
    for number, each in enumerate(order, 1):
        inside = [whole[at] for at in members[each]]
        typical = whole[int(members[each][distances[each][members[each]].argmin()])]
        answer["found"].append(
            {
                "traces": len(inside),
                "typical": traces[typical],
                "medians": medians([rows[at] for at in inside]),
            }
        )
        for at in inside:
            numbers[at] = number
    return answer, numbers


def none(why: str) -> FleetGroups:
    """No groups, without any having been looked for."""
    return {"compared": [], "apart": None, "apart_by_chance": None, "why": why, "found": []}


def medians(rows: Sequence[Figures]) -> dict[str, float]:
    """The median of each figure over the recordings that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: median(row[name] for row in rows if name in row) for name in names}


def compared(held: dict[str, NDArray[float64]], random: Generator) -> dict[str, NDArray[float64]]:
    """The scaled figures that count: no two say the same."""
    import numpy

    kept: dict[str, NDArray[float64]] = {}
    for name, values in held.items():
        column = scaled(name, values, random)
        if column is not None and all(
            abs(numpy.corrcoef(column, other)[0, 1]) <= ALIKE for other in kept.values()
        ):
            kept[name] = column
    return kept


def scaled(name: str, values: NDArray[float64], random: Generator) -> NDArray[float64] | None:
    """A figure of all recordings so that its 10 % value is 0 and its 90 % value 1.

    Counts, sizes and times go in by their logarithm, and so do shares, by that of their odds unless
    one is above 1. Whole numbers are first moved at random by up to a half, since otherwise each
    small count would look like a group. None if both values are equal.
    """
    import numpy

    if numpy.ptp(numpy.quantile(values, [0.1, 0.9])) == 0:
        return None
    match unit_of(name):
        case "seconds":
            values = numpy.log(numpy.maximum(values, SHORTEST_S))
        case "count" | "bytes":
            is_whole = bool((values == values.round()).all())
            moved = values + random.uniform(-0.5, 0.5, len(values)) if is_whole else values
            values = numpy.log1p(numpy.maximum(moved, -0.5))
        case _:
            shares = numpy.maximum(values, SMALLEST_SHARE)
            if values.max() <= 1:
                shares = numpy.minimum(shares, 1 - SMALLEST_SHARE)
                values = numpy.log(shares / (1 - shares))
            else:
                values = numpy.log(shares)
    return between(values)


def between(values: NDArray[float64]) -> NDArray[float64] | None:
    """Values so that 10 % are below 0 and 10 % above 1, cut `BEYOND` these."""
    import numpy

    low, high = numpy.quantile(values, [0.1, 0.9])
    if low == high:
        return None
    cut: NDArray[float64] = numpy.clip((values - low) / (high - low), -BEYOND, 1 + BEYOND)
    return cut


@dataclass(frozen=True)
class Division:
    """Points in groups by some of their figures."""

    figures: list[int]
    """The columns of the figures, in the order of the columns."""
    count: int
    """Number of groups."""
    labels: Labels
    """The group of each point."""
    apart: float
    """How far the two nearest groups are apart (`FleetGroups`)."""


def divided(
    points: Points, names: list[str], random: Generator
) -> tuple[FleetGroups, Division | None]:
    """The division into groups that are apart; None if there are no groups.

    Of several, that into most groups and, of these, that by most figures.
    """
    divisions = list(divisions_of(points))
    best = max((each.apart for each in divisions), default=0.0)
    answer = none(f"divided, they are at most {best:.2f} apart, and groups are at least {APART}")
    answer["apart"] = best
    if best < APART:
        return answer, None
    chance = by_chance(points, random)
    answer["apart_by_chance"] = chance
    found = [each for each in divisions if each.apart >= APART and each.apart > chance]
    if not found:
        answer["why"] = (
            f"divided, they are at most {best:.2f} apart, and made-up recordings without groups up "
            f"to {chance:.2f}"
        )
        return answer, None
    chosen = max(found, key=lambda each: (each.count, len(each.figures)))
    answer["compared"] = [names[column] for column in chosen.figures]
    answer["apart"] = chosen.apart
    answer["why"] = (
        f"at least {chosen.apart:.2f} apart; made-up recordings without groups at most {chance:.2f}"
    )
    return answer, chosen


def divisions_of(points: Points) -> Iterator[Division]:
    """Divisions by all figures, and by those few that alone divide the points best."""
    alone = [
        max((each.apart for each in divisions_by(points, [column])), default=-1.0)
        for column in range(points.shape[1])
    ]
    order = sorted(range(len(alone)), key=lambda column: -alone[column])
    for count in sorted({min(count, len(order)) for count in (*FEW_FIGURES, len(order))}):
        yield from divisions_by(points, sorted(order[:count]))


def divisions_by(points: Points, figures: list[int]) -> Iterator[Division]:
    """Divisions by these figures into 2 to `GROUPS_MAX` groups, none of them too small, by Ward's
    method."""
    import numpy
    from scipy.cluster.hierarchy import fcluster, linkage

    chosen = points[:, figures]
    tree = linkage(chosen, "ward")
    for count in range(2, GROUPS_MAX + 1):
        labels = fcluster(tree, count, "maxclust") - 1
        sizes = numpy.bincount(labels)
        if len(sizes) == count and sizes.min() >= SHARE_MIN * len(points):
            yield Division(figures, count, labels, apart(chosen, labels))


def apart(points: Points, labels: Labels) -> float:
    """How far the two nearest groups are apart (`FleetGroups`)."""
    import numpy

    parts = [points[labels == each] for each in range(labels.max() + 1)]
    centres = [numpy.median(part, axis=0) for part in parts]
    return min(
        silhouette(
            parts[first] @ (centres[second] - centres[first]),
            parts[second] @ (centres[second] - centres[first]),
        )
        for first, second in combinations(range(len(parts)), 2)
    )


def silhouette(first: NDArray[float64], second: NDArray[float64]) -> float:
    """The mean silhouette of two groups of at least two numbers each."""
    import numpy

    values = numpy.concatenate([first, second])
    distances = numpy.abs(values[:, None] - values)
    to_first = distances[:, : len(first)].sum(axis=1)
    to_second = distances[:, len(first) :].sum(axis=1)
    is_first = numpy.arange(len(values)) < len(first)
    inside = numpy.where(is_first, to_first / (len(first) - 1), to_second / (len(second) - 1))
    outside = numpy.where(is_first, to_second / len(second), to_first / len(first))
    greater = numpy.maximum(inside, outside)
    shares = (outside - inside) / numpy.where(greater > 0, greater, 1)
    return float(shares.mean())


def by_chance(points: Points, random: Generator) -> float:
    """How far groups are apart at most in made-up recordings without groups.

    These are drawn from a normal, a uniform and a skewed distribution on the principal axes of the
    recordings, and are scaled and divided as they are.
    """
    import numpy

    _, lengths, axes = numpy.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    spreads = lengths / len(points) ** 0.5
    shape = (len(points), len(spreads))
    farthest = -1.0
    for number in range(MADE_UP):
        match number % 3:
            case 0:
                drawn = random.standard_normal(shape)
            case 1:
                drawn = random.uniform(-(3**0.5), 3**0.5, shape)
            case _:
                drawn = (random.exponential(size=shape) - 1) * random.choice([-1, 1], shape[1])
        columns = [between(column) for column in ((drawn * spreads) @ axes).T]
        made = numpy.column_stack([column for column in columns if column is not None])
        farthest = max(farthest, *(each.apart for each in divisions_of(made)))
    return farthest
