"""`make demo` prints a few lines, and names the log of what it hides."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINES_MAX = 15
DEMO = """#!/bin/sh
printf 'phone: skew\\ta tenth\\n\\n'
printf 'I/O time\\t64 MiB\\t128 MiB\\nflash\\t3 s\\t2 s\\n\\n'
printf 'evidence\\tenough\\ntake\\thierarchical\\n\\n'
echo run >> runs
echo page > report.html
"""


def folder_with(tmp_path: Path, build: str, demo: str = DEMO) -> Path:
    """A folder with the script, and a build and a demo that do what the arguments say."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/demo.sh", tmp_path / "tools")
    for name, text in {
        "tools/prerequisites.sh": "#!/bin/sh\necho checked\n",
        "make": f"#!/bin/sh\n{build}\n",
        ".venv/bin/pagewise": demo,
        "examples/a": "",
        ".venv/.built": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "tools/demo.sh"],
        cwd=folder,
        env={**os.environ, "MAKE": str(folder / "make")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_demo_prints_the_advice_and_hides_the_build(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "seq 1000")
    run = ran(folder)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert len(lines) <= LINES_MAX
    assert [line.split() for line in lines if line.startswith("  ")] == [
        ["evidence", "enough"],
        ["take", "hierarchical"],
    ]
    assert "build/demo.log" in lines[0] and "report.html" in lines[-1]
    assert (folder / "build/demo.log").read_text().startswith("checked\n1\n2\n")
    assert "flash\t3 s" in (folder / "build/demo.txt").read_text()


def test_a_second_run_replays_only_if_something_changed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "true")

    def runs() -> int:
        assert ran(folder).returncode == 0
        return len((folder / "runs").read_text().splitlines())

    # Clocks of file systems may give files of one moment the same time.
    for name in ("examples/a", "examples", ".venv/.built"):
        os.utime(folder / name, (0, 0))
    assert [runs(), runs()] == [1, 1]
    (folder / "report.html").unlink()
    assert runs() == 2
    later = (folder / "build/demo.txt").stat().st_mtime + 10
    os.utime(folder / "examples/a", (later, later))
    assert runs() == 3


def test_a_failed_build_shows_the_end_of_its_log(tmp_path: Path) -> None:
    run = ran(folder_with(tmp_path, "seq 1000; echo no compiler >&2; exit 2"))
    assert run.returncode == 1
    assert "the build failed; build/demo.log ends with:" in run.stderr
    assert run.stderr.endswith("1000\nno compiler\n")
    assert len((run.stdout + run.stderr).splitlines()) <= LINES_MAX


def test_a_failed_demo_shows_the_end_of_its_log(tmp_path: Path) -> None:
    run = ran(folder_with(tmp_path, "true", "#!/bin/sh\necho why >&2\nexit 3\n"))
    assert run.returncode == 1
    assert run.stderr.endswith("why\n") and not (tmp_path / "build/demo.txt").exists()
