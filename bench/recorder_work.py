"""Work for recorders to record; the kernel or the work itself counts its events, too."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from touches import counters

MEMORY = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20
HANGS_AFTER_S = 120
STORM_MIB = 64
FILE_MIB = 16

# Starts children in turn: kills every second one, and lets the others run a program and exit.
# Writes both counts to the file of the first argument.
SPAWNER = """
import mmap, os, signal, struct, sys
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 16)
killed = ended = 0
while True:
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    killed += 1
    child = os.fork()
    if child == 0:
        os.execv("/bin/true", ["true"])
    os.waitpid(child, 0)
    ended += 1
    shared[:] = struct.pack("<QQ", killed, ended)
"""

# Reads a file in a loop, each time from disk, and counts the pages.
READER = """
import mmap, os, struct, sys
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 8)
file = os.open(sys.argv[2], os.O_RDONLY)
size = os.fstat(file).st_size
pages = 0
while True:
    for place in range(0, size, 1 << 20):
        pages += len(os.pread(file, 1 << 20, place)) // 4096
        shared[:] = struct.pack("<Q", pages)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
"""

ALLOCATOR = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
int main(int count, char **words) {
    int file = open(words[1], O_RDWR);
    volatile uint64_t *done = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct timespec pause = {0, 100000};
    for (int n = atoi(words[2]); n > 0; n--) {
        volatile char *block = malloc(100 << 10);
        block[50 << 10] = 1;
        free((void *)block);
        (*done)++;
        if (n % 10 == 0)
            nanosleep(&pause, 0);
    }
    return count > 9;
}
"""

Count = Callable[[], dict[str, int]]


@dataclass
class Work:
    """Running programs, and counts of their events by the recorder's names."""

    count: Count
    group: Path
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    series: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Samples the counts many times a second."""
        while not self.is_over.wait(0.01):
            self.series.append((time.monotonic(), self.count()))

    def at(self, when: float) -> dict[str, int]:
        """The counts of the last sample before this time, or else of the first sample."""
        before = [counts for sampled, counts in list(self.series) if sampled <= when]
        return before[-1] if before else self.series[0][1]


@contextlib.contextmanager
def swapping(folder: Path) -> Iterator[Work]:
    """A program that only swaps, in a group limited to half of its memory."""

    def count() -> dict[str, int]:
        now = counters()
        return {"swap_write": now["pswpout"], "swap_read": now["pswpin"]}

    with groups(folder) as group, worked(Work(count, group)) as work:
        inner = group / "storm"
        inner.mkdir()
        (inner / "memory.limit_in_bytes").write_text(str(STORM_MIB // 2 * MIB))
        program = folder / "storm"
        source = Path(__file__).with_name("storm.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True, timeout=HANGS_AFTER_S)
        storm = started(work, inner, [str(program), str(STORM_MIB), "4096"], stdin=subprocess.PIPE)
        feeder = threading.Thread(target=feed, args=(storm, work.is_over), daemon=True)
        feeder.start()
        yield work


def feed(storm: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    """Requests more work from the program until the storm is over."""
    assert storm.stdin is not None
    with contextlib.suppress(OSError):
        while not is_over.is_set():
            # The pipe is large enough that the program never waits.
            storm.stdin.write(b"\n")
            storm.stdin.flush()


@contextlib.contextmanager
def spawning(folder: Path) -> Iterator[Work]:
    """A program whose children are killed or end."""
    with shared(folder / "spawned", 2) as numbers:

        def count() -> dict[str, int]:
            killed, ended = numbers()
            return {"kill": killed, "fork": killed + ended, "exit": killed + ended, "exec": ended}

        with groups(folder) as group, worked(Work(count, group)) as work:
            inner = group / "spawner"
            inner.mkdir()
            started(work, inner, [sys.executable, "-ISc", SPAWNER, str(folder / "spawned")])
            yield work


@contextlib.contextmanager
def reading(folder: Path, work: Work) -> Iterator[Work]:
    """The work, and also a program that reads a file from disk."""
    data = folder / "data"
    data.write_bytes(os.urandom(FILE_MIB * MIB))
    with data.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with shared(folder / "read", 1) as read:
        others = work.count
        work.count = lambda: {**others(), "file_added": read()[0]}
        inner = work.group / "reader"
        inner.mkdir()
        started(work, inner, [sys.executable, "-ISc", READER, str(folder / "read"), str(data)])
        yield work


@contextlib.contextmanager
def shared(path: Path, count: int) -> Iterator[Callable[[], tuple[int, ...]]]:
    """Numbers that another program writes to a file."""
    path.write_bytes(bytes(8 * count))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8 * count) as memory:
        yield lambda: struct.unpack(f"<{count}Q", memory[:])


@contextlib.contextmanager
def worked(work: Work) -> Iterator[Work]:
    """Samples the counts of work, and ends its programs afterwards."""
    work.series.append((time.monotonic(), work.count()))
    watcher = threading.Thread(target=work.watch, daemon=True)
    watcher.start()
    try:
        yield work
    finally:
        work.is_over.set()
        watcher.join()
        stop(work)


def stop(work: Work) -> None:
    """Kills the programs of the work, so that no more events happen."""
    for program in work.programs:
        program.kill()
        program.wait(HANGS_AFTER_S)
    work.programs.clear()


def started(
    work: Work, group: Path, words: list[str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Starts a program of the work, in the group from its first instruction on."""
    script = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
    program = subprocess.Popen(
        ["sh", "-c", script, "sh", *words], stdin=stdin, stdout=subprocess.DEVNULL
    )
    work.programs.append(program)
    return program


@contextlib.contextmanager
def groups(folder: Path) -> Iterator[Path]:
    """A memory cgroup; afterwards it, the groups in it and all their processes are removed."""
    group = MEMORY / f"pagewise-record-{os.getpid()}-{folder.name}"
    group.mkdir()
    try:
        yield group
    finally:
        for inner in [*group.glob("*/"), group]:
            emptied(inner)


def emptied(group: Path) -> None:
    """Kills the processes of a group and removes it."""
    end = time.monotonic() + HANGS_AFTER_S
    while group.exists() and time.monotonic() < end:
        for process in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), 9)
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.01)


def programs_of(recorder: int) -> set[int]:
    """Numbers of the BPF programs that a recorder has open."""
    lines: list[str] = []
    for description in Path(f"/proc/{recorder}/fdinfo").glob("*"):
        with contextlib.suppress(OSError):
            lines += description.read_text().splitlines()
    return {int(line.split()[1]) for line in lines if line.startswith("prog_id:")}


def is_loaded(program: int) -> bool:
    """Whether the kernel has a BPF program of this number (BPF_PROG_GET_FD_BY_ID)."""
    system_call = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    attributes = ctypes.create_string_buffer(struct.pack("<I12x", program), 16)
    file = ctypes.CDLL(None).syscall(system_call, 13, attributes, 16)
    if file >= 0:
        os.close(file)
    return bool(file >= 0)
