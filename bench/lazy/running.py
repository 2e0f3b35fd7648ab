"""Starts a program under an allocator and reads the figures that it prints."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO

from lazy.allocators import ComparedAllocator
from lazy.backing import back_memory
from lazy.store import Figures

LIMIT_S = 240


class Failed(Exception):
    """A program ended without its figures; ``status`` is negative after a signal."""

    def __init__(self, status: int, last_line: str) -> None:
        super().__init__(f"status {status}: {last_line}" if last_line else f"status {status}")
        self.status = status


Finish = Callable[[], Figures]
"""Waits for the end (idle memory), and returns all figures."""


def start(
    allocator: ComparedAllocator,
    command: Sequence[str],
    variables: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> Finish:
    """Runs a program that prints a JSON object after its work, and may print another when idle.

    Returns after the first object, so that the next program can work while this one idles. The
    words of ``before`` run first, without the allocator's prefix.
    """
    back_memory()
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by finish
    with allocator.machine():
        process = subprocess.Popen(
            ["timeout", "--foreground", str(LIMIT_S), *before, *allocator.prefix, *command],
            env=allocator.environment() | dict(variables or {}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout
        first = process.stdout.readline()
    return partial(finish, process, first, errors)


def finish(process: subprocess.Popen[str], first: str, errors: IO[str]) -> Figures:
    """The figures of all lines; raises Failed."""
    assert process.stdout
    rest = process.stdout.read()
    status = process.wait()
    errors.seek(0)
    last = (errors.read().strip().splitlines() or [""])[-1]
    errors.close()
    if status != 0:
        raise Failed(status, last)
    figures: Figures = {}
    for line in (first + rest).splitlines():
        figures |= json.loads(line)
    return figures
