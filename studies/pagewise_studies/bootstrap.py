"""Confidence intervals of a figure from few launches: bootstrap percentiles (Efron 1979)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

BOOTSTRAP = "95 % intervals by bootstrap over visits"
"""The use of the seed in a study of runs."""
RESAMPLES = 2000
LEVEL = 0.95

Groups: TypeAlias = Sequence[Sequence[float]]
"""Values by application."""


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
