"""The fits of the page-size models, on curves that they can fit and curves that they cannot."""

import numpy as np
import pytest
from hand_curves import HandCurve, HandCurves
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewise.models.page_size import choose, rates_by_size
from pagewise.models.page_size_fit import four_of, interpolated, power, two_exponentials
from pagewise.models.page_size_time import PAPER, Machine, storage_of

KIB = np.array([0.5, 1, 2, 4, 8, 16, 32, 64])
SIZES = tuple(int(1024 * size) for size in KIB)
MEMORY = 16 * 2**20


def test_each_fit_recovers_a_curve_of_its_form():
    assert power(KIB, 3e-3 * KIB**-0.7)(KIB) == pytest.approx(3e-3 * KIB**-0.7)
    both = 4e-4 * np.exp(-0.9 * KIB) + 1e-5 * np.exp(0.05 * KIB)
    assert two_exponentials(KIB, both)(KIB) == pytest.approx(both, rel=1e-3)
    line = 1e-4 * KIB**-1.5
    four = np.array([0, 2, 5, 7])
    assert interpolated(KIB[four], line[four])(KIB) == pytest.approx(line)


def test_a_fit_in_linear_space_misses_what_only_a_slow_device_sees():
    # Rates fall from 1e-2 to 1e-6 and rise to 1e-4: tiny beside 1e-2, but decisive at 8 ms a fault.
    valley = np.array([1e-2, 1e-4, 1e-5, 1e-6, 2e-6, 1e-5, 5e-5, 1e-4])
    off = np.abs(two_exponentials(KIB, valley)(KIB) - valley)
    assert (off**2).sum() < 0.03 * ((valley - valley.mean()) ** 2).sum()
    assert (off[3:] / valley[3:]).min() > 0.5
    assert interpolated(KIB, valley)(KIB) == pytest.approx(valley)


def test_four_samples_keep_both_ends():
    assert four_of(SIZES) == (512, 2048, 16384, 65536)
    assert four_of(SIZES[:3]) == SIZES[:3] and four_of(SIZES[:1]) == SIZES[:1]


@st.composite
def programs(draw) -> HandCurves:
    """Arbitrary counts, with fewer pages at larger sizes."""
    pages = sorted(draw(st.lists(st.integers(1, 5000), min_size=8, max_size=8)), reverse=True)
    depths = st.dictionaries(st.integers(65, 40_000), st.integers(1, 10**6), max_size=6)
    return HandCurves(
        {size: HandCurve(count, draw(depths)) for size, count in zip(SIZES, pages, strict=True)},
        steps=10**8,
    )


@settings(deadline=None, max_examples=10)
@given(programs())
def test_exact_has_no_regret_and_every_model_predicts_rates(curves: HandCurves):
    storage = storage_of("optane-ssd")
    found = choose(curves, MEMORY, storage, sizes=SIZES, terms=PAPER, margin=0, least_gain=0)
    assert found.regret == 0
    machine = Machine(storage, terms=PAPER)
    memories = MEMORY * np.array([0.9, 1.0, 1.1])
    for model in ("paper", "sampled"):
        rates = rates_by_size(curves, SIZES, memories, machine, model)
        assert list(rates) == list(SIZES)
        for rate in rates.values():
            assert rate.read.shape == memories.shape
            assert (rate.read > 0).all() and (rate.read <= 1).all() and 0 < rate.last_tlb <= 1


def test_sampled_is_exact_at_its_samples():
    curves = HandCurves(
        {size: HandCurve(100, {200: 70_000_000 // size}) for size in SIZES}, steps=10**6
    )
    machine = Machine(storage_of("optane-ssd"), terms=PAPER)
    counted, sampled = (
        rates_by_size(curves, SIZES, MEMORY, machine, model) for model in ("exact", "sampled")
    )
    for size in four_of(SIZES):
        assert sampled[size].last_tlb == pytest.approx(counted[size].last_tlb)
        assert sampled[size].read == pytest.approx(counted[size].read)
