"""The catalog of targets: the page sizes of each, the settings for a size, and their undo."""

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
"""The target of transparent huge pages by architecture; other architectures have none."""


@dataclass(frozen=True)
class Target:
    """A place to set a page size. ``sizes`` are in bytes, with today's base page first."""

    name: str
    summary: str
    sizes: Callable[[], list[int]]
    larger: Callable[[int], list[Setting]]
    """The settings for any size but the first."""
    is_transparent: bool = False
    """Whether the larger pages are split when they leave memory."""

    def settings(self, size_bytes: int) -> list[Setting]:
        """The settings for this size; none for today's pages."""
        return [] if size_bytes == self.sizes()[0] else self.larger(size_bytes)


def _all_mthp(size_bytes: int) -> list[Setting]:
    ways = (mthp.for_process, mthp.for_machine, mthp.by_tmpfiles, mthp.at_boot)
    return [way(size_bytes) for way in ways]


def _is_here(machine: str) -> bool:
    """Whether this machine has that architecture and base pages of 4 KiB."""
    return platform.machine() == machine and mmap.PAGESIZE == PAGE_BYTES


TARGETS = [
    Target(
        "x86-mthp",
        "x86-64 Linux 6.8 or later: transparent huge pages of one size",
        lambda: mthp.sizes(_is_here(X86)),
        _all_mthp,
        is_transparent=True,
    ),
    Target(
        "x86-thp",
        "x86-64, any version of Linux: transparent huge pages of 2 MiB",
        lambda: [PAGE_BYTES, mthp.PMD_BYTES],
        lambda _size: mthp.whole_thp(),
        is_transparent=True,
    ),
    Target(
        "arm64-4k-mthp",
        "arm64 Linux 6.8 or later with base pages of 4 KiB: transparent huge pages of one size",
        lambda: mthp.sizes(_is_here(ARM64)),
        _all_mthp,
        is_transparent=True,
    ),
    Target(
        "arm64-16k",
        "arm64: a kernel with base pages of 16 KiB instead of 4 KiB",
        lambda: [PAGE_BYTES, 16 * KIB],
        lambda _size: arm64.kernel_16k(),
    ),
    Target(
        "arm64-64k",
        "arm64: a kernel with base pages of 64 KiB instead of 4 KiB",
        lambda: [PAGE_BYTES, 64 * KIB],
        lambda _size: arm64.kernel_64k(),
    ),
    Target(
        "glibc",
        "one process with glibc's malloc, on the same kernels as x86-mthp",
        lambda: mthp.sizes(is_here=mmap.PAGESIZE == PAGE_BYTES),
        lambda size: [mthp.for_process(size)],
        is_transparent=True,
    ),
    Target(
        "boot-line",
        "kernel arguments, for the same kernels as x86-mthp from Linux 6.12 on",
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
    """The target of this name.

    The default needs no restart: transparent huge pages of ``architecture`` (QEMU's name), or else
    of this machine.
    """
    if name is None:
        name = MTHP.get(architecture or platform.machine(), "glibc")
    for row in TARGETS:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in TARGETS)
    raise UsageError(f"no target {name!r}", hint=f"there is {known}")
