"""Bootstrap intervals: repeatable, and of the right width."""

import random
from statistics import fmean, median

import numpy
import pytest

from pagewise.bootstrap import (
    _figures,
    grouped_ratio_interval,
    interval,
    nested_interval,
    nested_ratio_interval,
    ratio_interval,
)

DRAWN = random.Random(7)
SAMPLES = [[DRAWN.gauss(10, 2) for _ in range(40)] for _ in range(200)]


def test_a_seed_and_a_name_determine_the_interval() -> None:
    first = interval(SAMPLES[0], None, 1, "a")
    assert interval(SAMPLES[0], None, 1, "a") == first
    assert interval(SAMPLES[0], None, 2, "a") != first
    assert interval(SAMPLES[0], None, 1, "b") != first


def test_an_interval_contains_its_estimate() -> None:
    low, high = interval(SAMPLES[0], None, 1, "mean")
    assert low < fmean(SAMPLES[0]) < high
    low, high = interval(SAMPLES[0], 0.5, 1, "median")
    assert low < median(SAMPLES[0]) < high
    assert interval([3.0], None, 1, "one") == (3.0, 3.0)


def test_19_of_20_intervals_hold_the_true_mean() -> None:
    found = [interval(sample, None, 1, str(place)) for place, sample in enumerate(SAMPLES)]
    held = sum(low <= 10 <= high for low, high in found)
    # 190 of 200 expected, 3 standard deviations of 3.1; percentile intervals are a little short.
    assert 178 <= held <= 199


def test_the_interval_of_a_ratio_contains_the_ratio() -> None:
    doubled = [2 * value for value in SAMPLES[1]]
    low, high = ratio_interval(doubled, SAMPLES[0], None, 1, "ratio")
    assert 1.7 < low < 2 < high < 2.3
    assert ratio_interval([4.0, 4.0], [2.0], 0.5, 1, "constant") == (2.0, 2.0)


def test_samples_of_several_applications_have_as_many_launches_of_each() -> None:
    # With launches drawn from both together, a sample could have any number of the long ones.
    apps = [[1.0, 1.0, 1.0], [9.0]]
    assert grouped_ratio_interval(apps, [[2.0], [2.0]], None, 1, "each") == (1.5, 1.5)
    low, high = ratio_interval([1.0, 1.0, 1.0, 9.0], [2.0], None, 1, "both")
    assert low < 1.5 < high


def launches(number: int, factor: float = 1.0) -> dict[str, list[list[float]]]:
    """Four visits in each of three runs of ten applications, which differ more than visits do."""
    drawn = random.Random(number)
    found = {}
    for app in range(10):
        of_app = drawn.gauss(10, 2)
        of_runs = [of_app + drawn.gauss(0, 1) for _ in range(3)]
        runs = [[factor * (of_run + drawn.gauss(0, 1)) for _ in range(4)] for of_run in of_runs]
        found[str(app)] = runs
    return found


def flat(nested: dict[str, list[list[float]]]) -> list[float]:
    return [value for runs in nested.values() for run in runs for value in run]


@pytest.mark.slow
def test_visits_of_an_application_and_run_are_not_independent() -> None:
    """Intervals of independent visits hold the true mean in half of the samples."""
    nested = [launches(number) for number in range(200)]
    found = [nested_interval(each, None, 1, str(place)) for place, each in enumerate(nested)]
    held = sum(low <= 10 <= high for low, high in found)
    assert 178 <= held <= 200
    plain = [interval(flat(each), None, 1, str(place)) for place, each in enumerate(nested)]
    assert sum(low <= 10 <= high for low, high in plain) < 150


def test_a_ratio_compares_the_same_applications() -> None:
    above, below = launches(1, 2.0), launches(1)
    for quantile, figure in ((None, fmean), (0.5, median)):
        low, high = nested_ratio_interval(above, below, quantile, 1, "twice")
        assert low < figure(flat(above)) / figure(flat(below)) < high
        # Applications differ by 20 %, but each is compared with itself.
        assert 1.7 < low < high < 2.3
    assert nested_ratio_interval({"a": [[4.0]]}, {"a": [[2.0], [2.0]]}, 0.5, 1, "even") == (2, 2)
    apart = nested_ratio_interval({"a": [[4.0]]}, {"b": [[2.0]], "a": []}, None, 1, "apart")
    assert apart == (2, 2)


def test_a_nested_interval_of_one_run_is_that_of_its_visits() -> None:
    times = SAMPLES[2]
    nested, plain = nested_interval({"a": [times]}, 0.5, 1, "x"), interval(times, 0.5, 1, "x")
    assert nested == pytest.approx(plain, rel=0.02)
    assert nested_interval({"a": [[3.0]]}, 0.5, 1, "one") == (3, 3)
    first, second = (nested_interval({"a": [times]}, None, seed, "x") for seed in (1, 2))
    assert first != second and first == nested_interval({"a": [times]}, None, 1, "x")


@pytest.mark.parametrize("quantile", [None, 0.0, 0.25, 0.5, 0.9, 1.0])
def test_figures_of_counted_values_are_those_of_the_values(quantile: float | None) -> None:
    random = numpy.random.default_rng(3)
    values = numpy.sort(random.normal(size=7))
    counts = random.integers(0, 4, (50, 7))
    counts[:, 0] += counts.sum(axis=1) == 0
    for found, times in zip(_figures(values, counts, quantile), counts, strict=True):
        each = numpy.repeat(values, times)
        wanted = each.mean() if quantile is None else numpy.quantile(each, quantile)
        assert found == pytest.approx(wanted)
