"""Freed memory that is still mapped kills no process: a burst in a small memory cgroup.

Needs root and a memory cgroup of version 1; a skipped test says what is missing.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from groups import MIB, ROOTS, Group, entering
from waiting import killed_after, running

AGENT = Path(sys.executable).parent / "pagewise-agent"
LIBRARY = AGENT.parents[1] / "lib" / "libpagewise_lazy.so"
CC = shutil.which("cc")
RUNS = 5
HUNG_S = 120


def refusal() -> str | None:
    if os.geteuid() != 0 or not os.access(ROOTS[1], os.W_OK):
        return "needs root and a memory cgroup of version 1"
    if CC is None or not LIBRARY.exists():
        return "needs cc and the preload library: make build"
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        return "needs a machine without swap, which would take the memory"
    return None


pytestmark = pytest.mark.skipif(refusal() is not None, reason=str(refusal()))

# Frees 150 MiB in blocks, then maps 160 MiB that the library does not serve.
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
    subprocess.run(command, input=BURST, text=True, check=True, timeout=HUNG_S)
    return program


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory cgroup of 200 MiB, removed afterwards."""
    with Group(200 * MIB) as group:
        yield group.folder


def ends(program: Path, group: Path, **environment: str) -> int:
    """Runs the program in the group from its first instruction on; returns its status."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    command = [*entering(group), "env", *variables, str(program)]
    return subprocess.run(command, timeout=HUNG_S).returncode


@pytest.mark.parametrize("setting", ["MODE=fast", "MODE=guarded", "PROFILE=faithful"])
def test_a_burst_after_a_free_survives(burst: Path, group: Path, setting: str) -> None:
    name, value = setting.split("=")
    knobs = {"LD_PRELOAD": str(LIBRARY), f"PAGEWISE_LAZY_{name}": value}
    assert [ends(burst, group, **knobs) for _ in range(RUNS)] == [0] * RUNS


def test_the_burst_is_killed_with_an_allocator_that_keeps_freed_memory(
    burst: Path, group: Path
) -> None:
    keeps = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(512 * MIB)}
    assert ends(burst, group, **keeps) == -9
    assert ends(burst, group) == 0


# Frees 40 MiB and waits.
FREEING = """
blocks = [bytearray(1 << 20) for _ in range(40)]
del blocks
print(flush=True)
input()
"""


@contextmanager
def freeing(*before: str) -> Iterator[subprocess.Popen[str]]:
    """A program with the library, which frees no memory because of its age."""
    knobs = {"LD_PRELOAD": str(LIBRARY)}
    knobs |= {f"PAGEWISE_LAZY_{name}_AFTER": "1000s" for name in ("LAZY", "DISCARD")}
    command = [*before, "env", *(f"{name}={value}" for name, value in knobs.items())]
    pipe = subprocess.PIPE
    words = [*command, sys.executable, "-c", FREEING]
    with (
        running(words, stdin=pipe, stdout=pipe, text=True) as child,
        killed_after(HUNG_S, child),
    ):
        child.stdout.readline()
        yield child
        child.communicate("\n", timeout=HUNG_S)


def held(process: int) -> tuple[int, int]:
    """Bytes that the library holds hot, and lazily freed."""
    command = [AGENT, "lazy", "--stats", str(process), "--json"]
    report = json.loads(subprocess.check_output(command, timeout=HUNG_S))
    return report["hot_pages"] * 4096, report["lazy_pages"] * 4096


def test_the_library_holds_little_in_a_small_group(group: Path) -> None:
    with freeing(*entering(group)) as child:
        hot, lazy = held(child.pid)
    most = 200 * MIB // 16
    assert 0 < hot <= most and lazy <= most


def files_of_helper(process: int) -> list[str]:
    """The open files of the library's thread."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    helpers = [task for task in tasks if (task / "comm").read_text() == "pagewise-lazy\n"]
    links = []
    for file in (file for task in helpers for file in (task / "fd").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(file))
    return links


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until it is so; fails after a time that only a hanging program needs."""
    hung = time.monotonic() + HUNG_S
    while not is_so() and time.monotonic() < hung:
        time.sleep(0.02)
    assert is_so()


def test_a_group_that_is_short_gets_the_held_memory_back(group: Path) -> None:
    with freeing() as other, freeing(*entering(group)) as child:
        wait_until(lambda: "anon_inode:[eventfd]" in files_of_helper(child.pid))
        assert "anon_inode:[eventfd]" not in files_of_helper(other.pid)
        assert held(child.pid)[0] > 0
        # The kernel finds nothing to reclaim, and reports pressure.
        (group / "memory.force_empty").write_text("0")
        wait_until(lambda: held(child.pid) == (0, 0))
        if held(other.pid) == (0, 0):
            pytest.skip("the whole machine is short of memory, so both programs freed it")
