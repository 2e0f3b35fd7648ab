"""Which recordings of many are unlike the others: not few, not by their samples, and by group."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from commands import ran

from pagewise.fleet import OUTLIERS_FROM, Fleet, of_rows, outlying
from pagewise.fleet_figures import Figures
from pagewise.groups import groups
from pagewise.samples import ENOUGH_PAGES


def write(path: Path, pages: Iterable[int]) -> None:
    """Writes a recording of accesses to these pages."""
    rows = (f"{at},{page}" for at, page in enumerate(pages))
    path.write_text("\n".join(["time,id", *rows, ""]))


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 60 small devices of one kind."""
    folder = tmp_path_factory.mktemp("alike")
    random = np.random.default_rng(2)
    for number in range(60):
        accesses = int(random.integers(500, 900))
        write(folder / f"{number:02}.csv", map(int, random.integers(0, 300, accesses)))
    return folder


OPTIONS = {
    "analyze": [],
    "misses": ["--policy", "lru", "--frames", "100"],
    "simulate": [
        *("--architecture", "hybrid", "--fast-tier", "256KiB"),
        *("--fast", "4/5us", "--slow", "ufs-3.1"),
    ],
}


@pytest.mark.parametrize("command", OPTIONS)
def test_a_share_that_leaves_few_pages_takes_a_small_recording_whole(
    command: str, alike: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, alike, *OPTIONS[command], "--json"]
    _, output, _ = ran(*arguments, "--sample", "32k", capsys=capsys)
    whole = json.loads(output)
    for share in ("1%", "0.0001%"):
        status, output, diagnostics = ran(*arguments, "--sample", share, capsys=capsys)
        sampled = json.loads(output)
        assert (status, sampled["traces"], diagnostics) == (0, 60, "")
        assert sampled == whole and sampled["groups"]["found"] == []


def test_a_share_of_a_large_recording_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = 4 * ENOUGH_PAGES
    write(tmp_path / "large.csv", range(pages))
    for share, least, most in (("50%", pages * 0.45, pages * 0.55), ("1%", 0, ENOUGH_PAGES)):
        _, output, _ = ran("analyze", tmp_path, "--sample", share, "--json", capsys=capsys)
        (found,) = json.loads(output)["recordings"]
        assert least < found["figures"]["sample.pages"] <= most
        assert found["figures"]["sample.pages"] > ENOUGH_PAGES * 0.9


def test_small_samples_have_neither_outliers_nor_groups(
    alike: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    status, output, diagnostics = ran(
        "analyze", alike, "--sample", "4", "--report", page, capsys=capsys
    )
    assert status == 0 and "unlike the others" not in output and "groups" not in output
    assert "outliers" not in output
    (line,) = (line for line in diagnostics.splitlines() if line.startswith("note:"))
    assert "may be off by" in line and "so there are neither outliers nor groups" in line
    assert "samples are too small" in page.read_text()
    _, output, _ = ran("analyze", alike, "--sample", "4", "--json", capsys=capsys)
    result = json.loads(output)
    assert outlying(result["recordings"]) == []
    assert all(each["outliers_count"] == 0 for each in result["figures"].values())
    assert result["groups"]["found"] == [] and "samples" in result["groups"]["why"]


def fleet_of(rows: Iterable[Figures]) -> Fleet:
    """The result for recordings 0, 1, 2 and so on with these figures."""
    return of_rows("analyze", [(str(at), each) for at, each in enumerate(rows)], [])


def test_the_sample_of_a_recording_makes_neither_outliers_nor_groups() -> None:
    random = np.random.default_rng(3)
    rows = [
        {
            "accesses": float(random.normal(1000, 100)),
            "pages": float(random.normal(300, 30)),
            "sample.pages": 300.0 if at < 30 else 32_000.0,
            "sample.error": 0.0 if at < 59 else 0.04,
        }
        for at in range(60)
    ]
    result = fleet_of(rows)
    names = {name for each in result["recordings"] for name in each["outlying"]}
    assert not any(name.startswith("sample.") for name in names)
    assert result["figures"]["sample.error"]["outliers_count"] == 0
    assert groups([str(at) for at in range(60)], rows)[0]["found"] == []


def test_fewer_than_five_recordings_have_no_outlier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = (100, 101, 102, 103, 900)
    for count in range(1, OUTLIERS_FROM):
        few = fleet_of({"accesses": value} for value in values[-count:])
        assert outlying(few["recordings"]) == []
    assert len(outlying(fleet_of({"accesses": value} for value in values)["recordings"])) == 1
    # Nor has a figure that only four recordings have.
    rows = [{"accesses": 100, "pages": value} for value in values[1:]] + [{"accesses": 100}]
    assert outlying(fleet_of(rows)["recordings"]) == []
    for at, count in enumerate((100, 101, 900)):
        write(tmp_path / f"{at}.csv", range(count))
    _, output, _ = ran("analyze", tmp_path, capsys=capsys)
    assert "unlike" not in output and "outliers" not in output
    assert "figure\tmin\t10 %\tmedian\t90 %\tmax\n" in output


def two_kinds(small: int, large: int) -> list[dict[str, float]]:
    """Figures of two kinds of devices, of which the last of each kind is odd in writes."""
    random = np.random.default_rng(4)
    rows = []
    for count, pages in ((large, 10_000), (small, 300)):
        for at in range(count):
            share = 0.2 + 0.02 * random.normal()
            rows.append(
                {
                    "accesses": pages * 4 * (1 + 0.1 * random.normal()),
                    "pages": pages * (1 + 0.1 * random.normal()),
                    "write_share": 0.6 if at == count - 1 else share,
                }
            )
    return rows


def test_outliers_are_those_of_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    result = fleet_of(two_kinds(40, 100))
    assert [each["traces"] for each in result["groups"]["found"]] == [100, 40]
    odd = [each for each in outlying(result["recordings"]) if "write_share" in each["outlying"]]
    assert sorted(each["trace"] for each in odd) == ["139", "99"]
    # No group is unlike the other: without groups, all 40 small devices are outliers.
    assert len(outlying(result["recordings"])) < 10
    assert result["figures"]["write_share"]["outliers_count"] == 2
    for each in odd:
        inside = [row for row in result["recordings"] if row["group"] == each["group"]]
        values = np.array([row["figures"]["write_share"] for row in inside])
        middle = np.median(values)
        distance = each["figures"]["write_share"] - middle
        score = 0.6745 * distance / np.median(np.abs(values - middle))
        assert each["outlying"]["write_share"] == pytest.approx(score, rel=1e-3)


def test_a_recording_in_no_group_is_compared_with_all() -> None:
    rows = two_kinds(40, 100)
    del rows[0]["pages"]
    rows[0]["write_share"] = 0.9
    rows[1] = {"write_share": 0.2}
    result = fleet_of(rows)
    assert result["recordings"][0]["group"] is result["recordings"][1]["group"] is None
    assert "write_share" in result["recordings"][0]["outlying"]
    assert result["recordings"][1]["outlying"] == {}


def test_a_screen_with_groups_names_the_group_of_each_outlier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(5)
    for number in range(60):
        pages, accesses = (40, 300) if number % 3 else (200, 3000)
        accesses += int(random.integers(-20, 20)) + (4000 if number == 30 else 0)
        write(tmp_path / f"{number:02}.csv", map(int, random.integers(0, pages, accesses)))
    page = tmp_path.parent / "groups.html"
    status, output, _ = ran(
        "analyze", f"{tmp_path}/*.csv", "--report", page, "--force", capsys=capsys
    )
    lines = output.splitlines()
    (at,) = (at for at, line in enumerate(lines) if "unlike the others of their group" in line)
    assert status == 0
    assert re.match(rf"{re.escape(str(tmp_path))}/30\.csv\tgroup \d: accesses ", lines[at + 1])
    assert at > next(at for at, line in enumerate(lines) if line.startswith("figure\tgroup 1\t"))
    assert int(lines[at].split()[0]) < 10
    assert "of its group" in page.read_text()
