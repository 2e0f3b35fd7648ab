"""Memory stressors of stress-ng under the preload library; each checks what it reads."""

import shutil
import subprocess
from pathlib import Path

import pytest
from lazy_programs import HUNG_S, NEEDED, loaded

STRESS = shutil.which("stress-ng")
# With a bound on memory for stressors that would take a share of the machine's.
STRESSORS = {
    "malloc": ["--malloc-bytes", "64M"],
    "mmap": ["--mmap-bytes", "64M"],
    "mmapfixed": [],
    "mmapmany": [],
    "mremap": ["--mremap-bytes", "16M"],
    "memcpy": [],
    "madvise": [],
    "mprotect": [],
    "mlock": [],
    "munmap": [],
    "shm": ["--shm-bytes", "16M"],
    "vm": ["--vm-bytes", "64M"],
}
SECONDS = 5
pytestmark = [
    NEEDED,
    pytest.mark.slow,
    pytest.mark.skipif(STRESS is None, reason="needs stress-ng: apt-get install stress-ng"),
]


@pytest.mark.parametrize("mode", ["fast", "guarded"])
def test_stressors_find_what_they_wrote(mode: str, tmp_path: Path) -> None:
    """Runs all stressors at the same time, in a process each; a failure names its stressor."""
    command = [str(STRESS), "--timeout", str(SECONDS), "--verify", "--oom-avoid"]
    command += ["--temp-path", str(tmp_path)]
    for stressor, bounds in STRESSORS.items():
        command += [f"--{stressor}", "1", *bounds]

    def run(environment: dict[str, str] | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=HUNG_S
        )

    done = run(loaded(MODE=mode))
    diagnostics = done.stdout + done.stderr
    if done.returncode != 0 and run(None).returncode != 0:
        pytest.skip(f"stress-ng fails here without the library, too: {diagnostics[-300:]}")
    assert done.returncode == 0, diagnostics[-2000:]
