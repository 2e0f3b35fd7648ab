"""Compiles and runs programs under the preload library."""

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import waiting

AGENT = Path(sys.executable).parent / "pagewise-agent"
LIBRARY = AGENT.parents[1] / "lib" / "libpagewise_lazy.so"
CC = shutil.which("cc")
GLIBC = platform.libc_ver()[0] == "glibc"
LIMITED = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
NEEDED = pytest.mark.skipif(
    CC is None or not LIBRARY.exists() or not GLIBC or LIMITED or os.sysconf("SC_PAGESIZE") != 4096,
    reason="needs cc, glibc, pages of 4 KiB, unlimited address space and the library: make build",
)
MIB = 1 << 20
HUNG_S = 300


def loaded(**knobs: str) -> dict[str, str]:
    """The environment that loads the library with these knobs."""
    own = {f"PAGEWISE_LAZY_{name}": value for name, value in knobs.items()}
    return {**os.environ, "LD_PRELOAD": str(LIBRARY), **own}


def compiled(source: str, program: Path, *options: str) -> Path:
    """Compiles a C program, unless it exists, and returns its path."""
    if not program.exists():
        command = [str(CC), "-O1", "-x", "c", "-", "-o", str(program), "-pthread", *options]
        built = subprocess.run(
            command, input=source, text=True, capture_output=True, timeout=HUNG_S
        )
        if built.returncode != 0:
            pytest.skip(f"cc {' '.join(options)}: {built.stderr.strip()[-200:]}")
    return program


def status(program: Path, *arguments: str, **knobs: str) -> tuple[int, str]:
    """Runs a program under the library; returns its exit status and its standard error."""
    environment = loaded(VERBOSE="on", **knobs)
    command = [program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HUNG_S)
    return done.returncode, done.stderr


@contextmanager
def running(
    command: list[str | Path], environment: dict[str, str], **more: Any
) -> Iterator[subprocess.Popen[str]]:
    """A program that writes lines, and ends when it reads a line; `more` goes to `Popen`."""
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "text": True, **more}
    with (
        waiting.running(command, env=environment, **options) as child,
        waiting.killed_after(HUNG_S, child),
    ):
        yield child
        child.communicate("\n", timeout=HUNG_S)


HOLDER = """
blocks = [bytearray(1 << 20) for _ in range(20)]
del blocks
print(flush=True)
input()
"""


@contextmanager
def holder(**knobs: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has freed 20 MiB and waits."""
    command: list[str | Path] = [AGENT, "lazy", "--", sys.executable, "-c", HOLDER]
    with running(command, loaded(**knobs)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until the condition holds; fails after `HUNG_S`, which only a hanging program takes."""
    hung = time.monotonic() + HUNG_S
    while not is_so() and time.monotonic() < hung:
        time.sleep(0.02)
    assert is_so()


def counters(process: int) -> dict[str, Any]:
    """The library's counters in a running program."""
    command = [AGENT, "lazy", "--stats", str(process), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)
    if done.returncode == 3 and "denied" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report
