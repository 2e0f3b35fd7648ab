"""The studies of launch runs, on a new run of three small programs with a swap file."""

import subprocess
from pathlib import Path

import pytest
from agent import AGENT, is_free, refusal

from pagewise.launch_runs import read_run
from pagewise_studies import predict, thrash

ROOT = Path(__file__).resolve().parents[2]
CHECKS = (
    "memory-cgroup",
    "freezer",
    "swapon",
    "record --swap",
    "record --faults",
    "record --block",
)
REFUSAL = refusal(*CHECKS)
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not is_free():
        pytest.skip("another launch is running on this machine")
    folder = tmp_path_factory.mktemp("runs") / "small"
    plan = ROOT / "lab" / "plans" / "small.toml"
    made = subprocess.run(
        [AGENT, "launch", plan, "-o", folder, "--record"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    return folder


def test_a_program_that_touches_the_same_memory_is_predicted(
    run_folder: Path, tmp_path: Path
) -> None:
    run = read_run(run_folder)
    found = [visit for visit in predict.predictions(run, tmp_path) if visit.app == "numbers"]
    # Its 48 MiB do not fit beside the others into 48 MiB, so most pages come back at a visit. Which
    # ones depends on other load, so check only the best visit.
    assert max(visit.recall for visit in found) > 0.9
    assert max(visit.pages for visit in found) > 4000


def test_thrash_measures_the_recording_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    # Beside other tests the machine is too busy for a valid run.
    result = thrash.study([run_folder], tmp_path, seed=1, progress=None, allow_invalid=True)
    tables = {table["name"]: table for table in result["tables"]}
    ways = {row[1] for row in tables["skew"]["rows"]}
    assert {"swap", "all storage"} <= ways
    assert all(row[0].startswith("swap on (small)") for row in tables["launches"]["rows"])
