"""Grids: finished cells are kept, and the bytes do not depend on interruptions."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import ran
from scenarios import SMALL
from waiting import killed_after, line_of, running

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.grids import results
from pagewise.grids.run import sweep
from pagewise.grids.spec import parse

SPEC = {
    "scenario": [SMALL],
    "seeds": [0, 1],
    "sizes": ["0", "1MiB", "4MiB"],
    "device": [{"fast": "4/5us", "slow": "90/40us"}, {"fast": "dram", "slow": "hdd"}],
    "architecture": [
        {"name": "flash"},
        {"name": "hybrid", "options": {"entry_bit": [0, 1]}},
        {"name": "nvm-cache"},
    ],
}
CELLS = 2 * 3 * 2 * 4


def test_every_cell_has_a_row_and_flash_ignores_the_fast_tier(tmp_path: Path):
    output = tmp_path / "results.parquet"
    report = sweep(SPEC, output)
    assert (report["cells"], report["computed"], report["kept"]) == (CELLS, CELLS, 0)
    rows = results.read(str(output))
    assert len({row["key"] for row in rows}) == CELLS
    assert all(row["error"] is None for row in rows)
    flash = [row for row in rows if row["architecture"] == "flash" and row["seed"] == 0]
    assert len({row["slow_reads"] for row in flash}) == 1
    # Without a fast tier, every architecture is flash.
    none = [row for row in rows if row["fast_tier_bytes"] == 0 and row["seed"] == 0]
    assert {row["slow_reads"] for row in none} == {flash[0]["slow_reads"]}
    outcome = json.loads(rows[0]["outcome"])
    assert outcome["slow"]["reads"] == rows[0]["slow_reads"]
    assert not (tmp_path / "results.parquet.journal").exists()


def test_a_finished_grid_runs_nothing_again_and_a_larger_one_only_what_is_new(tmp_path: Path):
    output = tmp_path / "results.parquet"
    sweep(SPEC, output)
    first = output.read_bytes()
    assert sweep(SPEC, output)["computed"] == 0
    assert output.read_bytes() == first
    larger = {**SPEC, "sizes": [*SPEC["sizes"], "2MiB"]}
    assert sweep(larger, output)["computed"] == CELLS // 3
    fresh = tmp_path / "fresh.parquet"
    sweep(larger, fresh)
    assert output.read_bytes() == fresh.read_bytes()


def test_the_order_of_the_spec_and_the_number_of_jobs_do_not_matter(tmp_path: Path):
    first, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    sweep(SPEC, first, jobs=1)
    turned = {**SPEC, "sizes": SPEC["sizes"][::-1], "architecture": SPEC["architecture"][::-1]}
    sweep(turned, other, jobs=3)
    assert first.read_bytes() == other.read_bytes()


def test_a_failing_cell_is_reported_with_its_inputs_and_stops_no_other(tmp_path: Path):
    # A file that is damaged far behind its beginning can still be opened.
    lines = (f"{time}.0,out,10,{time * 7919 % 99991:#x},D,anon\n" for time in range(200_000))
    whole = gzip.compress(("time_s,event,process,page,state,kind\n" + "".join(lines)).encode())
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(whole[: len(whole) // 2])
    output = tmp_path / "results.parquet"
    report = sweep({**SPEC, "traces": [str(damaged)]}, output)
    cells_per_trace = CELLS // 2
    assert len(report["failed"]) == cells_per_trace
    assert report["computed"] == 2 * cells_per_trace
    assert {failure["trace"] for failure in report["failed"]} == {"damaged.csv.gz"}
    assert all("damaged.csv.gz" in failure["error"] for failure in report["failed"])
    assert report["failed"][0]["fast_tier_bytes"] == 0
    rows = results.read(str(output))
    assert sum(row["error"] is not None for row in rows) == len(report["failed"])


REFUSED = """
traces = ["absent.parquet", "notes.txt"]
sizes = ["1MiB", "64 parsecs"]
[[scenario]]
name = "small"
colour = "red"
[[device]]
fast = "4/5us"
slow = "drum"
[[architecture]]
name = "flash"
[[architecture]]
name = "hybrid"
options = { entry_bit = [0, 7] }
[[architecture]]
name = "hydra"
"""


def test_an_invalid_spec_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    spec, temporary = tmp_path / "grid.toml", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    spec.write_text(REFUSED)
    (tmp_path / "notes.txt").write_text("no recording at all\n")
    before = sorted(tmp_path.rglob("*"))
    status, shown, diagnostics = ran(
        "sweep", spec, "-o", tmp_path / "results.parquet", capsys=capsys
    )
    assert (status, shown) == (2, "")
    assert sorted(tmp_path.rglob("*")) == before
    result, *problems = diagnostics.splitlines()
    assert result == f"pagewise: {spec}: {len(problems)} problems; nothing was run"
    for place, what in (
        ("sizes, entry 2", "64 parsecs"),
        ("traces, entry 1", "absent.parquet"),
        ("traces, entry 2", "notes.txt"),
        ("[[scenario]] 1", "colour"),
        ("[[device]] 1", "drum"),
        ("[[architecture]] 2", "entry_bit"),
        ("[[architecture]] 3", "hydra"),
    ):
        (found,) = (problem for problem in problems if problem.startswith(f"  {place}"))
        assert what in found, found


def test_one_problem_has_its_place_and_hint(tmp_path: Path):
    output = tmp_path / "results.parquet"
    with pytest.raises(UsageError, match=r"^\[\[architecture\]\] 1: .*entry_bit"):
        sweep({**SPEC, "architecture": [{"name": "hybrid", "options": {"entry_bit": 7}}]}, output)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_not_overwritten(tmp_path: Path):
    output = tmp_path / "results.parquet"
    output.write_text("my thesis")
    with pytest.raises(UsageError, match="does not hold results"):
        sweep(SPEC, output)
    assert output.read_text() == "my thesis"


@pytest.mark.parametrize("name", ["results.parquet", "results.parquet.journal"])
def test_a_special_file_is_not_replaced(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="not a regular file"):
        sweep(SPEC, tmp_path / "results.parquet")
    assert (tmp_path / name).is_fifo()


@pytest.mark.parametrize("target", ["absent", "theirs"])
@pytest.mark.parametrize("suffix", ["", ".journal"])
def test_a_link_in_place_of_the_results_is_refused_and_stays(
    tmp_path: Path, target: str, suffix: str
):
    output = tmp_path / "results.parquet"
    (tmp_path / "theirs").write_text("mine\n")
    link = Path(f"{output}{suffix}")
    link.symlink_to(target)
    with pytest.raises(UsageError, match="symbolic link"):
        sweep(SPEC, output)
    assert link.is_symlink() and (tmp_path / "theirs").read_text() == "mine\n"
    assert not (tmp_path / "absent").exists()


def test_a_changed_simulator_reuses_no_old_results(tmp_path: Path, monkeypatch):
    output = tmp_path / "results.parquet"
    first = sweep(SPEC, output)
    monkeypatch.setattr("pagewise.grids.run.this_build", lambda: "0.1.0, build of tomorrow")
    again = sweep(SPEC, output)
    assert (again["kept"], again["computed"]) == (0, first["cells"])


def test_traces_of_the_same_content_share_runs_but_have_their_own_rows(tmp_path: Path):
    twins = [{**SMALL, "name": name, "memory_mib": 24} for name in ("one", "other")]
    output = tmp_path / "results.parquet"
    seen: list[tuple[int, int]] = []
    report = sweep({**SPEC, "scenario": twins}, output, progress=lambda *p: seen.append(p))
    assert report["cells"] == report["computed"] == 2 * CELLS
    assert seen[-1][1] == 1000 * CELLS
    rows = results.read(str(output))
    assert {row["trace"] for row in rows} == {"one", "other"}
    assert len({row["key"] for row in rows}) == CELLS


def test_progress_ends_at_its_total(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    sweep(SPEC, tmp_path / "results.parquet", progress=lambda *pair: seen.append(pair))
    assert seen[-1] == (CELLS * 1000, CELLS * 1000)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_unknown_engine_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="abacus"):
        sweep(SPEC, tmp_path / "results.parquet", engine="abacus")


GRID = """
sizes = ["0", "1MiB", "4MiB"]
seeds = [0, 1]
[[scenario]]
name = "small"
apps = 6
footprint_mib = 8
memory_mib = 24
libraries_mib = 4
services_mib = 4
[[device]]
fast = "4/5us"
slow = "90/40us"
[[device]]
fast = "dram"
slow = "hdd"
[[architecture]]
name = "flash"
[[architecture]]
name = "hybrid"
options = { entry_bit = [0, 1] }
[[architecture]]
name = "nvm-cache"
"""
"""`SPEC` as a file."""

PAUSING = """
import sys
from pagewise import __main__
from pagewise.grids.journal import LocalJournal
append = LocalJournal.append
def pausing(journal, cells):
    append(journal, cells)
    print("some cells are finished", file=sys.__stdout__, flush=True)
    sys.stdin.read()
LocalJournal.append = pausing
__main__.main()
"""
"""The command as a process that waits for the test after every append to its journal."""


def test_the_file_spans_the_same_grid() -> None:
    assert parse(tomllib.loads(GRID)) == parse(SPEC)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the grid from an uninterrupted run."""
    output = tmp_path_factory.mktemp("undisturbed") / "results.parquet"
    sweep(SPEC, output)
    return output


def temporary_of(folder: Path) -> Path:
    """The folder for temporary files inside the grid's own folder."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return temporary


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The grid as a command in its own folder, with some cells finished."""
    spec, results = folder / "grid.toml", folder / "results.parquet"
    spec.write_text(GRID)
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PAUSING, "sweep", str(spec), "-o", str(results)]
    environment = {**os.environ, "TMPDIR": str(temporary_of(folder))}
    with (
        running(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
        ) as process,
        killed_after(300, process),
    ):
        assert line_of(process.stdout) == "some cells are finished\n"
        yield process


def test_after_a_kill_the_next_run_continues_and_writes_the_same_bytes(
    tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
):
    temporary = temporary_of(tmp_path)
    with started(tmp_path) as process:
        process.kill()
        process.wait(60)
    assert list(temporary.iterdir()), "no trace was generated there"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert not (tmp_path / "results.parquet").exists()
    # A kill in the middle of an append leaves a torn line.
    with open(tmp_path / "results.parquet.journal", "ab") as journal:
        journal.write(b"4711 00c0ffee {")
    report = sweep(tmp_path / "grid.toml", tmp_path / "results.parquet")
    assert 0 < report["kept"] < CELLS
    assert report["kept"] + report["computed"] == CELLS
    assert (tmp_path / "results.parquet").read_bytes() == undisturbed.read_bytes()
    assert not list(temporary.iterdir())


def test_ctrl_c_ends_with_status_130_and_keeps_what_is_finished(tmp_path: Path, undisturbed: Path):
    with started(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not (tmp_path / "results.parquet").exists()
    report = sweep(tmp_path / "grid.toml", tmp_path / "results.parquet")
    assert 0 < report["kept"] < CELLS
    assert (tmp_path / "results.parquet").read_bytes() == undisturbed.read_bytes()


def test_a_table_keeps_every_bit_of_its_numbers(tmp_path: Path) -> None:
    draw = random.Random(5)
    numbers = [draw.random() * 10 ** draw.randint(-5, 12) for _ in range(5000)]
    table = {"columns": [{"name": "io_time_s", "type": "number", "values": numbers}]}
    path = str(tmp_path / "table.parquet")
    _core.write_table(path, json.dumps(table))
    assert _core.read_table(path)["columns"][0]["values"] == numbers
