"""Every example runs with the command in its docstring."""

import subprocess
import sys
from pathlib import Path

import pytest

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
