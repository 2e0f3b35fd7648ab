"""Random programs behave the same with and without the preload library."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lazy_programs import CC, HUNG_S, LIBRARY, NEEDED

FUZZ = Path(__file__).parents[1] / "fuzz" / "programs"
REGRESSIONS = FUZZ / "regressions"
SEEDS = 8
"""Seeds 1 to 8. Seed 1 needs a guard gap in freed memory; seed 7 suspends threads."""
SETTINGS = "fast,guarded,thp,off"
pytestmark = [
    NEEDED,
    pytest.mark.skipif(shutil.which("c++") is None, reason="needs c++: apt-get install g++"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("fuzz") / "program"
    subprocess.run([FUZZ / "build.sh", built], timeout=HUNG_S, check=True)
    return built


@pytest.mark.slow
def test_random_programs_behave_the_same_with_the_library(program: Path, tmp_path: Path) -> None:
    words = ["--seed", "1", "--count", str(SEEDS), "--settings", SETTINGS, "--keep", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, FUZZ / "run.py", program, LIBRARY, *words],
        capture_output=True,
        text=True,
        timeout=2 * HUNG_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", sorted(REGRESSIONS.glob("*.script")), ids=lambda path: path.stem)
def test_fixed_differences_stay_fixed(script: Path, program: Path) -> None:
    words = ["--script", script, "--settings", SETTINGS]
    done = subprocess.run(
        [sys.executable, FUZZ / "run.py", program, LIBRARY, *words],
        capture_output=True,
        text=True,
        timeout=HUNG_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_difference_is_found_and_shortened(program: Path, tmp_path: Path) -> None:
    """Replaces the library by a library that breaks a single call."""
    broken = tmp_path / "broken.so"
    source = "int msync(void *at, unsigned long length, int flags) { return 0; }"
    command = [str(CC), "-shared", "-fPIC", "-x", "c", "-", "-o", str(broken)]
    subprocess.run(command, input=source, text=True, timeout=HUNG_S, check=True)
    words = ["--seed", "1", "--count", "30", "--settings", "fast", "--keep", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, FUZZ / "run.py", program, broken, *words],
        capture_output=True,
        text=True,
        timeout=2 * HUNG_S,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    [kept] = tmp_path.glob("program-*.script")
    assert len(kept.read_text().splitlines()) <= 3, kept.read_text()
