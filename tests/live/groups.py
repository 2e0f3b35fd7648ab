"""Memory cgroups for tests: limited, and removed with all their processes at the end."""

import contextlib
import itertools
import os
import subprocess
import time
from pathlib import Path

import pytest

MIB = 1 << 20
HANGS_AFTER_S = 120
ROOTS = {1: Path("/sys/fs/cgroup/memory"), 2: Path("/sys/fs/cgroup")}
NUMBERS = itertools.count()


def entering(group: Path) -> list[str]:
    """The words before a command that make it run in the group from its first instruction on."""
    return ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]


class Group:
    """A memory cgroup with a limit, and the test's processes in it."""

    def __init__(self, limit_bytes: int) -> None:
        version = 1 if (ROOTS[1] / "cgroup.procs").exists() else 2
        self.folder = ROOTS[version] / f"pagewise-test-{os.getpid()}-{next(NUMBERS)}"
        self.limit = "memory.limit_in_bytes" if version == 1 else "memory.max"
        self.limit_bytes = limit_bytes
        self.started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Group":
        try:
            self.folder.mkdir()
            (self.folder / self.limit).write_text(str(self.limit_bytes))
        except OSError as error:
            # In a container, or the parent group does not enable the memory controller.
            if self.folder.exists():
                self.remove(self.folder)
            pytest.skip(f"memory cgroups cannot be created here: {error}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder.exists():
            self.end()
            self.remove(self.folder)

    def processes(self) -> list[int]:
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]

    def hold(self, size: int, adj: int) -> int:
        """Starts a process that holds this number of bytes, and waits until it does."""
        return self.holder(self.start(size, adj), size // 20 * 19)

    def grow(self, size: int, adj: int) -> int:
        """Starts a process that grows to this number of bytes if it lives that long."""
        return self.holder(self.start(size, adj), 0)

    def start(self, size: int, adj: int) -> int:
        # `tail` holds its input, because it cannot write it to `sleep`.
        script = (
            f'echo $$ > "{self.folder}/cgroup.procs"; echo {adj} > /proc/self/oom_score_adj; '
            f"head -c {size} /dev/zero | tail -c {size} | sleep 1000"
        )
        null = subprocess.DEVNULL
        shell = subprocess.Popen(["sh", "-c", script], stdin=null, stderr=null)
        self.started.append(shell)
        return shell.pid

    def holder(self, shell: int, size: int) -> int:
        """Waits until the `tail` of a shell holds this number of bytes, and returns its PID."""
        late = time.monotonic() + HANGS_AFTER_S
        while time.monotonic() < late:
            for process in self.processes():
                with contextlib.suppress(OSError, IndexError):
                    resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
                    status = Path(f"/proc/{process}/status").read_text()
                    is_tail = f"PPid:\t{shell}\n" in status and "Name:\ttail\n" in status
                    if is_tail and resident >= size:
                        return process
            time.sleep(0.001)
        raise TimeoutError(f"no process holds {size} bytes")

    def end(self) -> None:
        """Kills every process in the group, and waits for those that the test started."""
        for shell in self.started:
            shell.kill()  # it may not have joined the group yet
        late = time.monotonic() + HANGS_AFTER_S
        while self.processes() and time.monotonic() < late:
            for process in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, 9)
            for shell in self.started:
                shell.poll()  # reaps it, so that it leaves the group
            time.sleep(0.005)
        for shell in self.started:
            shell.wait(timeout=HANGS_AFTER_S)

    @staticmethod
    def remove(folder: Path) -> None:
        """Removes an empty group, as soon as the kernel permits it."""
        late = time.monotonic() + HANGS_AFTER_S
        while True:
            try:
                folder.rmdir()
                return
            except OSError:
                if time.monotonic() > late:
                    raise
            time.sleep(0.005)
