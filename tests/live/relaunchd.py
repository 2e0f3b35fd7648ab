"""relaunchd as a user runs it on applications of the test's own, and the page map of these."""

import contextlib
import ctypes
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent import AGENT
from groups import MIB, Group
from waiting import line_of

HANGS_AFTER_S = 120
PAGE = os.sysconf("SC_PAGE_SIZE")
LIBC = ctypes.CDLL(None, use_errno=True)
PROCESS_MADVISE = 440
PAGE_OUT = 21
SWAP_FLAG_PREFER = 0x8000
FREEZERS = {1: Path("/sys/fs/cgroup/freezer"), 2: Path("/sys/fs/cgroup/unified")}

# Holds pages of random bytes. A line `A B STEP` on its input reads every STEP-th page from A to B,
# and it answers with the sum of their words; `order A B C` reads blocks of 64 pages in this order.
# `exec` replaces the program by itself, `maps N` makes
# N mappings of a page, each with a page between.
PROGRAM = """
import ctypes, mmap, os, random, sys
pages = int(sys.argv[1])
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
numbers = random.Random(int(sys.argv[2]))
for page in range(pages):
    memory[page * 4096 : page * 4096 + 1024] = numbers.randbytes(1024)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
more = []
print("ready", address, flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "exec":
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if words[0] == "maps":
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        for number in range(int(words[1])):
            # Every other page without access, so that the kernel merges no two mappings.
            start = libc.mmap(None, 8192, 3, 0x22, -1, 0)
            ctypes.memset(start, 7, 4096)
            libc.mprotect(ctypes.c_void_p(start + 4096), 4096, 0)
            more.append(start)
        print("mapped", len(more), flush=True)
        continue
    if words[0] == "order":
        for block in map(int, words[1:]):
            for page in range(block * 64, block * 64 + 64):
                memory[page * 4096]
        print("ordered", flush=True)
        continue
    first, end, step = map(int, words)
    words = (memory[page * 4096 : page * 4096 + 8] for page in range(first, end, step))
    total = sum(int.from_bytes(word, "little") for word in words)
    total += sum(ctypes.string_at(start, 1)[0] for start in more)
    print("sum", total, flush=True)
"""


class Application:
    """A program in a memory cgroup and in a group that can be frozen."""

    def __init__(self, memory: Group, freezer: Path, pages: int, seed: int = 1) -> None:
        self.freezer = freezer
        self.pages = pages
        freezer.mkdir()
        script = (
            'for group in "$1" "$2"; do echo $$ > "$group/cgroup.procs"; done; shift 2; exec "$@"'
        )
        groups = [str(memory.folder), str(freezer)]
        python = [os.path.realpath(sys.executable), "-c", PROGRAM, str(pages), str(seed)]
        self.process = subprocess.Popen(
            ["sh", "-c", script, "sh", *groups, *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.started()

    def started(self) -> int:
        """Waits until the program has its pages; returns their address."""
        word, address = line_of(self.process.stdout, HANGS_AFTER_S).split()
        assert word == "ready"
        return int(address) // PAGE

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        return line_of(self.process.stdout, HANGS_AFTER_S).strip()

    def visit(self, first: int, end: int, step: int = 1) -> str:
        """Has it read pages, and returns the sum of what they hold."""
        self.tell(f"{first} {end} {step}")
        return self.answer()

    def visit_in_order(self, blocks: list[int]) -> None:
        """Has it read blocks of 64 pages, one after another."""
        self.tell(" ".join(map(str, ["order", *blocks])))
        assert self.answer() == "ordered"

    def anonymous(self) -> tuple[set[int], set[int]]:
        """The anonymous pages in swap, and the mapped ones, by the page map."""
        swapped, mapped = set(), set()
        maps = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        with open(f"/proc/{self.process.pid}/pagemap", "rb", buffering=0) as pagemap:
            for line in maps:
                first, end = (int(word, 16) // PAGE for word in line.split()[0].split("-"))
                if "[vsyscall]" in line:
                    continue
                pagemap.seek(first * 8)
                entries = struct.iter_unpack("<Q", pagemap.read((end - first) * 8))
                for page, (entry,) in enumerate(entries, first):
                    if entry >> 62 & 1:
                        swapped.add(page)
                    elif entry >> 63 & 1 and not entry >> 61 & 1:
                        mapped.add(page)
        return swapped, mapped

    def swapped(self) -> int:
        """How many of the pages that it holds are in swap."""
        own = range(self.address, self.address + self.pages)
        return sum(page in own for page in self.anonymous()[0])

    def page_out(self, pages: int | None = None) -> None:
        """Moves its pages, or the first of them, to swap."""
        pages = pages or self.pages
        handle = os.pidfd_open(self.process.pid)
        range_ = (ctypes.c_size_t * 2)(self.address * PAGE, pages * PAGE)
        late = time.monotonic() + HANGS_AFTER_S
        while self.swapped() < pages and time.monotonic() < late:
            assert LIBC.syscall(PROCESS_MADVISE, handle, range_, 1, PAGE_OUT, 0) > 0
        os.close(handle)

    def page_out_all(self) -> None:
        """Moves every anonymous page to swap that the kernel lets go."""
        handle = os.pidfd_open(self.process.pid)
        for page in sorted(self.anonymous()[1]):
            range_ = (ctypes.c_size_t * 2)(page * PAGE, PAGE)
            LIBC.syscall(PROCESS_MADVISE, handle, range_, 1, PAGE_OUT, 0)
        os.close(handle)

    def major_faults(self) -> int:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[9])

    def is_frozen(self) -> bool:
        if (self.freezer / "freezer.state").exists():
            return (self.freezer / "freezer.state").read_text() == "FROZEN\n"
        return "frozen 1" in (self.freezer / "cgroup.events").read_text()

    def set_frozen(self, is_frozen: bool) -> None:
        """Freezes or thaws it as another program would."""
        if (self.freezer / "freezer.state").exists():
            state = "FROZEN" if is_frozen else "THAWED"
            (self.freezer / "freezer.state").write_text(state)
        else:
            (self.freezer / "cgroup.freeze").write_text(str(int(is_frozen)))

    def end(self) -> None:
        self.process.kill()
        if self.freezer.exists():
            self.set_frozen(False)
        self.process.wait(timeout=HANGS_AFTER_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if self.freezer.exists():
            Group.remove(self.freezer)


class Relaunchd:
    """A running relaunchd and its log. At the end of the ``with`` block it is stopped."""

    def __init__(
        self,
        folder: Path,
        applications: dict[str, Path],
        more: str = "",
        through: tuple[str, ...] = (),
    ) -> None:
        self.through = through
        self.socket = folder / "control.sock"
        self.statistics = folder / "statistics.sock"
        self.metrics = folder / "metrics.sock"
        self.settings = folder / "relaunchd.toml"
        sockets = "".join(
            f'{path.stem} = "{path}"\n' for path in (self.socket, self.statistics, self.metrics)
        )
        apps = "".join(
            f'[[app]]\nname = "{name}"\ncgroup = "{group}"\n'
            for name, group in applications.items()
        )
        self.settings.write_text(f"{more}\n{apps}[sockets]\n{sockets}")
        self.lines: list[str] = []

    def __enter__(self) -> "Relaunchd":
        self.process = subprocess.Popen(
            [*self.through, AGENT, "relaunchd", "--config", self.settings, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.until(lambda: self.events("start"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=HANGS_AFTER_S)
        finally:
            self.process.kill()
        self.reader.join(timeout=HANGS_AFTER_S)
        assert self.process.stdout is not None
        self.output = self.process.stdout.read()

    def read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def events(self, event: str) -> list[dict[str, str]]:
        """The log lines of an event, each as its pairs of key and value."""
        lines = [line for line in self.lines if line.startswith(f"event={event} ")]
        return [
            dict(word.split("=", 1) for word in line.split() if "=" in word) | {"line": line}
            for line in lines
        ]

    def event(self, event: str, number: int) -> dict[str, str]:
        """The log line with this number, from 0, of an event. It may come after the answer."""
        self.until(lambda: len(self.events(event)) > number)
        return self.events(event)[number]

    def until(self, is_done: Callable[[], object]) -> None:
        late = time.monotonic() + HANGS_AFTER_S
        while not is_done():
            assert self.process.poll() is None, f"relaunchd has ended: {self.lines}"
            assert time.monotonic() < late, f"relaunchd hangs: {self.lines}"
            time.sleep(0.005)

    def asked(self, what: str, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [AGENT, "relaunchd", what, name, "--socket", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)

    def do(self, what: str, name: str) -> dict[str, object]:
        done = self.asked(what, name, "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        return answer


@contextlib.contextmanager
def swap_file(folder: Path, size: int) -> Iterator[Path]:
    """A swap area that the kernel prefers to all others, in a file of its own."""
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    path.chmod(0o600)
    subprocess.run(["mkswap", "-q", path], check=True, timeout=HANGS_AFTER_S)
    if LIBC.swapon(str(path).encode(), SWAP_FLAG_PREFER | 32767) != 0:
        pytest.skip(f"no swap area can be added here: {os.strerror(ctypes.get_errno())}")
    try:
        yield path
    finally:
        assert LIBC.swapoff(str(path).encode()) == 0, os.strerror(ctypes.get_errno())
        path.unlink()


def freezer(version: int) -> Path:
    """A folder for a group of this version that can be frozen; it does not exist yet."""
    root = FREEZERS[version]
    if not (root / "cgroup.procs").exists():
        pytest.skip(f"no hierarchy of version {version} with a freezer at {root}")
    return root / f"pagewise-test-{os.getpid()}-{time.monotonic_ns()}"


LIMIT = 600 * MIB
