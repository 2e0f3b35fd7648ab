"""Agent commands that cannot run a program exit with the status of `env`."""

import os
import subprocess
from pathlib import Path

import pytest
from lazy_programs import AGENT, NEEDED

pytestmark = NEEDED

RUNNERS = {
    "lazy": ["lazy"],
    "record": ["record", "--allocations", "-o", "recording.pgr"],
}


def status(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{folder / 'programs'}:{os.environ['PATH']}"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("./missing", 127),
        ("no-such-program-in-path", 127),
        ("./missing-interpreter", 127),
        ("./text", 126),
        ("text-in-path", 126),
        ("./programs", 126),
    ],
)
def test_a_program_that_cannot_be_run_gives_the_status_of_env(
    tmp_path: Path, runner: str, program: str, expected: int
) -> None:
    (tmp_path / "programs").mkdir()
    for path in ("text", "programs/text-in-path"):
        (tmp_path / path).write_text("no program")
    script = tmp_path / "missing-interpreter"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    before = sorted(tmp_path.iterdir())
    assert status(tmp_path, "env", "--", program).returncode == expected
    done = status(tmp_path, AGENT, *RUNNERS[runner], "--", program)
    assert (done.returncode, program in done.stderr) == (expected, True), done.stderr
    assert sorted(tmp_path.iterdir()) == before, "no file is left"
