"""The catalog of targets: what page sizes each has, and how a size is set there and taken back."""

from __future__ import annotations

import mmap
import platform
from collections.abc import Callable
from dataclasses import dataclass

from pagewise.advice.page_size import arm64, machines, mthp
from pagewise.advice.setting import Setting
from pagewise.errors import UsageError
from pagewise.units import PAGE_BYTES

KIB = 1024
X86, ARM64 = "x86_64", "aarch64"
MTHP = {X86: "x86-mthp", "i386": "x86-mthp", ARM64: "arm64-4k-mthp", "arm": "arm64-4k-mthp"}
"""By architecture, the target of transparent huge pages; others have none of their own."""


@dataclass(frozen=True)
class Target:
    """Where a page size can be set. ``sizes`` in bytes, the base page of today first."""

    name: str
    summary: str
    sizes: Callable[[], list[int]]
    larger: Callable[[int], list[Setting]]
    """How to have a size other than the first."""
    is_transparent: bool = False
    """Its larger pages are split when they leave memory."""

    def settings(self, size_bytes: int) -> list[Setting]:
        """How to have this size; nothing for pages of today."""
        return [] if size_bytes == self.sizes()[0] else self.larger(size_bytes)


def _all_mthp(size_bytes: int) -> list[Setting]:
    ways = (mthp.for_process, mthp.for_machine, mthp.by_tmpfiles, mthp.at_boot)
    return [way(size_bytes) for way in ways]


def _is_here(machine: str) -> bool:
    """Whether this machine is of that kind, with base pages of 4 KiB."""
    return platform.machine() == machine and mmap.PAGESIZE == PAGE_BYTES


TARGETS = [
    Target(
        "x86-mthp",
        "x86-64 Linux 6.8 or newer: transparent huge pages of one size",
        lambda: mthp.sizes(_is_here(X86)),
        _all_mthp,
        is_transparent=True,
    ),
    Target(
        "x86-thp",
        "x86-64 Linux of any age: transparent huge pages of 2 MiB",
        lambda: [PAGE_BYTES, mthp.PMD_BYTES],
        lambda _size: mthp.whole_thp(),
        is_transparent=True,
    ),
    Target(
        "arm64-4k-mthp",
        "arm64 Linux 6.8 or newer with base pages of 4 KiB: transparent huge pages of one size",
        lambda: mthp.sizes(_is_here(ARM64)),
        _all_mthp,
        is_transparent=True,
    ),
    Target(
        "arm64-16k",
        "arm64: a kernel with base pages of 16 KiB instead of 4",
        lambda: [PAGE_BYTES, 16 * KIB],
        lambda _size: arm64.kernel_16k(),
    ),
    Target(
        "arm64-64k",
        "arm64: a kernel with base pages of 64 KiB instead of 4",
        lambda: [PAGE_BYTES, 64 * KIB],
        lambda _size: arm64.kernel_64k(),
    ),
    Target(
        "glibc",
        "one process with glibc's malloc, on a kernel as x86-mthp",
        lambda: mthp.sizes(is_here=mmap.PAGESIZE == PAGE_BYTES),
        lambda size: [mthp.for_process(size)],
        is_transparent=True,
    ),
    Target(
        "boot-line",
        "arguments of a kernel as x86-mthp, from 6.12",
        lambda: mthp.sizes(is_here=mmap.PAGESIZE == PAGE_BYTES),
        lambda size: [mthp.at_boot(size)],
        is_transparent=True,
    ),
    Target(
        "qemu",
        "the memory of a QEMU guest in huge pages of the host",
        lambda: [PAGE_BYTES, mthp.PMD_BYTES],
        lambda _size: machines.qemu(),
    ),
    Target(
        "libvirt",
        "the memory of a libvirt domain in huge pages of the host",
        lambda: [PAGE_BYTES, mthp.PMD_BYTES],
        lambda _size: machines.libvirt(),
    ),
]


def target(name: str | None = None, architecture: str | None = None) -> Target:
    """The target of this name; by default the one that needs no restart of a machine that runs
    programs for ``architecture`` (QEMU's name), or else of this one."""
    if name is None:
        name = MTHP.get(architecture or platform.machine(), "glibc")
    for row in TARGETS:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in TARGETS)
    raise UsageError(f"no target {name!r}", hint=f"there is {known}")
