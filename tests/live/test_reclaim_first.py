"""Memory that is taken from a dying process is private memory: what it shares with files and peers
comes out whole. Killed by `killd` without grace, so that its memory is taken at once.

Needs root and memory cgroups; says what is missing where it is.
"""

import contextlib
import hashlib
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import HANGS_AFTER_S, MIB, Group, entering
from waiting import line_of

# Many more by hand: PAGEWISE_KILLS=1000 takes minutes.
KILLS = int(os.environ.get("PAGEWISE_KILLS", "50"))
WARNINGS = ("WARNING:", "BUG:", "Bad page", "Oops")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")

pytestmark = pytest.mark.skipif(
    refusal("memory-cgroup", "process-mrelease") is not None,
    reason=str(refusal("memory-cgroup", "process-mrelease")),
)

SETTINGS = """\
policy = "largest"
grace_ms = 0
[options]
memory_percent = 40
"""

# Writes a file by a mapping without syncing it and memory that a peer has too, locks memory, takes
# a huge page, says "ready", then grows beyond the killer's threshold of 60 MiB and waits below the
# limit of the group: however late the killer looks, the kernel's own does not come first.
VICTIM = """
import ctypes, mmap, os, sys, time
path, shared, seed, with_huge_page = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
content = bytes((seed * 7 + at) % 251 for at in range(4096)) * 512
with open(path, "w+b") as file:
    file.truncate(len(content))
    mapped = mmap.mmap(file.fileno(), len(content))
mapped[:] = content
peer = mmap.mmap(shared, len(content))
peer[:] = content
locked = mmap.mmap(-1, 1 << 20)
locked[:] = content[: 1 << 20]
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(locked)))
assert ctypes.CDLL(None).mlock(address, ctypes.c_size_t(1 << 20)) == 0
if with_huge_page == "yes":
    huge = mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
    huge[:] = content
print("ready", flush=True)
kept = [bytearray(b"x" * (1 << 20)) for _ in range(70)]
time.sleep(1000)
"""


def content(seed: int) -> bytes:
    return bytes((seed * 7 + at) % 251 for at in range(4096)) * 512


def kernel_warnings() -> list[str]:
    """What the kernel has said against itself so far; nothing where it may not be read."""
    read = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=HANGS_AFTER_S)
    return [line for line in read.stdout.splitlines() if any(word in line for word in WARNINGS)]


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(100 * MIB) as group:
        yield group


@pytest.fixture
def huge_page() -> Iterator[str]:
    """Whether a huge page could be had; the machine's number of them is as before afterwards."""
    before = HUGE_PAGES.read_text() if HUGE_PAGES.exists() else ""
    try:
        if before:
            with contextlib.suppress(OSError):
                HUGE_PAGES.write_text(str(int(before) + 1))
        yield "yes" if before and int(HUGE_PAGES.read_text()) > int(before) else "no"
    finally:
        if before:
            with contextlib.suppress(OSError):
                HUGE_PAGES.write_text(before)


@pytest.fixture
def killer(group: Group, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    path = tmp_path / "killd.toml"
    path.write_text(SETTINGS)
    command = [AGENT, "killd", "--cgroup", group.folder, "--config", path]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=HANGS_AFTER_S)
        finally:
            process.kill()


def started(group: Group, path: Path, shared: int, seed: int, huge: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", VICTIM, str(path), str(shared), str(seed), huge]
    command = [*entering(group.folder), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[shared])


def test_what_a_victim_shares_comes_out_whole(
    group: Group, killer: "subprocess.Popen[str]", huge_page: str, tmp_path: Path
) -> None:
    kept, warned = tmp_path / "kept", kernel_warnings()
    shared = os.memfd_create("peer")
    size = len(content(0))
    os.ftruncate(shared, size)
    try:
        with mmap.mmap(shared, size) as peer:
            for seed in range(KILLS):
                victim = started(group, kept, shared, seed, huge_page)
                try:
                    assert line_of(victim.stdout) == "ready\n"
                    assert victim.wait(timeout=HANGS_AFTER_S) == -9
                finally:
                    victim.kill()
                    victim.wait(timeout=HANGS_AFTER_S)
                assert killer.poll() is None
                assert hashlib.sha256(peer[:]).digest() == hashlib.sha256(content(seed)).digest()
                assert kept.read_bytes() == content(seed)
    finally:
        os.close(shared)
    said = (tmp_path / "said").read_text()
    late = time.monotonic() + HANGS_AFTER_S
    # On a busy machine some give nothing back for a while, and are told as late.
    while said.count("event=back") + said.count("event=late") < KILLS and time.monotonic() < late:
        time.sleep(0.01)
        said = (tmp_path / "said").read_text()
    # Killed by the killer each time, and not by the kernel for want of memory.
    assert said.count("event=kill ") == KILLS, said[-2000:]
    assert kernel_warnings() == warned
