"""The study of launches in short memory, on runs whose figures are computed by hand."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_folders import MIB, repeated, write_run

from pagewise.errors import UsageError
from pagewise.launch_runs import read_run
from pagewise_studies import launch
from pagewise_studies.repeats import in_words
from pagewise_studies.text import markdown
from pagewise_studies.verdict import FAILS, HOLDS, UNMEASURED

NEED = Path(__file__).resolve().parents[1] / "lab" / "python" / "need.py"
NEEDS = {"small": 60, "middle": 100, "large": 500}
KILLS = {"small": 2, "middle": 4, "large": 17}


def runs(folder: Path, slowdowns: dict[str, float], **waits: float) -> list[Path]:
    """A run in ample memory, in which each app has its `NEEDS` and takes 1 s, and a run in short
    memory."""
    used = 0
    ample: list[dict[str, Any]] = []
    for app, mib in NEEDS.items():
        used += mib * MIB
        ample.append(
            {"app": app, "cold": True, "launch_s": 1.0, "memory_bytes": used, "program": app}
            | {"anonymous_bytes": used, **dict.fromkeys(waits, 0.0)}
        )
    short: list[dict[str, Any]] = [
        {"app": app, "cold": True, "launch_s": slowdown, "kills": KILLS[app], **waits}
        for app, slowdown in slowdowns.items()
    ]
    return [
        write_run(folder / "ample", ample, mode="no-limit"),
        write_run(folder / "short", short, mode="kill"),
    ]


def judged(result: dict[str, Any]) -> dict[str, str]:
    return {f"{row['check']} {row['part']}": row["verdict"] for row in result["verdicts"]}


def test_a_claim_holds_if_the_runs_show_it(tmp_path: Path) -> None:
    folders = runs(
        tmp_path, {"small": 1.4, "middle": 1.7, "large": 3.3}, kill_s=0.2, io_stall_s=0.5
    )
    ample, short = folders
    result = launch.study([ample, *repeated([short])], tmp_path, seed=1, progress=None)
    assert set(judged(result).values()) == {HOLDS}
    table = next(table for table in result["tables"] if table["name"] == "launches")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["need, MiB"] for row in rows] == [60, 100, 500]
    assert rows[0]["free memory falls by, MiB"] == 50
    assert rows[2]["slowdown"] == pytest.approx(3.3) and rows[2]["kills a launch"] == 17
    waits = next(table for table in result["tables"] if table["name"] == "waits")
    row = dict(zip(waits["columns"], waits["rows"][0], strict=True))
    assert row["slower by, s"] == pytest.approx(0.4)
    assert row[launch.WAITS["kill_s"]] == pytest.approx(0.2)
    assert row[launch.WAITS["kswapd_s"]] is None, "a column that the run lacks is not 0"
    assert "rank correlation" in markdown(result)


def rows(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = next(table for table in result["tables"] if table["name"] == name)
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_repeats_are_pooled_and_compared_on_the_same_storage(tmp_path: Path) -> None:
    slow = 'storage = { files = "emmc-5.1" }\n'
    ample, _ = runs(tmp_path, dict.fromkeys(NEEDS, 1.0))
    visits = [{"app": app, "cold": True, "kills": 3} for app in NEEDS]
    folders = [ample]
    for number, slowdown in enumerate((1.2, 1.4, 2.0)):
        launched = [visit | {"launch_s": slowdown} for visit in visits]
        folders.append(write_run(tmp_path / f"short-{number}", launched, mode="kill"))
    launched = [visit | {"launch_s": 9.0} for visit in visits]
    folders.append(write_run(tmp_path / "slow", launched, mode="kill", minfree=slow))
    result = launch.study(folders, tmp_path, seed=1, progress=None)
    found = rows(result, "launches")
    assert {row["run"] for row in found} == {"kill at 0.4 (short)"}
    assert found[0]["launches"] == 3
    assert [found[0][name] for name in ("least", "slowdown", "most")] == pytest.approx(
        [1.2, 1.4, 2.0]
    )


def test_the_study_compares_killers_and_splits_launches_into_parts(tmp_path: Path) -> None:
    waits = {"processor_s": 0.5, "ready_s": 0.2, "refault_s": 0.1, "storage_s": 0.3}
    waits |= {"reclaim_s": 0.1, "swap_in_s": 0.0}
    ample, _ = runs(tmp_path, dict.fromkeys(NEEDS, 1.0), **waits)
    folders = [ample]
    for name, minfree, launch_s in (
        ("serial", 'minfree = { kills = "serial", reclaim = "never" }', 2.0),
        ("batch", 'minfree = { kills = "batch", reclaim = "never" }', 1.5),
        # This plan does not set them.
        ("usual", "", 1.2),
    ):
        short = [{"app": app, "cold": True, "launch_s": launch_s, **waits} for app in NEEDS]
        died = [{"back_s": 0.01}, {"back_s": 0.03}, {"back_s": None, "freed_bytes": None}]
        folder = write_run(
            tmp_path / name, short, mode="minfree", minfree=minfree, kills=died
        )  # fmt: skip
        folders.append(folder)
    result = launch.study(folders, tmp_path, seed=1, progress=None)
    assert rows(result, "killers")[0] == {
        "app": "small",
        "need, MiB": 60,
        "serial kills and no reclaim, s": 2.0,
        "batch kills and no reclaim, s": 1.5,
        "serial kills and late reclaim, s": 1.2,
    }
    kills = rows(result, "kills")
    assert [row["processes killed in all runs"] for row in kills] == [3, 3, 3]
    assert (kills[0]["back after, ms"], kills[0]["longest, ms"]) == (pytest.approx(20), 30)
    parts = {
        figure["view"]: {(row[0], row[1]): row[2] for row in figure["rows"]}
        for figure in result["figures"]
        if figure["name"].startswith("launch-parts")
    }
    bars = parts["killd with serial kills and late reclaim (usual)"]
    assert bars["small", "own time"] == 0.5
    assert bars["small", "other reads of files"] == pytest.approx(0.2)
    assert bars["small", "unexplained"] == pytest.approx(0.1)
    assert parts["ample memory"]["large", "unexplained"] == 1, "nothing else was recorded"


def test_the_parts_of_a_slowdown_add_up(tmp_path: Path) -> None:
    waits = {
        "processor_s": 0.5,
        "ready_s": 0.2,
        "storage_s": 0.15,
        "swap_in_s": 0.05,
        "reclaim_s": 0.05,
        "kill_s": 0.02,
    }
    folders = runs(tmp_path, {"small": 1.4, "middle": 2.0, "large": 3.0}, **waits)
    result = launch.study(folders, tmp_path, seed=1, progress=None)
    small, _, _ = result["launches"]
    assert (small["run"], small["app"], small["launches"]) == ("short", "small", 1)
    assert small["slowdown"] == pytest.approx(1.4) and small["slower_s"] == pytest.approx(0.4)
    assert small["free_before_bytes"] == 55 * MIB
    parts = small["parts"]
    assert parts["kswapd_s"] is None and parts["swapin_s"] == pytest.approx(0.05)
    assert parts["refault_s"] == pytest.approx(0.15), "the kernel counts swap-ins apart"
    assert parts["cpu_s"] == pytest.approx(0.7) and parts["kill_wait_s"] == pytest.approx(0.02)
    assert parts["rest_s"] == pytest.approx(0.4 - 0.97)
    row = rows(result, "splits")[0]
    assert row["direct reclaim, s"] == pytest.approx(0.05) and row["kswapd, s"] is None


def test_the_study_calls_the_filler_a_filler(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[1] / "examples"
    shipped = [examples / "five-ample", examples / "five-short"]
    result = launch.study(shipped, tmp_path, seed=1, progress=None)
    (note,) = (each["note"] for each in result["tables"] if each["name"] == "launches")
    assert "A filler, not an application: need-56, need-73, need-101, need-117, need-491 (" in note
    others = runs(tmp_path, dict.fromkeys(NEEDS, 1.0))
    result = launch.study(others, tmp_path, seed=1, progress=None)
    assert "filler" not in markdown(result)


def test_free_memory_of_the_machine_is_not_that_of_a_budget(tmp_path: Path) -> None:
    """An older lab wrote the machine's, which may exceed the budget of 650 MiB."""
    visits = [
        {"app": app, "cold": True, "launch_s": 2.0, "free_bytes_before": free_mib * MIB}
        for app, free_mib in zip(NEEDS, (649, 650, 651), strict=True)
    ]
    ample, _ = runs(tmp_path, dict.fromkeys(NEEDS, 1.0))
    short = write_run(tmp_path / "old", visits, mode="minfree")
    free = [visit.free_before_bytes for visit in read_run(short).visits]
    assert free == [649 * MIB, 650 * MIB, None]
    # The first two had more memory free than they need, so memory was not short for them.
    result = launch.study([ample, short], tmp_path, seed=1, progress=None)
    assert [(row["app"], row["free before, MiB"]) for row in rows(result, "splits")] == [
        ("large", None)
    ]


def test_launches_without_an_answer_count_with_the_time_that_the_lab_waited(tmp_path: Path) -> None:
    ample, _ = runs(tmp_path, dict.fromkeys(NEEDS, 1.0))
    visits = [
        {"app": app, "cold": True, "launch_s": launch_s, "start_s": 100.0, "end_s": 160.0}
        for app in NEEDS
        for launch_s in (2.0, None, None if app == "large" else 2.0)
    ]
    short = write_run(tmp_path / "stuck", visits, mode="minfree")
    result = launch.study([ample, short], tmp_path, seed=1, progress=None)
    found = {row["app"]: row for row in rows(result, "launches")}
    assert [found[app]["not answered"] for app in NEEDS] == [1, 1, 2]
    assert [found[app]["short, s"] for app in NEEDS] == [2.0, 2.0, 60.0]


@pytest.mark.parametrize("is_slower", [True, False])
def test_a_baseline_slower_than_the_short_runs_is_refused(tmp_path: Path, is_slower: bool) -> None:
    ample, short = runs(tmp_path, {"small": 0.6, "middle": 0.7, "large": 1.1})
    # A single launch has no interval, and so refuses nothing.
    launch.study([ample, short], tmp_path, seed=1, progress=None)
    # In the other case one of the launches in short memory is slower.
    again = {"small": 0.7 if is_slower else 1.5, "middle": 0.7 if is_slower else 1.5, "large": 1.1}
    _, second = runs(tmp_path / "again", again)
    (other, _) = runs(tmp_path / "other", again)
    both = [ample, other, merged(tmp_path / "both", short, second)]
    if not is_slower:
        launch.study(both, tmp_path, seed=1, progress=None)
        return
    with pytest.raises(UsageError, match="for 2 of 3 pairs of a run and an application"):
        launch.study(both, tmp_path, seed=1, progress=None)
    result = launch.study(both, tmp_path, seed=1, progress=None, allow_invalid=True)
    assert list(result["invalid_runs"]) == ["ample", "ample (2)"]
    assert all(row["run"].endswith("(invalid run)") for row in rows(result, "splits"))
    table = next(table for table in result["tables"] if table["name"] == "launches")
    assert "*ample*, the baseline, is ample, ample (2)." in table["note"]


def merged(folder: Path, *parts: Path) -> Path:
    """A run in short memory with the launches of all parts."""
    visits: list[dict[str, Any]] = [
        {"app": visit.app, "cold": True, "launch_s": visit.launch_s, "kills": visit.kills}
        for part in parts
        for visit in read_run(part).visits
    ]
    return write_run(folder, visits, mode="kill")


def test_a_claim_does_not_hold_if_the_runs_do_not_show_it(tmp_path: Path) -> None:
    ample, short = runs(tmp_path, {"small": 1.9, "middle": 1.7, "large": 1.1})
    twice = [ample, *repeated([short])]
    verdicts = judged(launch.study(twice, tmp_path, seed=1, progress=None))
    assert verdicts["ACC-S2-1 order"] == verdicts["ACC-S2-1 largest"] == FAILS
    assert verdicts["ACC-S2-2 largest app"] == HOLDS
    # One run in short memory shows its figures and carries no verdict.
    result = launch.study([ample, short], tmp_path, seed=1, progress=None)
    assert set(judged(result).values()) == {UNMEASURED}
    (largest,) = [row for row in result["verdicts"] if row["part"] == "largest"]
    assert largest["ours"] == "1.10x" and largest["why"].endswith("there is one of short")


def test_two_apps_are_too_few_to_judge(tmp_path: Path) -> None:
    folders = runs(tmp_path, {"small": 1.4, "large": 3.3})
    verdicts = judged(launch.study(folders, tmp_path, seed=1, progress=None))
    assert set(verdicts.values()) == {UNMEASURED}


def test_ample_and_short_memory_are_both_needed(tmp_path: Path) -> None:
    folders = runs(tmp_path, {"small": 1.4, "middle": 1.7, "large": 3.3})
    for folder in folders:
        with pytest.raises(UsageError, match="ample memory"):
            launch.study([folder], tmp_path, seed=1, progress=None)


def asked(*arguments: str | Path, visits: int) -> list[str]:
    """The answers of need.py to ``visits`` visits."""
    command = [sys.executable, NEED, *arguments]
    text = "visit\n" * visits
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_an_application_of_a_need_reads_its_file_and_answers(tmp_path: Path) -> None:
    assert asked(tmp_path, "--make", "app=10", visits=1) == ["ready", "done 00000000"]
    assert (tmp_path / "app").stat().st_size == 3 * MIB
    with_file = asked(tmp_path, "app", "10", visits=2)
    without = asked(tmp_path, "other", "10", visits=2)
    assert [line.split()[0] for line in with_file] == ["ready", "done", "done"]
    assert with_file[1:] != without[1:], "the file is part of what a visit reads"
    assert with_file == asked(tmp_path, "app", "10", visits=2)


def test_a_row_of_numbered_runs_is_named_by_its_ends() -> None:
    assert in_words([f"ample-{number}" for number in range(30)]) == "ample-0 to ample-29"
    names = ["ample", "run-1", "run-2", "run-4", "run-5", "run-6", "other-7"]
    assert in_words(names) == "ample, run-1, run-2, run-4 to run-6, other-7"
