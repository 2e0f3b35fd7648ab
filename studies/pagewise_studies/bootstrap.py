"""How sure a figure of few launches is: percentile intervals of the bootstrap (Efron 1979)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import ndarray

BOOTSTRAP = "95 % intervals by bootstrap over visits"
"""What the seed of a study of runs is for."""
RESAMPLES = 2000
LEVEL = 0.95


def interval(
    values: Sequence[float], quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """Lower and upper end of the 95 % interval of a mean (``quantile`` None) or a quantile.

    ``name`` gives each figure random numbers of its own. Visits are drawn as if independent.
    """
    import numpy

    return _ends(numpy.sort(_resampled(values, quantile, seed, name)))


def ratio_interval(
    above: Sequence[float], below: Sequence[float], quantile: float | None, seed: int, name: str
) -> tuple[float, float]:
    """The interval of one sample's mean or quantile over another's."""
    import numpy

    ratios = _resampled(above, quantile, seed, f"{name} above") / _resampled(
        below, quantile, seed, f"{name} below"
    )
    return _ends(numpy.sort(ratios))


def _resampled(
    values: Sequence[float], quantile: float | None, seed: int, name: str
) -> ndarray[Any, Any]:
    import numpy

    random = numpy.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = numpy.asarray(values)[random.integers(0, len(values), (RESAMPLES, len(values)))]
    if quantile is None:
        means: ndarray[Any, Any] = drawn.mean(axis=1)
        return means
    quantiles: ndarray[Any, Any] = numpy.quantile(drawn, quantile, axis=1)
    return quantiles


def _ends(ordered: ndarray[Any, Any]) -> tuple[float, float]:
    tail = round(len(ordered) * (1 - LEVEL) / 2)
    return float(ordered[tail]), float(ordered[-1 - tail])
