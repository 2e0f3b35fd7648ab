"""Rates at every page size from a few samples: by the paper's fits, or by interpolation.

`paper`: TLB misses are a power a p^b and faults are a e^(b p) + c e^(d p), by least squares in
linear space (spec sheet S4.1; Matlab's ``power1`` and ``exp2``). `sampled`: a monotone cubic
(PCHIP, Fritsch and Carlson 1980) through the logarithms, since rates span decades and fall in
steps. Predictions are clipped to possible rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy
from numpy import ndarray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import least_squares

from pagewise.models.page_size_time import Model, Rates

Curve: TypeAlias = Callable[[ndarray], ndarray]
"""Rates by page size in KiB."""
Fit: TypeAlias = Callable[[ndarray, ndarray], Curve]
"""A fit: from sizes in KiB and their rates to a function of sizes."""

STARTS = 3
"""How many pairs of exponents `two_exponentials` starts its search from."""
EXPONENTS = numpy.concatenate(
    [-numpy.geomspace(100, 0.05, 24), [0.0], numpy.geomspace(0.05, 8, 10)]
)
"""Exponents for this range of page sizes: from a fall within its first hundredth to e^8."""


def predicted(
    counted: Mapping[int, Rates], samples: Sequence[int], model: Model, least: float
) -> dict[int, Rates]:
    """Rates of every size in ``counted``, predicted only from those of ``samples``.

    ``least`` is the rate of half a count, which replaces 0. ``read`` may hold several memories.
    """
    fit_misses = {"paper": power, "sampled": interpolated}[model]
    fit_faults = {"paper": two_exponentials, "sampled": interpolated}[model]
    sampled_kib, wanted_kib = numpy.array(samples) / 1024, numpy.array(list(counted)) / 1024

    def fitted(fit: Fit, rates: Sequence[float]) -> ndarray:
        curve = fit(sampled_kib, numpy.maximum(rates, least))
        return numpy.clip(curve(wanted_kib), least, 1.0)

    known = [counted[size] for size in samples]
    first = fitted(fit_misses, [rates.first_tlb for rates in known])
    last = fitted(fit_misses, [rates.last_tlb for rates in known])
    zeroed = fitted(fit_misses, [rates.zeroed for rates in known])
    by_memory = numpy.transpose([numpy.ravel(rates.read) for rates in known])
    read = numpy.array([fitted(fit_faults, rates) for rates in by_memory])
    shape = numpy.shape(known[0].read)
    return {
        size: Rates(first[at], last[at], read[:, at].reshape(shape), zeroed[at])
        for at, size in enumerate(counted)
    }


def four_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Four sizes to sample: both ends, and two evenly spaced between.

    Without the largest size, the rise of the faults at scarce memory would be missed.
    """
    last = len(sizes) - 1
    return tuple(sizes[index] for index in sorted({0, round(last / 3), round(last * 2 / 3), last}))


def interpolated(kib: ndarray, rates: ndarray) -> Curve:
    """A curve through every point, without overshoot, in logarithms."""
    if len(kib) == 1:
        return lambda x: numpy.full(len(x), rates[0])
    curve = PchipInterpolator(numpy.log2(kib), numpy.log2(rates))
    return lambda x: numpy.exp2(curve(numpy.log2(x)))


def power(kib: ndarray, rates: ndarray) -> Curve:
    """The fit a p^b by least squares, starting from the straight line through the logarithms."""
    scale = rates.max()
    slope, offset = numpy.polyfit(numpy.log(kib), numpy.log(rates / scale), 1)
    found = least_squares(
        lambda p: p[0] * kib ** p[1] - rates / scale, (numpy.exp(offset), slope)
    ).x
    return lambda x: scale * found[0] * x ** found[1]


def two_exponentials(kib: ndarray, rates: ndarray) -> Curve:
    """The fit a e^(b p) + c e^(d p) by least squares, starting from the best pairs of a grid.

    For a given pair of exponents, the factors are a linear problem, so the search is over pairs
    only.
    """
    widest, scale = kib.max(), rates.max()
    x, y = kib / widest, rates / scale

    def terms(exponents: ndarray, at: ndarray) -> ndarray:
        within = numpy.clip(exponents, EXPONENTS[0], EXPONENTS[-1])
        return numpy.exp(numpy.outer(at, within))

    def factors(exponents: ndarray) -> ndarray:
        found: ndarray = numpy.linalg.lstsq(terms(exponents, x), y, rcond=None)[0]
        return found

    def residual(exponents: ndarray) -> ndarray:
        left: ndarray = terms(exponents, x) @ factors(exponents) - y
        return left

    found = min(
        (least_squares(residual, start, method="lm") for start in best_pairs(x, y)),
        key=lambda fit: fit.cost,
    ).x
    best = factors(found)
    return lambda at: scale * (terms(found, at / widest) @ best)


def best_pairs(x: ndarray, y: ndarray) -> ndarray:
    """The pairs of exponents of the grid with the smallest residuals.

    Solves the normal equations of all pairs at once.
    """
    terms = numpy.exp(numpy.outer(EXPONENTS, x))
    first, second = numpy.triu_indices(len(EXPONENTS), k=1)
    products, with_y = terms @ terms.T, terms @ y
    cross = products[first, second]
    determinant = products[first, first] * products[second, second] - cross**2
    explained = (
        with_y[first] ** 2 * products[second, second]
        + with_y[second] ** 2 * products[first, first]
        - 2 * with_y[first] * with_y[second] * cross
    ) / numpy.maximum(determinant, numpy.finfo(float).tiny)
    order = numpy.argsort(-explained, kind="stable")[:STARTS]
    return numpy.column_stack([EXPONENTS[first[order]], EXPONENTS[second[order]]])
