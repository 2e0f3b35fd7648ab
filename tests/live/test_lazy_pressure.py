"""Freed memory that is still mapped is nobody's death: a burst in a small memory cgroup.

Needs root and a memory cgroup of version 1; says what is missing where it is.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

AGENT = Path(sys.executable).parent / "pagewise-agent"
LIBRARY = AGENT.parents[1] / "lib" / "libpagewise_lazy.so"
GROUPS = Path("/sys/fs/cgroup/memory")
CC = shutil.which("cc")
MIB = 1 << 20
RUNS = 5


def refusal() -> str | None:
    if os.geteuid() != 0 or not os.access(GROUPS, os.W_OK):
        return "needs root and a memory cgroup of version 1"
    if CC is None or not LIBRARY.exists():
        return "needs cc and the preload library: make build"
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        return "needs a machine without swap, which would take the memory"
    return None


pytestmark = pytest.mark.skipif(refusal() is not None, reason=str(refusal()))

# Frees 150 MiB in blocks, then asks for 160 MiB that the library does not serve.
BURST = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *blocks[150];
int main(void)
{
    for (int at = 0; at < 150; at++)
        memset(blocks[at] = malloc(1 << 20), 7, 1 << 20);
    for (int at = 0; at < 150; at++)
        free(blocks[at]);
    for (int at = 0; at < 40; at++) {
        void *data = mmap(0, 4 << 20, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (data == MAP_FAILED)
            return 1;
        memset(data, 1, 4 << 20);
    }
    char *zeros = calloc(1, 4 << 20);
    return zeros == NULL || zeros[0] != 0 || memcmp(zeros, zeros + 1, (4 << 20) - 1) != 0;
}
"""


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("burst") / "burst"
    command = [str(CC), "-O1", "-fno-builtin-malloc", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=BURST, text=True, check=True)
    return program


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory cgroup of 200 MiB, gone afterwards."""
    group = GROUPS / f"pagewise-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(200 * MIB))
        yield group
    finally:
        group.rmdir()


def ends(program: Path, group: Path, **environment: str) -> int:
    """The status of the program, run in the group from its first instruction on."""
    enter = f'echo $$ > "{group}/cgroup.procs" && exec env "$@"'
    variables = [f"{name}={value}" for name, value in environment.items()]
    return subprocess.run(["sh", "-c", enter, "sh", *variables, program]).returncode


@pytest.mark.parametrize("setting", ["MODE=fast", "MODE=guarded", "PROFILE=faithful"])
def test_a_burst_after_a_free_survives(burst: Path, group: Path, setting: str) -> None:
    name, value = setting.split("=")
    knobs = {"LD_PRELOAD": str(LIBRARY), f"PAGEWISE_LAZY_{name}": value}
    assert [ends(burst, group, **knobs) for _ in range(RUNS)] == [0] * RUNS


def test_an_allocator_that_keeps_what_is_freed_is_killed(burst: Path, group: Path) -> None:
    keeps = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(512 * MIB)}
    assert ends(burst, group, **keeps) == -9
    assert ends(burst, group) == 0
