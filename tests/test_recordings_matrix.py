"""The matrix of launch runs: complete, on its page, and of plans that the lab accepts."""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import rounds, write_run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import recordings  # noqa: E402

AGENT = Path(sys.executable).parent / "pagewise-agent"
HOURS_MAX = 12
ROWS = {row.name: row for row in recordings.rows()}


def test_the_page_has_the_table_of_the_matrix() -> None:
    page = (ROOT / "docs/studies/matrix.md").read_text()
    assert recordings.table(list(ROWS.values())) in page


def test_the_matrix_fits_into_its_hours_and_every_footprint_is_a_row() -> None:
    assert sum(row.minutes_all for row in ROWS.values()) <= HOURS_MAX * 60
    for row in ROWS.values():
        assert bool(row.budgets) == bool(row.footprint)
        assert not row.footprint or ROWS[row.footprint].swap == ["no-limit"]
        assert row.repeats >= 3 and (recordings.PLANS / f"{row.plan}.toml").is_file()
        names = [run.name for run in row.runs()]
        count = len(row.swap) * row.repeats * max(1, len(row.budgets))
        assert len(set(names)) == len(names) == count


@pytest.mark.parametrize("name", ROWS)
def test_a_plan_reads_back_as_it_was_written(name: str) -> None:
    for run in ROWS[name].runs():
        plan = run.plan(3 << 30)
        assert tomllib.loads(recordings.written(plan)) == plan
        if run.budget:
            assert plan["budget"] == f"{round(run.budget * 3072)}MiB" and "balloon" not in plan
        # The lab's folder is linked beside those of the rows.
        assert (ROOT / "lab" / Path(plan["include"]).relative_to("../lab")).is_file()


def test_a_kind_of_swap_becomes_its_mode() -> None:
    runs = {run.swap: run.plan(1 << 30) for row in ROWS.values() for run in row.runs()}
    assert runs["kill:0.6"]["kill"] == {"threshold": 0.6} and "swap_size" not in runs["kill:0.6"]
    assert runs["minfree"]["mode"] == "minfree" and "tiers" not in runs["minfree"]
    s2 = runs["s2:first"]["minfree"]
    assert (s2["levels"], s2["reclaim"]) == ("1024:0,4096:470", "first")
    other = recordings.MatrixRow("r", "", "phone-1g", 1, ["flesh"], 3, 1)
    with pytest.raises(ValueError, match="no way to swap is called 'flesh'"):
        next(iter(other.runs())).plan(None)
    assert runs["hybrid:32MiB"]["tiers"] == {
        "policy": "hybrid",
        "fast": "32MiB",
        "emulate": {"slow": "emmc-5.1"},
    }
    assert runs["hybrid:128MiB:promote_at=swapout"]["tiers"]["options"] == {"promote_at": "swapout"}
    assert runs["hybrid:32MiB"]["storage"] == {"files": "emmc-5.1"}
    assert "storage" not in runs["swap-file"] and "budget" not in runs["no-limit"]


def test_a_log_of_visits_is_repeated() -> None:
    (header, *visits) = (ROOT / "lab/plans/sessions.csv").read_text().splitlines()
    log = next(iter(ROWS["s1-sessions"].runs())).log()
    assert log and log.splitlines() == [header, *visits * 4]
    assert next(iter(ROWS["s1-zipf"].runs())).log() is None


def launched(reasons: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the agent: the runs have these reasons against them, one after the other."""
    folders: list[Path] = []

    def launch(plan: Path, folder: Path) -> int:
        assert tomllib.loads(plan.read_text())["order"]
        visits: list[dict[str, Any]] = rounds(1, 1.0, anonymous_bytes=200 << 20)
        name = folder.with_name(f"{folder.name}-{len(folders)}")
        write_run(name, visits, invalid_because=reasons[len(folders)])
        shutil.rmtree(folder, ignore_errors=True)
        name.rename(folder)
        folders.append(folder)
        return 0

    monkeypatch.setattr(recordings, "launch", launch)
    return folders


def test_a_run_that_carries_no_verdict_is_made_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = next(iter(ROWS["footprint-9"].runs()))
    folders = launched([["it was not recorded"], []], monkeypatch)
    assert recordings.make(tmp_path, run) == "" and len(folders) == 2
    assert recordings.make(tmp_path, run) == "" and len(folders) == 2
    launched([["a"], ["b"]], monkeypatch)
    other = list(ROWS["footprint-9"].runs())[1]
    assert recordings.make(tmp_path, other) == "b"


def test_a_budget_is_a_share_of_the_measured_footprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = next(iter(ROWS["s0-swap"].runs()))
    footprint = list(ROWS["footprint-9"].runs())
    launched([["busy"], ["busy"], [], []], monkeypatch)
    assert recordings.make(tmp_path, footprint[0]) == "busy"
    assert "footprint-9 has no valid run" in recordings.make(tmp_path, run)
    assert recordings.make(tmp_path, footprint[1]) == ""
    assert recordings.make(tmp_path, run) == ""
    plan = tmp_path / "s0-swap" / "swap-file-40-0.toml"
    assert tomllib.loads(plan.read_text())["budget"] == "80MiB"
    assert (tmp_path / "footprint-9" / "footprint.txt").read_text() == f"{200 << 20}\n"


def test_a_run_of_another_plan_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = next(iter(ROWS["footprint-9"].runs()))
    folders = launched([[], []], monkeypatch)
    assert recordings.make(tmp_path, run) == ""
    longer = replace(run, row=replace(run.row, rounds=7))
    assert recordings.make(tmp_path, longer) == "" and len(folders) == 2


def test_the_lab_accepts_every_plan(tmp_path: Path) -> None:
    (tmp_path / "lab").symlink_to(ROOT / "lab")
    for row in ROWS.values():
        for run in {run.swap: run for run in row.runs()}.values():
            plan = tmp_path / f"{row.name}.toml"
            plan.write_text(recordings.written(run.plan(3 << 30)))
            if log := run.log():
                (tmp_path / recordings.LOG).write_text(log)
            command = [AGENT, "launch", plan, "-o", tmp_path / "run", "--dry-run", "--json"]
            found = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert found.returncode in (0, 3), found.stderr
            if found.returncode == 0:
                assert json.loads(found.stdout)["plan"].startswith(row.name)
