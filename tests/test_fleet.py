"""A folder or a pattern of recordings: the spread of figures, outliers, and files left out."""

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from commands import ran

import pagewise as pw
from pagewise.fleet import files_of, is_many, spread

TRACES = 1000
ODD = "device-0123.csv"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 1,000 devices with 80 to 119 accesses each; one has a hundred times as many."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "below").mkdir()
    random = np.random.default_rng(1)
    for number in range(TRACES):
        name = f"device-{number:04}.csv"
        accesses = int(random.integers(80, 120)) * (100 if name == ODD else 1)
        rows = (f"{time},{each}" for time, each in enumerate(random.integers(0, 40, accesses)))
        place = folder / "below" if number % 10 == 0 else folder
        (place / name).write_text("\n".join(["time,id", *rows, ""]))
    (folder / ".hidden.csv").write_text("time,id\n")
    return folder


def test_a_fleet_is_a_folder_or_a_pattern(fleet: Path, tmp_path: Path) -> None:
    assert len(files_of(str(fleet))) == TRACES
    assert len(files_of(f"{fleet}/*.csv")) == TRACES * 9 // 10
    assert len(files_of(f"{fleet}/**/device-00*.csv")) == TRACES // 10
    odd = tmp_path / "[a]*.csv"
    odd.write_text("time,id\n1,1\n")
    assert not is_many(str(odd)) and is_many(f"{tmp_path}/*") and is_many(str(tmp_path))
    folder = tmp_path / "[b]"
    folder.mkdir()
    (folder / "c.csv").write_text("")
    assert files_of(str(folder)) == [str(folder / "c.csv")]


def test_a_thousand_recordings_have_a_spread(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, _ = ran("analyze", fleet, "--json", capsys=capsys)
    result = json.loads(output)
    assert status == 0 and result["schema"] == "pagewise.fleet/1"
    assert (result["traces"], result["unreadable"]) == (TRACES, [])
    each = [pw.analyze(path)["accesses"] for path in files_of(str(fleet))]
    found = result["figures"]["accesses"]
    assert (found["min"], found["median"], found["max"]) == (min(each), median(each), max(each))
    assert found["p10"] == np.quantile(each, 0.1) and found["p90"] == np.quantile(each, 0.9)
    assert [outlier["trace"] for outlier in found["outliers"]] == [str(fleet / ODD)]
    status, output, _ = ran("analyze", fleet, capsys=capsys)
    assert status == 0 and output.startswith("1,000 recordings") and ODD in output


def test_misses_and_info_have_a_spread(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = f"{fleet}/device-00*.csv"
    arguments = ["--policy", "lru,fifo", "--frames", "10,20", "--json"]
    _, output, _ = ran("misses", pattern, *arguments, capsys=capsys)
    figures = json.loads(output)["figures"]
    counted = pw.misses(files_of(pattern), policy="lru", frames=10)["traces"]
    ratios = [result["misses"]["lru"]["10"] / result["requests"] for result in counted]
    assert figures["miss_ratio.lru.10"]["median"] == median(ratios)
    assert figures["miss_ratio.fifo.20"]["traces"] == len(ratios) == 90
    _, output, _ = ran("info", pattern, "--json", capsys=capsys)
    assert json.loads(output)["figures"]["events"]["traces"] == 90


def test_files_that_cannot_be_read_are_left_out(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.csv").write_text("time,id\n1,1\n2,1\n")
    (tmp_path / "note.bin").write_bytes(bytes(range(256)))
    (tmp_path / "empty.csv").write_text("time,id\n")
    status, output, diagnostics = ran("analyze", tmp_path, "--json", capsys=capsys)
    result = json.loads(output)
    assert (status, result["traces"]) == (0, 1)
    assert [Path(each["trace"]).name for each in result["unreadable"]] == ["empty.csv", "note.bin"]
    assert "left out" in diagnostics
    (tmp_path / "good.csv").unlink()
    status, _, diagnostics = ran("analyze", tmp_path, capsys=capsys)
    assert status == 3 and "none of the files" in diagnostics
    status, _, diagnostics = ran("analyze", f"{tmp_path}/no-*", capsys=capsys)
    assert status == 3 and "no file found" in diagnostics


def test_a_mistake_in_the_request_is_an_error(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policy", "lifo", "--frames", "1"]
    status, _, diagnostics = ran("misses", f"{fleet}/device-00*", *arguments, capsys=capsys)
    assert status == 2 and "lifo" in diagnostics


def test_equal_values_have_no_outliers() -> None:
    found = spread([(1.0, "a"), (1.0, "b"), (1.0, "c"), (9.0, "d")])
    assert found["outliers"] == [] and found["median"] == 1
    assert spread([(4.0, "a")])["p90"] == 4
