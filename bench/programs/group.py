"""A private control group for each run: measures CPU time and memory, and kills what remains.

Control groups of version 1, controllers memory and cpuacct. There are two peaks. `peak_bytes` is
the anonymous memory of all processes, sampled every few milliseconds (rss of memory.stat, which
counts a page shared by fork once). `charged_peak_bytes` is the kernel's exact maximum, and includes
the page cache and kernel memory.
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
"""Groups of runs in progress."""


def absent() -> str | None:
    """Why this machine cannot have such groups, or None."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [
        str(root) for root in ROOTS.values() if not os.access(root / "cgroup.procs", os.W_OK)
    ]
    return f"needs control groups of version 1: no {missing[0]}" if missing else None


class Group:
    """The control groups of one run; their processes are killed and they are removed at the end."""

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
        """A command prefix that runs a command in the groups from its first instruction on."""
        lines = [f'echo $$ > "{folder}/cgroup.procs"' for folder in (self.memory, self.cpu)]
        return ["/bin/sh", "-c", " && ".join([*lines, 'exec "$@"']), "sh"]

    def processes(self) -> list[int]:
        """The running processes of the group."""
        return [int(line) for line in (self.memory / "cgroup.procs").read_text().split()]

    def sample(self) -> None:
        """Reads the anonymous memory, and keeps the maximum."""
        text = os.pread(self.statistics, 4096, 0)
        self.peak_bytes = max(self.peak_bytes, int(text.partition(b"\ntotal_rss ")[2].split()[0]))

    def charged_peak_bytes(self) -> int:
        """The maximum of all memory charged to the group."""
        return int((self.memory / "memory.max_usage_in_bytes").read_text())

    def cpu_s(self) -> float:
        """CPU time of all processes of the group."""
        return int((self.cpu / "cpuacct.usage").read_text()) / 1e9

    def end(self) -> None:
        """Kills the remaining processes and waits until they are gone."""
        late = time.monotonic() + END_S
        while (left := self.processes()) and time.monotonic() < late:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.005)


def remove(folder: Path) -> None:
    """Removes an empty group; retries while the kernel still uses it."""
    late = time.monotonic() + END_S
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > late:
                raise
            time.sleep(0.005)
