"""Every example runs with the command in its docstring; damage of a shipped trace is noticed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

import pagewise as pw
from pagewise.errors import UnreadableInput

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TASKS = sorted(path.name for path in EXAMPLES.glob("*_*.py") if path.name != "cut_recordings.py")
OUTPUTS = {"sweep_grid.py": "results.parquet", "write_report.py": "report.html"}


@pytest.mark.parametrize("name", TASKS)
def test_an_example_runs(name: str, trace: Path, tmp_path: Path) -> None:
    output = OUTPUTS.get(name)
    run = subprocess.run(
        [sys.executable, EXAMPLES / name, trace, *([output] if output else [])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert [path.name for path in tmp_path.iterdir()] == ([output] if output else [])


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("page-size/*.pwf")), ids=lambda path: path.stem
)
def test_a_flipped_bit_of_a_shipped_trace_is_refused(path: Path, tmp_path: Path) -> None:
    whole, draws = path.read_bytes(), random.Random(20261125)
    # The first places are those of version and lengths, which version 1 did not check.
    places = [*range(6, 16), *(draws.randrange(len(whole)) for _ in range(20))]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draws.randrange(8)
        copy = tmp_path / path.name
        copy.write_bytes(damaged)
        with pytest.raises(UnreadableInput):
            print(place, pw.info(copy))
