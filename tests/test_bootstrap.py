"""Bootstrap intervals: repeatable, and of the right width."""

import random
from statistics import fmean, median

from pagewise_studies.bootstrap import grouped_ratio_interval, interval, ratio_interval

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
