"""A burst that only the kernel can serve, after much was freed, in 200 MiB without swap.

programs/pressure.c in a memory cgroup of version 1. A program that keeps freed memory is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lazy.allocators import GLIBC, ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES
from lazy.running import Failed, start
from lazy.store import Figures

MIB = 1 << 20
LIMIT_MIB, FREED_MIB, BURST_MIB = 200, 150, 160
GROUP = Path(f"/sys/fs/cgroup/memory/pagewise-bench-{os.getpid()}")
ENTER = ["sh", "-c", f'echo $$ > {GROUP}/cgroup.procs && exec "$@"', "sh"]
ALL_SURVIVE = (GLIBC, "fast", "guarded", "faithful")
ROUNDS, PEER_ROUNDS = 100, 10


@contextmanager
def small_group() -> Iterator[None]:
    """The cgroup; memory and swap together have the same limit, so there is no swap."""
    GROUP.mkdir()
    try:
        for limit in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
            (GROUP / limit).write_text(str(LIMIT_MIB * MIB))
        yield
    finally:
        GROUP.rmdir()


def run_pressure(_: str, allocator: ComparedAllocator) -> Figures:
    """One run; being killed is a figure, not a failure."""
    (GROUP / "memory.force_empty").write_text("0")
    command = [str(BINARIES / "pressure"), str(FREED_MIB), str(BURST_MIB)]
    try:
        return {"has_survived": True, **start(allocator, command, before=ENTER)()}
    except Failed as failed:
        if failed.status != -signal.SIGKILL:
            raise
        return {"has_survived": False}


def rounds_of(name: str, rounds: int) -> int:
    """More rounds if every run must survive, and for the allocator without a pool beside them."""
    return rounds if name in ALL_SURVIVE else min(rounds, PEER_ROUNDS)


PART = Part(
    "pressure",
    ("pressure",),
    run_pressure,
    rounds=ROUNDS,
    rounds_of=rounds_of,
    place=small_group,
)
