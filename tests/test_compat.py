"""Recordings, results, commands and fields of earlier versions, as docs/stability.md promises."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pagewise as pw
from pagewise.launch_runs import read_run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import compat  # noqa: E402 - a script of tools/

COMPAT = ROOT / "tests/compat"
VERSIONS = sorted(path for path in COMPAT.iterdir() if path.is_dir())
EXACT = ("info", "analyze", "misses", "curves", "replay-kills")
"""Answers that are counts of the recording. Others follow from device figures and policies, which
may change: of them the test compares the fields."""
OF_THE_RUN = {"pagewise", "build", "trace_sha256"}
"""Fields that name the program that computed a result."""
BYTES_MAX = 1 << 20

of_each_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


def answers() -> list[Any]:
    found = [(version, path) for version in VERSIONS for path in version.glob("results/*.json")]
    assert len(found) >= 10
    return [pytest.param(*row, id=f"{row[0].name}-{row[1].stem}") for row in sorted(found)]


def missing(old: Any, new: Any, *, is_exact: bool, where: str = "") -> list[str]:
    """What a new result lacks of an old one: fields, or with ``is_exact`` values."""
    if isinstance(old, dict) and isinstance(new, dict):
        lacking = [f"{where}.{name}" for name in old if name not in new]
        for name in old.keys() & new.keys() - OF_THE_RUN:
            lacking += missing(old[name], new[name], is_exact=is_exact, where=f"{where}.{name}")
        return lacking
    if isinstance(old, list) and isinstance(new, list) and is_exact:
        if len(old) != len(new):
            return [f"{where}: {len(new)} instead of {len(old)} entries"]
        rows = zip(old, new, strict=True)
        return [
            lacking for row in rows for lacking in missing(*row, is_exact=True, where=f"{where}[]")
        ]
    is_number = isinstance(old, float) and isinstance(new, int | float)
    is_same = new == pytest.approx(old, rel=1e-9) if is_number else new == old
    return [f"{where}: {new!r} instead of {old!r}"] if is_exact and not is_same else []


def ran(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagewise", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(("version", "path"), answers())
def test_an_earlier_recording_gives_the_earlier_answer(version: Path, path: Path) -> None:
    run = ran(version, *compat.ANSWERS[path.stem], "--json")
    assert run.returncode in (0, 1), run.stderr
    old, new = json.loads(path.read_text()), json.loads(run.stdout)
    assert old.get("schema") == new.get("schema")
    assert not missing(old, new, is_exact=path.stem.startswith(EXACT))


def test_the_comparison_finds_a_lost_field_and_a_changed_count() -> None:
    old = {"a": 1, "rows": [{"b": 2.0}]}
    assert missing(old, {"rows": [{"b": 2.0}]}, is_exact=False) == [".a"]
    assert missing(old, {"a": 2, "rows": [{"b": 2.0}], "c": 0}, is_exact=True) == [
        ".a: 2 instead of 1"
    ]
    assert missing(old, {"a": 1, "rows": []}, is_exact=True) == [".rows: 0 instead of 1 entries"]
    assert not missing(old, {"a": 1, "rows": [{"b": 2, "d": 0}]}, is_exact=True)


@of_each_version
def test_a_report_reads_earlier_results(version: Path, tmp_path: Path) -> None:
    names = ("analyze", "misses", "simulate", "advice")
    results = [version / f"results/{name}.json" for name in names]
    panels = pw.report([path for path in results if path.exists()], tmp_path / "r.html")["panels"]
    assert len(panels) > 3


@of_each_version
def test_an_earlier_trace_can_be_sliced_and_measured(version: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.parquet"
    pw.slice_trace(version / "recordings/swap.parquet", part, start="0s", stop="614ms")
    whole = pw.analyze(version / "recordings/swap.parquet")
    assert 0 < pw.analyze(part)["accesses"] < whole["accesses"]


@of_each_version
def test_an_earlier_launch_run_is_read(version: Path) -> None:
    run = read_run(version / "run")
    assert run.visits


@of_each_version
def test_an_earlier_kill_trace_is_read(version: Path) -> None:
    if not compat.AGENT.exists():
        pytest.skip("the agent is not built: make build")
    run = subprocess.run(
        [compat.AGENT, "killtrace", "--read", version / "recordings/killtrace.pgk", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["kills"]


@pytest.mark.slow
@of_each_version
def test_every_earlier_option_function_and_field_is_still_there(version: Path) -> None:
    old, new = json.loads((version / "interface.json").read_text()), compat.interface()
    if not compat.AGENT.exists():
        old["commands"] = {
            name: options
            for name, options in old["commands"].items()
            if not name.startswith("pagewise-agent ")
        }
    for kind, names in old.items():
        assert names, kind
        gone = [name for name in names if name not in new[kind]]
        gone += [
            f"{name} {part}"
            for name, parts in names.items()
            for part in parts
            if part not in new[kind].get(name, parts)
        ]
        assert not gone, f"{kind}: {gone}: see docs/stability.md before you remove them"


@of_each_version
def test_the_files_stay_small(version: Path) -> None:
    assert sum(path.stat().st_size for path in version.rglob("*") if path.is_file()) < BYTES_MAX
