"""Confidence intervals of a figure from few launches: bootstrap percentiles (Efron 1979)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.random import Generator
    from numpy.typing import NDArray

BOOTSTRAP = "95 % intervals by bootstrap over visits"
"""The use of the seed in a study of runs."""
NESTED_BOOTSTRAP = "95 % intervals by bootstrap over applications, runs and visits"
"""The use of the seed in a study whose applications ran more than once."""
RESAMPLES = 2000
LEVEL = 0.95

Groups: TypeAlias = Sequence[Sequence[float]]
"""Values by application."""
Nested: TypeAlias = Mapping[str, Groups]
"""Values of each run, by application."""


def interval(
    values: Sequence[float], quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """Lower and upper end of the 95 % interval of a mean (``quantile`` None) or a quantile.

    ``name`` separates the random numbers of each figure. Visits are drawn as if independent.
    """
    import numpy

    return _ends(numpy.sort(_resampled([values], quantile, seed, name)))


def ratio_interval(
    above: Sequence[float], below: Sequence[float], quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """The 95 % interval of the mean or quantile of ``above`` over that of ``below``."""
    return grouped_ratio_interval([above], [below], quantile, seed, name)


def grouped_ratio_interval(
    above: Groups, below: Groups, quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """The 95 % interval of that ratio over the visits of several applications together.

    Each sample has as many visits of each application as were measured, because the plan, not
    chance, decides which applications are launched.
    """
    import numpy

    ratios = _resampled(above, quantile, seed, f"{name} above") / _resampled(
        below, quantile, seed, f"{name} below"
    )
    return _ends(numpy.sort(ratios))


def nested_interval(
    values: Nested, quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """The 95 % interval of a mean or quantile of visits that depend on their application and run.

    Each sample draws applications, then runs of each, then visits of each, all with replacement
    (the nested bootstrap of Davison and Hinkley 1997, 3.8).
    """
    import numpy

    random = numpy.random.default_rng([seed, zlib.crc32(name.encode())])
    side = _Side(values)
    drawn = _drawn(random, numpy.ones(RESAMPLES, dtype=numpy.int64), len(side.apps))
    return _ends(numpy.sort(side.figures(random, drawn, quantile)))


def nested_ratio_interval(
    above: Nested, below: Nested, quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """The 95 % interval of the ratio of two such figures, whose samples have the same applications.

    A sample without a visit on one side is left out.
    """
    import numpy

    random = numpy.random.default_rng([seed, zlib.crc32(name.encode())])
    apps = list(dict.fromkeys([*above, *below]))
    sides = [_Side({app: side.get(app, ()) for app in apps}) for side in (above, below)]
    drawn = _drawn(random, numpy.ones(RESAMPLES, dtype=numpy.int64), len(apps))
    drawn = drawn[numpy.all([drawn @ side.runs > 0 for side in sides], axis=0)]
    over, under = (side.figures(random, drawn, quantile) for side in sides)
    return _ends(numpy.sort(over / under))


class _Side:
    """Visits of several applications and runs, of which samples count how often each is drawn."""

    def __init__(self, values: Nested) -> None:
        import numpy

        self.apps = [[list(run) for run in runs if len(run)] for runs in values.values()]
        self.runs = numpy.array([len(runs) for runs in self.apps])

    def figures(
        self, random: Generator, apps: NDArray[int64], quantile: float | None
    ) -> NDArray[float64]:
        """The figure of each sample. ``apps``: how often each sample has each application."""
        import numpy

        values: list[float] = []
        counts: list[NDArray[int64]] = []
        for number, runs in enumerate(self.apps):
            for run, times in zip(runs, _drawn(random, apps[:, number], len(runs)).T, strict=True):
                values += run
                counts.append(_drawn(random, times, len(run)))
        order = numpy.argsort(values, kind="stable")
        return _figures(numpy.array(values)[order], numpy.hstack(counts)[:, order], quantile)


def _drawn(random: Generator, times: NDArray[int64], of: int) -> NDArray[int64]:
    """How often each of ``of`` things is drawn in each sample, shape (samples, ``of``).

    A sample draws ``of`` things, as many ``times`` over.
    """
    import numpy

    if not of:
        return numpy.zeros((len(times), 0), dtype=numpy.int64)
    return random.multinomial(times * of, numpy.full(of, 1 / of))


def _figures(
    values: NDArray[float64], counts: NDArray[int64], quantile: float | None
) -> NDArray[float64]:
    """The mean or quantile of each sample, which has this many of each of the sorted values."""
    import numpy

    sizes = counts.sum(axis=1)
    if quantile is None:
        means: NDArray[float64] = counts @ values / sizes
        return means
    places = (sizes - 1) * quantile
    first = numpy.floor(places).astype(numpy.int64)
    upto = counts.cumsum(axis=1)

    def at(place: NDArray[int64]) -> NDArray[float64]:
        found: NDArray[float64] = values[(upto <= place[:, None]).sum(axis=1)]
        return found

    low, high = at(first), at(numpy.minimum(first + 1, sizes - 1))
    quantiles: NDArray[float64] = low + (high - low) * (places - first)
    return quantiles


def _resampled(groups: Groups, quantile: float | None, seed: int, name: str) -> NDArray[float64]:
    import numpy

    random = numpy.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = numpy.concatenate(
        [
            numpy.asarray(values)[random.integers(0, len(values), (RESAMPLES, len(values)))]
            for values in groups
        ],
        axis=1,
    )
    if quantile is None:
        means: NDArray[float64] = drawn.mean(axis=1)
        return means
    quantiles: NDArray[float64] = numpy.quantile(drawn, quantile, axis=1)
    return quantiles


def _ends(ordered: NDArray[float64]) -> tuple[float, float]:
    tail = round(len(ordered) * (1 - LEVEL) / 2)
    return float(ordered[tail]), float(ordered[-1 - tail])
