"""A private group of processes for each run: its CPU time, its memory and its end.

Control groups of version 1, controllers memory and cpuacct. Two peaks are read. `anonymous` is
sampled every few milliseconds: the memory of all processes that belongs to no file (rss of
memory.stat, which counts a page shared by fork once). `charged` is exact, as the kernel keeps it,
and counts files and the kernel's own memory for the processes, too.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

ROOTS = {name: Path("/sys/fs/cgroup") / name for name in ("memory", "cpuacct")}
NUMBERS = itertools.count()
END_S = 30
OPEN: set[Group] = set()
"""Groups of runs that have not ended."""


def absent() -> str | None:
    """Why there can be no such groups here."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [
        str(root) for root in ROOTS.values() if not os.access(root / "cgroup.procs", os.W_OK)
    ]
    return f"needs control groups of version 1: no {missing[0]}" if missing else None


class Group:
    """The groups of one run; empty and removed at the end."""

    def __init__(self, limit_bytes: int | None, has_swap: bool) -> None:
        name = f"pagewise-programs-{os.getpid()}-{next(NUMBERS)}"
        self.memory, self.cpu = (root / name for root in ROOTS.values())
        self.limit_bytes, self.has_swap = limit_bytes, has_swap
        self.peak_bytes = 0

    def __enter__(self) -> Group:
        self.memory.mkdir()
        self.cpu.mkdir()
        if self.limit_bytes is not None:
            (self.memory / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
            if not self.has_swap:
                (self.memory / "memory.memsw.limit_in_bytes").write_text(str(self.limit_bytes))
        self.statistics = os.open(self.memory / "memory.stat", os.O_RDONLY)
        OPEN.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        OPEN.discard(self)
        os.close(self.statistics)
        self.end()
        for folder in (self.memory, self.cpu):
            remove(folder)

    def entering(self) -> list[str]:
        """Words before a command that is to run in the groups from its first instruction on."""
        lines = [f'echo $$ > "{folder}/cgroup.procs"' for folder in (self.memory, self.cpu)]
        return ["/bin/sh", "-c", " && ".join([*lines, 'exec "$@"']), "sh"]

    def processes(self) -> list[int]:
        """Those that are in the group and have not ended."""
        return [int(line) for line in (self.memory / "cgroup.procs").read_text().split()]

    def sample(self) -> None:
        """Looks at the anonymous memory, and keeps the most."""
        text = os.pread(self.statistics, 4096, 0)
        self.peak_bytes = max(self.peak_bytes, int(text.partition(b"\ntotal_rss ")[2].split()[0]))

    def charged_peak_bytes(self) -> int:
        """The most memory of any kind that the group was charged for."""
        return int((self.memory / "memory.max_usage_in_bytes").read_text())

    def cpu_s(self) -> float:
        """CPU time of everything that ran in the group."""
        return int((self.cpu / "cpuacct.usage").read_text()) / 1e9

    def end(self) -> None:
        """Kills what is left and waits until it is gone."""
        late = time.monotonic() + END_S
        while (left := self.processes()) and time.monotonic() < late:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.005)


def remove(folder: Path) -> None:
    """Removes an empty group, once the kernel lets go of it."""
    late = time.monotonic() + END_S
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > late:
                raise
            time.sleep(0.005)
