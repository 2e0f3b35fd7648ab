"""Core files of programs under the preload library."""

import os
import resource
import subprocess
from pathlib import Path

import pytest
from lazy_programs import MIB, NEEDED, compiled, loaded

PATTERN = Path("/proc/sys/kernel/core_pattern")
WHERE = PATTERN.read_text().strip() if PATTERN.exists() else "|"
pytestmark = [
    NEEDED,
    pytest.mark.skipif(
        WHERE.startswith(("|", "/")), reason=f"core files go to {WHERE}, not to the working folder"
    ),
]

ABORTED = r"""
#include <stdlib.h>
#include <string.h>
int main(void)
{
    for (int round = 0; round < 3; round++) {
        char *volatile data = malloc(24 << 20);
        memset(data, 1, 24 << 20);
        free(data);
    }
    char *volatile kept = malloc(40 << 20);
    memset(kept, 1, 40 << 20);
    strcpy(kept + (39 << 20), "the last words of this program");
    __asm__ volatile("" ::"r"(kept) : "memory");
    abort();
}
"""


def core_of(program: Path, folder: Path, environment: dict[str, str]) -> bytes:
    """The core file of the program, which ends by a signal."""
    folder.mkdir()
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    subprocess.run(
        [program],
        cwd=folder,
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited),
        timeout=300,
    )
    cores = list(folder.iterdir())
    if not cores:
        pytest.skip("this machine writes no core files")
    return cores[0].read_bytes()


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_core_files_hold_memory_in_use_and_little_else(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, mode: str
) -> None:
    program = compiled(ABORTED, tmp_path_factory.getbasetemp() / "aborted")
    plain = core_of(program, tmp_path / "plain", dict(os.environ))
    hasty = loaded(MODE=mode, DISCARD_AFTER="1ms", LAZY_AFTER="1ms", HELPER="off")
    served = core_of(program, tmp_path / "served", hasty)
    assert b"the last words of this program" in plain and b"the last words" in served
    # The core file may add freed memory and a quarter mapped ahead, but not a chunk of 1 GiB.
    assert len(served) < len(plain) + 48 * MIB
