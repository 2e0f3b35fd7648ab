"""How many cells may run at once: by what each takes, and by the memory that is free.

A cell is taken to hold 64 bytes for each page of its trace, which tests hold it to. Cells run at
once as long as they stay within half of the memory that was free when the run began; one always
runs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pagewise import catalog
from pagewise.units import MIB

BYTES_PER_PAGE = 64
BYTES_PER_EVENT = 64
"""What the offline bound takes beside, which must know every event before it decides."""
BYTES_BESIDE = 2 * MIB
"""What a cell takes whatever its trace."""
SHARE = 0.5
"""Of the free memory, that cells may take."""
CELLS_MAX = 4
"""Cells of one pass: enough to share the reading of the trace, few enough to be small."""
CELLS_AT_ONCE_MAX = 64
LATENCIES_REPLAYED = 3
"""Cells of a request that is replayed over the range of its latencies."""
M_MMAP_THRESHOLD = -3
"""glibc's name for the size from which a block is mapped on its own (malloc.h)."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Size:
    """What decides how much a cell of a trace holds."""

    pages: int
    events: int


def bytes_of(request: Mapping[str, Any], size: Size) -> int:
    """What a request, in the form of `Simulation.to_json`, holds while it runs on such a trace."""
    architecture = request["architecture"]
    each = BYTES_BESIDE + BYTES_PER_PAGE * size.pages
    if architecture in catalog.bounds():
        each += BYTES_PER_EVENT * size.events
    has_range = request.get("ranges") == "yes" and catalog.decides_by_latency(architecture)
    return each * (LATENCIES_REPLAYED if has_range else 1)


def passes(
    items: Sequence[Item], cells_max: int, room_bytes: int, cost: Callable[[Item], int]
) -> Iterator[Sequence[Item]]:
    """The items in order, in passes of at most ``cells_max`` that fit ``room_bytes`` together."""
    start, held = 0, 0
    for index, item in enumerate(items):
        if index > start and (index - start == cells_max or held + cost(item) > room_bytes):
            yield items[start:index]
            start, held = index, 0
        held += cost(item)
    if start < len(items):
        yield items[start:]


def cells_of_pass(workers: int) -> int:
    """The most cells of one pass if ``workers`` passes run at once."""
    return max(1, min(CELLS_MAX, CELLS_AT_ONCE_MAX // workers))


def give_back_what_is_freed() -> None:
    """Lets the C library give the tables of a cell back to the system when the cell ends.

    glibc raises its threshold with the first large blocks that are freed, up to 32 MiB, and keeps
    such blocks from then on, for each thread: cells that never held more than 0.3 GB took 1.1 GB.
    """
    with suppress(AttributeError):  # Other C libraries have no such option.
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIB)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def room_bytes(root: Path = Path("/")) -> int:
    """What cells may hold together: half of the memory that is free now."""
    return int(SHARE * free_bytes(root))


def free_bytes(root: Path = Path("/")) -> int:
    """What programs may still take without pushing others out: the kernel's MemAvailable, or what
    the limits of this process's control groups (version 1 and 2) leave, if that is less.

    ``root`` is where the kernel's file systems are.
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
    """How a version of control groups calls its files, and the file pages in its statistics."""

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
"""By the type of their file system."""


def _left_in_groups(root: Path) -> Iterator[int]:
    """What the limit of each group that this process is in leaves."""
    for version, mount, group in _mounted(root):
        folder = mount / group.lstrip("/")
        # A container sees its own group as the root of what is mounted, whatever its path.
        for level in (folder, *folder.parents):
            if level.is_relative_to(mount) and (left := _left(level, version)) is not None:
                yield left


def _mounted(root: Path) -> Iterator[tuple[_Version, Path, str]]:
    """Version and mount of each hierarchy that may limit memory, and the group of this process."""
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
    """Bytes left below a group's limit, counting its file pages as free; None without a limit."""
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
