"""How many cells may run at once, given the memory of each and the free memory.

A cell counts as 64 bytes for each page of its trace; tests check this bound. Cells run at once as
long as they fit half of the memory that was free when the run began. At least one always runs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pagewise import catalog
from pagewise.units import MIB

if TYPE_CHECKING:
    from pagewise.grids.simulations import SimulateRequest

BYTES_PER_PAGE = 64
BYTES_PER_EVENT = 64
"""Extra bytes of the offline bound, which must know every event before it decides."""
BYTES_QUEUED_PER_EVENT = 160
"""Extra bytes with queueing: operations that programs issue later than in the trace, up to three of
16 bytes for each event, in lists that grow to twice their length."""
BYTES_AHEAD_PER_PAGE, BYTES_AHEAD_PER_EVENT = 64, 16
"""Extra bytes with the kernel's readahead, which knows the page in each slot."""
BYTES_BESIDE = 2 * MIB
"""Bytes of a cell for any trace."""
SHARE = 0.5
"""The share of free memory that cells may take."""
CELLS_MAX = 4
"""Most cells of one pass: enough to share the reading of the trace, few enough to stay small."""
CELLS_AT_ONCE_MAX = 64
LATENCIES_REPLAYED = 3
"""Cells of a request that is replayed over the range of its latencies."""
M_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of glibc (malloc.h): larger blocks get their own mapping."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Size:
    """The size of a trace, as far as the memory of its cells depends on it."""

    pages: int
    events: int


def bytes_of(request: SimulateRequest, size: Size) -> int:
    """Bytes that a request, in the form of `Simulation.to_json`, holds while it runs on this
    trace."""
    architecture = request["architecture"]
    each = BYTES_BESIDE + BYTES_PER_PAGE * size.pages
    if architecture in catalog.bounds():
        each += BYTES_PER_EVENT * size.events
    has_queue = request.get("queueing") == "yes"
    if has_queue:
        each += BYTES_QUEUED_PER_EVENT * size.events
    if request.get("readahead") == "kernel":
        each += BYTES_AHEAD_PER_PAGE * size.pages + BYTES_AHEAD_PER_EVENT * size.events
    depends = has_queue or catalog.decides_by_latency(architecture)
    has_range = request.get("ranges") == "yes" and depends
    return each * (LATENCIES_REPLAYED if has_range else 1)


def passes(
    items: Sequence[Item], cells_max: int, room_bytes: int, cost: Callable[[Item], int]
) -> Iterator[Sequence[Item]]:
    """The items in order, in passes of at most ``cells_max`` items that fit ``room_bytes``."""
    start, held = 0, 0
    for index, item in enumerate(items):
        if index > start and (index - start == cells_max or held + cost(item) > room_bytes):
            yield items[start:index]
            start, held = index, 0
        held += cost(item)
    if start < len(items):
        yield items[start:]


def cells_of_pass(workers: int) -> int:
    """The most cells of one pass, if ``workers`` passes run at once."""
    return max(1, min(CELLS_MAX, CELLS_AT_ONCE_MAX // workers))


def give_back_what_is_freed() -> None:
    """Makes the C library return the tables of a cell to the system when the cell ends.

    glibc raises its threshold, up to 32 MiB, when large blocks are freed, and each thread then
    keeps such blocks: cells that never held more than 0.3 GB took 1.1 GB.
    """
    with suppress(AttributeError):  # Other C libraries have no such option.
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIB)


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def room_bytes(root: Path = Path("/")) -> int:
    """Bytes that cells may hold together: half of the memory that is free now."""
    return int(SHARE * free_bytes(root))


def free_bytes(root: Path = Path("/")) -> int:
    """Bytes that programs can take without pushing others out: the kernel's MemAvailable or, if
    less, what the limits of this process's control groups (version 1 and 2) leave.

    ``root`` is the folder that holds proc and sys.
    """
    return min([_available(root), *_left_in_groups(root)])


def _available(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, kilobytes = line.partition(":")
        if name == "MemAvailable":
            return int(kilobytes.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class _Version:
    """The names of files and statistics in a version of control groups."""

    limit: str
    used: str
    file_pages: tuple[str, ...]


_VERSIONS = {
    "cgroup2": _Version("memory.max", "memory.current", ("active_file", "inactive_file")),
    "cgroup": _Version(
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
}
"""Versions by the type of their file system."""


def _left_in_groups(root: Path) -> Iterator[int]:
    """Bytes that the limit of each control group of this process leaves."""
    for version, mount, group in _mounted(root):
        folder = mount / group.lstrip("/")
        # In a container, the process's own group is the root of the mount.
        for level in (folder, *folder.parents):
            if level.is_relative_to(mount) and (left := _left(level, version)) is not None:
                yield left


def _mounted(root: Path) -> Iterator[tuple[_Version, Path, str]]:
    """Each hierarchy that may limit memory: its version, its mount, the group of this process."""
    groups = {}
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            groups["cgroup2" if number == "0" else "cgroup"] = path
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        has_memory = kind == "cgroup2" or "memory" in options.split(",")
        if kind in groups and has_memory:
            inside, mount = before.split(" ")[3:5]
            path = groups[kind]
            yield _VERSIONS[kind], root / mount.lstrip("/"), path.removeprefix(inside.rstrip("/"))


def _left(group: Path, version: _Version) -> int | None:
    """Bytes below the limit of a group, with its file pages counted as free; None without a
    limit."""
    try:
        limit, used = (int((group / name).read_text()) for name in (version.limit, version.used))
        statistics = dict(line.split(" ", 1) for line in _lines(group / "memory.stat"))
    except (OSError, ValueError):
        return None
    return max(0, limit - used + sum(int(statistics.get(name, 0)) for name in version.file_pages))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
