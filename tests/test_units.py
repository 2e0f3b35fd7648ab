"""Sizes, times and shares: parsing and printing."""

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewise.errors import UsageError
from pagewise.units import (
    format_counted,
    format_figure,
    format_seconds,
    format_size,
    parse_frames,
    parse_share,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("4096", 4096), ("256MiB", 2**28), ("1.2GB", 1_200_000_000), ("64 kb", 64_000)],
)
def test_sizes_are_parsed(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e9", "1 XB", "1MiB 2"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize("value", [1.5, None, b"1MiB", [4096]])
def test_a_size_must_be_text_or_a_whole_number(value: Any) -> None:
    for parse in (parse_size, parse_frames):
        with pytest.raises(UsageError, match="not a size"):
            parse(value)


def test_integers_of_numpy_are_sizes() -> None:
    assert parse_size(numpy.int64(2**40)) == 2**40
    assert parse_frames(numpy.uint8(7)) == 7


@given(st.integers(min_value=0, max_value=2**60))
def test_whole_units_survive_printing(pages: int) -> None:
    text = format_size(pages * 2**20)
    if "." not in text:
        assert parse_size(text.replace(" ", "")) == pages * 2**20


def test_figures_have_three_digits_and_no_exponent() -> None:
    assert [format_figure(value) for value in (0.5, 7.256, 99.96, 1500, 290_527.3)] == [
        "0.5",
        "7.26",
        "100",
        "1,500",
        "290,527",
    ]


def test_a_count_of_one_is_singular() -> None:
    counts = [format_counted(count, "cell") for count in (0, 1, 2700)]
    assert counts == ["0 cells", "1 cell", "2,700 cells"]


def test_times_are_parsed() -> None:
    assert parse_time("10s") == 10 * 10**9
    assert parse_time("1500ms") == parse_time(1.5) == 1_500_000_000
    assert parse_time("90us") == 90_000
    with pytest.raises(UsageError, match="not a time"):
        parse_time("ten")
    assert [format_seconds(value) for value in (0.0001, 0.25, 12.5, 200, 7300)] == [
        "100 us",
        "250 ms",
        "12.5 s",
        "3 min 20 s",
        "2 h 1 min",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.999999, "1 s"),
        (0.9994, "999 ms"),
        (0.000999999, "1 ms"),
        (0.0009994, "999 us"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (3599.7, "1 h 0 min"),
        (-0.734, "-734 ms"),
        (-61.0, "-61 s"),
    ],
)
def test_a_time_is_rounded_before_its_unit_is_chosen(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_no_time_has_an_exponent(seconds: float) -> None:
    text = format_seconds(seconds)
    assert "e" not in text and float(text.split()[0]) < 1e6


def test_a_size_is_rounded_before_its_unit_is_chosen() -> None:
    assert [format_size(size) for size in (2**20 - 1, 2**30 - 1, 1023 * 2**10)] == [
        "1.0 MiB",
        "1.0 GiB",
        "1023 KiB",
    ]


def test_shares_and_frames_are_parsed() -> None:
    assert parse_share("5%") == parse_share("0.05") == 0.05
    with pytest.raises(UsageError):
        parse_share("500%")
    assert parse_frames("64MiB") == 16384
    assert parse_frames("1000") == 1000
