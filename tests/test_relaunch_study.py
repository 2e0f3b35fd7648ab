"""The study of launches with relaunchd, on runs whose figures are computed by hand."""

from pathlib import Path
from typing import Any

import pytest
from commands import ran
from run_folders import MIB, rounds, write_run

from pagewise.errors import UnreadableInput, UsageError
from pagewise_studies import relaunch
from pagewise_studies.verdict import FAILS, HOLDS, UNMEASURED

PREFETCH = "prefetch = true"
EMULATED = """\
tiers = { policy = "flash", fast = "4KiB", emulate = { slow = "emmc-5.1" } }
storage = { files = "emmc-5.1" }"""
LOG = """\
event=start applications=1 dry_run=false
event=frozen app=app0 at_ns=1 processes=1
event=thawed app=app0 predicted_pages=0 wanted_pages=0 prefetched_pages=0
event=frozen app=app0 at_ns=2 processes=1 used_pages=0 missed_pages=90
event=thawed app=app0 predicted_pages=50 wanted_pages=50 prefetched_pages=40
event=frozen app=app0 at_ns=3 processes=1 used_pages=30 missed_pages=20
"""
TARGETS = ("launch", "launch, emmc-5.1", "applications", "major faults", "bytes read")


def sides(
    folder: Path, with_s: float, *, runs: int = 2, apps: int = 2, plan: str = "", **more: Any
) -> list[Path]:
    """Runs of four rounds, which launch in 1 s without relaunchd and in ``with_s`` with it.

    The launches of the first two rounds, and a cold launch, which do not count, take a minute.
    """
    mode = "tiers" if plan else "swap-file"
    before = {"major_faults": 100, "swap_in_bytes": 10 * MIB}
    folders = []
    for number in range(runs):
        for kind, launch_s, prefetch, values in (
            ("without", 1.0, "", before),
            ("with", with_s, PREFETCH, {**before, **more}),
        ):
            folders.append(
                write_run(
                    folder / f"{kind}-{number}",
                    [
                        *rounds(apps, 60.0, 60.0, launch_s, launch_s, **values),
                        {"round": 3, "app": "app0", "cold": True, "launch_s": 60.0, **values},
                    ],
                    mode=mode,
                    minfree=f"{prefetch}\n{plan}",
                    start_ns=len(folders),
                )
            )
            if prefetch:
                (folders[-1] / "relaunchd.log").write_text(LOG)
    return folders


def judged(folders: list[Path], output: Path) -> dict[str, dict[str, Any]]:
    result = relaunch.study(folders, output, seed=1, progress=None)
    return {row["part"]: row for row in result["verdicts"]}


def test_the_targets_hold_if_the_runs_reach_them(tmp_path: Path) -> None:
    found = judged(sides(tmp_path, 0.5, major_faults=50, swap_in_bytes=12 * MIB), tmp_path)
    assert tuple(found) == TARGETS
    assert {part for part, row in found.items() if row["verdict"] == HOLDS} == {*TARGETS} - {
        "launch, emmc-5.1"
    }
    assert found["launch"]["ours"] == "2.00x (2.00x to 2.00x)"
    assert found["bytes read"]["ours"] == "1.20x (1.20x to 1.20x)"
    assert "--emulate emmc-5.1" in found["launch, emmc-5.1"]["why"]


def test_the_targets_fail_if_the_runs_miss_them(tmp_path: Path) -> None:
    found = judged(sides(tmp_path, 1.2, major_faults=60, swap_in_bytes=13 * MIB), tmp_path)
    assert {part for part, row in found.items() if row["verdict"] == FAILS} == {*TARGETS} - {
        "launch, emmc-5.1"
    }
    assert "app0 takes at least 1.20 times as long" in found["applications"]["why"]


def test_launches_on_emulated_storage_have_their_own_target(tmp_path: Path) -> None:
    found = judged(sides(tmp_path, 0.6, plan=EMULATED), tmp_path)
    assert found["launch, emmc-5.1"]["verdict"] == FAILS
    assert found["launch"]["verdict"] == UNMEASURED
    assert "as slow as emmc-5.1" in found["launch"]["why"]
    assert (found["launch"]["ours"], found["launch, emmc-5.1"]["ours"]) == (
        "",
        "1.67x (1.67x to 1.67x)",
    )


def test_runs_with_other_settings_of_relaunchd_are_not_one_side(tmp_path: Path) -> None:
    folders = sides(tmp_path, 0.5)
    visits = rounds(2, 60.0, 60.0, 0.5, 0.5)
    plan = f"{PREFETCH}\nprefetch_cold = true\n"
    folders.append(write_run(tmp_path / "cold", visits, minfree=plan, start_ns=len(folders)))
    with pytest.raises(UsageError, match="they differ in prefetch_cold"):
        relaunch.study(folders, tmp_path, seed=1, progress=None)


def test_a_single_run_of_each_kind_carries_no_verdict(tmp_path: Path) -> None:
    found = judged(sides(tmp_path, 0.5, runs=1), tmp_path)
    assert {row["verdict"] for row in found.values()} == {UNMEASURED}
    assert "these are 1 and 1" in found["launch"]["why"]


def test_launches_that_differ_too_much_carry_no_verdict(tmp_path: Path) -> None:
    folders = sides(tmp_path, 0.6, apps=1)
    slow = rounds(1, 60.0, 60.0, 0.9, 0.9, major_faults=100)
    folders.append(
        write_run(tmp_path / "slow", slow, minfree=f"{PREFETCH}\n", start_ns=len(folders))
    )
    (folders[-1] / "relaunchd.log").write_text(LOG)
    found = judged(folders, tmp_path)
    assert found["launch"]["verdict"] == UNMEASURED
    assert found["launch"]["ours"].startswith("1.67x (1.1")
    assert "contains 1.50x: needs more runs" in found["launch"]["why"]


@pytest.mark.parametrize("faults", [(0, 0), (0, 50)])
def test_runs_that_may_have_no_major_fault_leave_their_target_open(
    tmp_path: Path, faults: tuple[int, int]
) -> None:
    folders = []
    for number, kind in enumerate(("without", "with") * 2):
        visits = [
            {**visit, "major_faults": faults[at % 2]}
            for at, visit in enumerate(rounds(1, 60.0, 60.0, 1.0, 1.0))
        ]
        plan = f"{PREFETCH if kind == 'with' else ''}\n"
        folders.append(
            write_run(tmp_path / f"{kind}-{number}", visits, minfree=plan, start_ns=number)
        )
        (folders[-1] / "relaunchd.log").write_text(LOG)
    found = judged(folders, tmp_path)["major faults"]
    assert (found["verdict"], found["ours"]) == (UNMEASURED, "")


def test_the_log_says_what_was_read_in_vain(tmp_path: Path) -> None:
    result = relaunch.study(sides(tmp_path, 0.5), tmp_path, seed=1, progress=None)
    launches, pages = result["tables"]
    rows = {row[0]: dict(zip(launches["columns"], row, strict=True)) for row in launches["rows"]}
    assert (rows["all"]["launches"], rows["all"]["launch"]) == (8, 0.5)
    (row,) = (dict(zip(pages["columns"], row, strict=True)) for row in pages["rows"])
    # The visit without a prediction does not count.
    assert (row["visits"], row["predicted"], row["read"]) == (2, 50, 40)
    assert (row["recall"], row["precision"], row["recall, simulated"]) == (0.6, 0.75, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["with-0", "with-1"], "all of these are with"),
        (["without-0"], "all of these are without"),
        (["with-0", "without-0", "with-0"], "are the same run"),
        (["with-0", "other"], "they differ in budget"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path, given: list[str], message: str
) -> None:
    sides(tmp_path, 0.5)
    write_run(tmp_path / "other", rounds(2, 1.0), budget="1GiB", start_ns=9)
    with pytest.raises(UsageError, match=message) as refusal:
        relaunch.study([tmp_path / name for name in given], tmp_path, seed=1, progress=None)
    assert refusal.value.hint


def test_too_few_rounds_are_refused(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / name, rounds(1, 1.0, 1.0), minfree=f"{plan}\n", start_ns=at)
        for at, (name, plan) in enumerate((("without", ""), ("with", PREFETCH)))
    ]
    with pytest.raises(UsageError, match="no application has an answered warm launch"):
        relaunch.study(folders, tmp_path, seed=1, progress=None)


def test_an_unfinished_run_and_a_broken_log_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = sides(tmp_path, 0.5)
    (folders[1] / "relaunchd.log").write_text("event=frozen used_pages=1\n")
    with pytest.raises(UnreadableInput, match=r"relaunchd\.log: not a log of relaunchd"):
        relaunch.study(folders, tmp_path, seed=1, progress=None)
    (folders[1] / "relaunchd.log").unlink()
    with pytest.raises(UnreadableInput, match=r"relaunchd\.log: No such file") as refusal:
        relaunch.study(folders, tmp_path, seed=1, progress=None)
    assert "pagewise-agent launch" in str(refusal.value.hint)
    early = write_run(tmp_path / "early", rounds(2, 1.0), unfinished="Ctrl-C", start_ns=9)
    status, _, diagnostics = ran(
        *("study", "relaunch", folders[0], early, "-o", tmp_path / "study"), capsys=capsys
    )
    assert status == 3
    assert "the run ended early: Ctrl-C" in diagnostics and "leave this folder out" in diagnostics


def test_the_report_shows_relaunches_before_and_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = sides(tmp_path, 0.5)
    page = tmp_path / "page.html"
    status, _, diagnostics = ran(
        *("study", "relaunch", *folders, "-o", tmp_path / "study", "--report", page),
        capsys=capsys,
    )
    assert (status, diagnostics) == (0, "")
    text = page.read_text()
    assert "Relaunch before and after" in text
    assert "2 of 2 applications launch faster with relaunchd" in text
