"""The study of an NVM cache under running programs, on runs whose figures are computed by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from run_folders import MIB, rounds, write_run
from swapd_runs import PAGE, Event, write_tier_run

from pagewise.errors import UsageError
from pagewise_studies import nvm_cache_live
from pagewise_studies.verdict import FAILS, HOLDS, UNMEASURED

FALLING = {0: 100, 64: 90, 256: 60}
SWAP_MIB = 30
AREA = """\
time_s,event,process,page,state,kind
0.0,out,1,1,D,anon
0.1,in,1,1,,anon
0.2,out,1,1,D,anon
0.3,in,1,1,,anon
"""


def with_swap(
    folder: Path, storage_mib: Mapping[int, int], *, repeats: int = 2, fast_reads: int = 5
) -> list[Path]:
    """Runs by size of the NVM in MiB, each with this storage I/O in MiB; 0 is a swap file."""
    folders = []
    for number in range(repeats):
        for size, storage in storage_mib.items():
            name, start_ns = folder / f"nvm-{size}-{number}", 1 + len(folders)
            moved = {"bytes_in": storage * MIB}
            if not size:
                visits = rounds(1, 1.0, swap_in_bytes=SWAP_MIB * MIB, **moved)
                folders.append(write_run(name, visits, start_ns=start_ns))
                continue
            # What swapd serves also counts as I/O of the machine.
            moved["bytes_in"] += SWAP_MIB * MIB
            visits = rounds(1, 1.0, swap_in_bytes=SWAP_MIB * MIB, **moved)
            folders.append(
                write_tier_run(
                    name,
                    [("out", 1)],
                    visits,
                    policy="nvm-cache",
                    fast_pages=size * MIB // PAGE,
                    is_recorded=False,
                    counts={"fast": {"reads": fast_reads, "writes": 9}},
                    start_ns=start_ns,
                )
            )
    return folders


def without_swap(folder: Path, storage_mib: int, kills: int = 1) -> list[Path]:
    visits = rounds(1, 1.0, bytes_in=storage_mib * MIB, kills=kills)
    return [
        write_run(folder / f"kill-{number}", visits, mode="kill", start_ns=1000 + number)
        for number in (0, 1)
    ]


def judged(folders: Sequence[Path], output: Path) -> dict[str, dict[str, Any]]:
    result = nvm_cache_live.live(folders, output, seed=1, progress=None)
    return {row["part"]: row for row in result["verdicts"]}


def test_io_that_falls_below_that_of_kill_holds(tmp_path: Path) -> None:
    found = judged([*with_swap(tmp_path, FALLING), *without_swap(tmp_path, 70)], tmp_path)
    assert {row["verdict"] for row in found.values()} == {HOLDS}
    assert found["monotone"]["ours"] == "-10.0 %"
    assert found["crossover"]["ours"] == "0.86x"
    assert (found["monotone"]["readings"], found["crossover"]["readings"]) == (2, 4)
    result = json.loads((tmp_path / "nvm-cache-live.json").read_text())
    figure = next(each for each in result["figures"] if each["name"] == "nvm-cache-live-fig5")
    live = [(row[0], row[2], row[4]) for row in figure["rows"] if row[1].endswith("live")]
    assert live == [(size, storage, 2) for size, storage in FALLING.items()]


def test_io_that_rises_or_stays_above_that_of_kill_fails(tmp_path: Path) -> None:
    rising = with_swap(tmp_path, {0: 100, 64: 90, 256: 95})
    found = judged([*rising, *without_swap(tmp_path, 80)], tmp_path)
    assert {row["verdict"] for row in found.values()} == {FAILS}
    assert found["monotone"]["ours"] == "+5.6 %"


@pytest.mark.parametrize(
    ("with_", "without", "part", "why"),
    [
        ({"repeats": 1}, {}, "monotone", "needs 2 runs of each or more"),
        ({"fast_reads": 0}, {}, "monotone", "the NVM of nvm-64-0 served no read"),
        ({"storage_mib": {256: 60}}, {}, "monotone", "these have 256 MiB"),
        ({"storage_mib": {0: 9, 256: 6}}, {}, "crossover", "needs an NVM below 128 MiB"),
        ({}, {"kills": 0}, "crossover", "the killer of kill-0 ended no application"),
        ({}, None, "crossover", 'with mode = "kill"'),
        ({"repeats": 1}, {}, "crossover", "needs 2 runs of each or more"),
    ],
)
def test_a_verdict_that_the_runs_cannot_carry_says_what_is_missing(
    tmp_path: Path, with_: dict[str, Any], without: dict[str, Any] | None, part: str, why: str
) -> None:
    folders = with_swap(tmp_path, **{"storage_mib": FALLING, **with_})
    if without is not None:
        folders += without_swap(tmp_path, 70, **without)
    found = judged(folders, tmp_path)[part]
    assert found["verdict"] == UNMEASURED
    assert why in found["why"]


def test_the_simulated_curve_is_the_recorded_run_less_what_the_nvm_absorbs(
    tmp_path: Path,
) -> None:
    visits = rounds(1, 1.0, bytes_in=10 * PAGE)
    events: list[Event] = [("out", 1), ("in", 1)]
    live = write_tier_run(tmp_path / "nvm", events, visits, policy="nvm-cache", start_ns=10**10)
    on_file = write_run(tmp_path / "file", visits, recording=AREA)
    result = nvm_cache_live.live([live, on_file], tmp_path, seed=1, progress=None)
    figure = next(each for each in result["figures"] if each["name"] == "nvm-cache-live-fig5")
    simulated = {row[0]: row[2] * MIB / PAGE for row in figure["rows"] if "simulated" in row[1]}
    # The second page-out and the page-in after it stay in the NVM.
    assert (simulated[0], simulated[256]) == (10, 8)


def test_runs_without_an_nvm_cache_are_refused(tmp_path: Path) -> None:
    other = write_tier_run(tmp_path / "run", [("out", 1)], rounds(1, 1.0))
    with pytest.raises(UsageError, match="none of these runs has the policy nvm-cache"):
        judged([other], tmp_path)
