"""Reclaiming a dying process's memory leaves files and shared memory intact.

`killd` kills it without grace, so that its memory is reclaimed at once. Needs root and memory
cgroups; a skipped test says what is missing.
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

# For more kills, set PAGEWISE_KILLS: 1000 take minutes.
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

# Writes a mapped file without syncing it, and memory that a peer shares; locks memory, takes a huge
# page, and prints "ready". Then grows beyond killd's threshold of 60 MiB and waits below the limit
# of the group, so that the OOM killer does not kill it even if killd is late.
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
    """The kernel's warnings so far; empty if its log may not be read."""
    read = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=HANGS_AFTER_S)
    return [line for line in read.stdout.splitlines() if any(word in line for word in WARNINGS)]


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(100 * MIB) as group:
        yield group


@pytest.fixture
def huge_page() -> Iterator[str]:
    """Whether the machine has a huge page; restores the number of huge pages afterwards."""
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
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.DEVNULL, text=True)
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


def test_files_and_shared_memory_of_a_victim_stay_intact(
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
    log = (tmp_path / "log").read_text()
    late = time.monotonic() + HANGS_AFTER_S
    # On a busy machine some victims free nothing for a while, and are logged as late.
    while log.count("event=back") + log.count("event=late") < KILLS and time.monotonic() < late:
        time.sleep(0.01)
        log = (tmp_path / "log").read_text()
    # killd killed every victim, not the kernel's OOM killer.
    assert log.count("event=kill ") == KILLS, log[-2000:]
    assert kernel_warnings() == warned
