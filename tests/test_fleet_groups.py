"""Groups of recordings that are alike: found where there are some, and not found where not."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import ran
from numpy.random import Generator

from pagewise.fleet_figures import Figures, telling
from pagewise.groups import (
    APART,
    RECORDINGS_MIN,
    SAMPLE_MAX,
    FleetGroups,
    compared,
    groups,
    silhouette,
)

NAMES = ("accesses", "pages", "write_share", "reaccess_share", "duration_s", "io_time_s")


def found_in(columns: np.ndarray) -> tuple[FleetGroups, list[int | None]]:
    """The groups of recordings with these figures, a row each."""
    names = NAMES[: columns.shape[1]]
    rows: list[Figures] = [dict(zip(names, map(float, row), strict=True)) for row in columns]
    return groups([f"{number}.csv" for number in range(len(rows))], rows)


def devices(random: Generator, count: int, center: float = 0.0, width: float = 1.0) -> np.ndarray:
    """Devices whose counts are of any size and whose shares are near to a half."""
    draws = random.normal(center, width, (count, 4))
    draws[:, :2] = np.round(np.exp(6 + draws[:, :2] / 4))
    draws[:, 2:] = 0.5 + draws[:, 2:] / 40
    return draws


def without_groups(kind: str, count: int, random: Generator) -> np.ndarray:
    """Figures of recordings of one kind."""
    match kind:
        case "normal":
            return devices(random, count)
        case "uniform":
            return random.uniform(size=(count, 4)) * [1000, 50_000, 1, 1]
        case "exponential":
            return random.exponential(size=(count, 6)) * [1000, 900, 0.1, 0.1, 20, 3]
        case "lognormal":
            draws = np.exp(random.normal(size=(count, 6)))
            return draws * [1000, 900, 0.01, 0.01, 20, 3]
        case "correlated":
            draws = random.normal(size=(count, 1)) + random.normal(size=(count, 4)) / 2
            return np.exp(draws / 3) * [1000, 900, 0.1, 0.1]
    return random.poisson(2, size=(count, 2)).astype(float)


@pytest.mark.parametrize(
    "count", [40, *(pytest.param(count, marks=pytest.mark.slow) for count in (100, 700))]
)
@pytest.mark.parametrize(
    "kind", ["normal", "uniform", "exponential", "lognormal", "correlated", "small counts"]
)
def test_recordings_without_groups_have_none(kind: str, count: int) -> None:
    wrong = []
    for seed in range(20):
        found, numbers = found_in(without_groups(kind, count, np.random.default_rng(seed)))
        if found["found"]:
            wrong.append((seed, found["why"]))
            continue
        assert set(numbers) == {None} and "apart" in found["why"]
        assert found["apart"] is not None
        assert found["apart"] < APART or found["apart"] <= (found["apart_by_chance"] or 0)
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize(
    "count", [60, *(pytest.param(count, marks=pytest.mark.slow) for count in (300, 3 * SAMPLE_MAX))]
)
def test_two_kinds_of_devices_are_two_groups(count: int) -> None:
    random = np.random.default_rng(count)
    large = count // 3 * 2
    columns = np.concatenate([devices(random, large), devices(random, count - large, 8)])
    order = random.permutation(count)
    found, numbers = found_in(columns[order])
    assert found["compared"] == list(NAMES[:4])
    first, second = found["found"]
    assert first["traces"] == large and second["traces"] == count - large
    assert numbers == [1 if at < large else 2 for at in order]
    chance, apart = found["apart_by_chance"], found["apart"]
    assert chance is not None and apart is not None and apart > max(chance, APART)
    assert f"{apart:.2f}" in found["why"] and f"{chance:.2f}" in found["why"]
    inside = columns[:large]
    medians = dict(zip(NAMES, np.median(inside, axis=0), strict=False))
    assert first["medians"] == pytest.approx(medians)
    typical = order[int(first["typical"].removesuffix(".csv"))]
    # The typical recording is no outlier of its group in any figure.
    low, high = np.quantile(inside, [0.05, 0.95], axis=0)
    assert ((inside[typical] >= low) & (inside[typical] <= high)).all()


@pytest.mark.slow
def test_groups_may_be_apart_in_one_figure_of_many() -> None:
    random = np.random.default_rng(10)
    columns = np.concatenate([devices(random, 160), np.exp(random.normal(size=(160, 2)))], axis=1)
    columns[100:, 1] *= 8
    found, numbers = found_in(columns)
    assert numbers == [1] * 100 + [2] * 60
    assert "pages" in found["compared"] and len(found["compared"]) < len(NAMES)
    # The medians of the other figures are shown, too.
    assert list(found["found"][0]["medians"]) == list(NAMES)


def test_three_kinds_are_three_groups() -> None:
    random = np.random.default_rng(3)
    columns = np.concatenate([devices(random, 50, center) for center in (0, 10, 20)])
    found, numbers = found_in(columns)
    assert [each["traces"] for each in found["found"]] == [50, 50, 50]
    assert numbers == [1] * 50 + [2] * 50 + [3] * 50


def test_a_few_recordings_far_away_are_outliers_and_no_group() -> None:
    random = np.random.default_rng(4)
    columns = np.concatenate([devices(random, 96), devices(random, 4, 40)])
    assert found_in(columns)[0]["found"] == []


def test_fewer_than_thirty_recordings_have_no_groups() -> None:
    random = np.random.default_rng(5)
    half = RECORDINGS_MIN // 2
    columns = np.concatenate([devices(random, half), devices(random, half, 20)])
    assert len(found_in(columns)[0]["found"]) == 2
    found, numbers = found_in(columns[1:])
    assert found["found"] == [] and "fewer than 30" in found["why"] and numbers == [None] * 29
    assert groups([], [])[0]["found"] == []


def test_equal_recordings_and_figures_that_follow_from_others_are_not_compared() -> None:
    assert found_in(np.ones((50, 4)))[0]["why"] == "the recordings hardly differ"
    random = np.random.default_rng(6)
    columns = devices(random, 100)
    columns[:, 1] = 3 * columns[:, 0] + 1
    columns[:, 2] = 0.5
    held = {name: columns[:, at] for at, name in enumerate(NAMES[:4])}
    assert list(compared(held, random)) == ["accesses", "reaccess_share"]


def test_a_recording_that_lacks_a_figure_is_in_no_group() -> None:
    random = np.random.default_rng(7)
    columns = np.concatenate([devices(random, 60), devices(random, 40, 10)])
    rows = [dict(zip(NAMES, map(float, row), strict=False)) for row in columns]
    del rows[3]["pages"]
    for row in rows[:50]:
        row["lost"] = 1.0  # half of the recordings have it, so it is not compared
    found, numbers = groups([str(at) for at in range(100)], rows)
    assert numbers[3] is None and numbers.count(None) == 1
    assert [each["traces"] for each in found["found"]] == [59, 40]
    assert found["found"][0]["medians"]["lost"] == 1 and "lost" not in found["compared"]


def test_the_silhouette_is_that_of_its_definition() -> None:
    random = np.random.default_rng(8)
    first, second = random.normal(size=17), random.normal(2, 3, 5)
    values = []
    for own, other in ((first, second), (second, first)):
        for at, value in enumerate(own):
            inside = np.mean(np.abs(np.delete(own, at) - value))
            outside = np.mean(np.abs(other - value))
            values.append((outside - inside) / max(inside, outside))
    assert silhouette(first, second) == pytest.approx(np.mean(values))
    assert silhouette(np.zeros(4), np.zeros(3)) == 0


def test_figures_that_differ_most_come_first() -> None:
    medians = [
        {"pages": 100, "write_share": 0.1, "accesses": 50, "lost": 0},
        {"pages": 110, "write_share": 0.9, "accesses": 100, "lost": 0},
    ]
    assert telling(medians) == ["write_share", "accesses", "pages", "lost"]


@pytest.mark.slow
def test_groups_are_printed_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = tmp_path / "two", tmp_path / "page.html"
    folder.mkdir()
    random = np.random.default_rng(9)
    for number in range(60):
        # Devices of one model access 40 pages, those of the other 200, each ten times as often.
        pages, accesses = (40, 300) if number % 3 else (200, 3000)
        accesses += int(random.integers(-20, 20))
        rows = (f"{at},{each}" for at, each in enumerate(random.integers(0, pages, accesses)))
        (folder / f"{number:02}.csv").write_text("\n".join(["time,id", *rows, ""]))
    status, output, _ = ran("analyze", folder, "--report", page, capsys=capsys)
    assert status == 0 and "2 groups of recordings that are alike" in output
    lines = [line.split("\t") for line in output.splitlines()]
    assert ["figure", "group 1", "group 2"] in lines and ["recordings", "40", "20"] in lines
    assert "typical of group 1" in output and "group 2" in page.read_text()
    _, output, _ = ran("analyze", folder, "--json", capsys=capsys)
    result = json.loads(output)
    numbers = [each["group"] for each in result["recordings"]]
    assert numbers == [2 if number % 3 == 0 else 1 for number in range(60)]
    assert [each["traces"] for each in result["groups"]["found"]] == [40, 20]
