"""The catalog of compared allocators, and how a command is started with each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from lazy.places import AGENT, BINARIES, LIBRARIES, MIMALLOC, SCUDO
from pagewise.huge_pages import settings

MIDDLE_PAGES = settings.switch(64 << 10)


@dataclass(frozen=True)
class ComparedAllocator:
    """One row of the comparison."""

    name: str
    what: str
    preload: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    """A prefix of the command."""
    switch: str | None = None
    """A switch of the machine's huge pages that is `always` while the command works."""

    @property
    def is_ours(self) -> bool:
        """Whether the allocator is this project's library."""
        return bool(self.prefix)

    def absent(self) -> str | None:
        """The missing file that prevents it from running here, or None."""
        needed = [*self.preload, *map(Path, self.prefix[:1])]
        needed += [settings.SWITCHES / self.switch] if self.switch else []
        return next((str(path) for path in needed if not path.exists()), None)

    @contextmanager
    def machine(self) -> Iterator[None]:
        """Sets its switch, and restores it; refuses while `pagewise pagesize` changes switches."""
        with settings.changed({self.switch: "always"}) if self.switch else nullcontext():
            yield

    def environment(self) -> dict[str, str]:
        """The environment of a command."""
        cleared = {
            name: value
            for name, value in os.environ.items()
            if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")
        }
        given = {"LD_PRELOAD": " ".join(map(str, self.preload))} if self.preload else {}
        return cleared | given | dict(self.variables)


def tunables(*settings: str) -> dict[str, str]:
    return {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{setting}" for setting in settings)}


def ours(name: str, what: str, *options: str) -> ComparedAllocator:
    return ComparedAllocator(name, what, prefix=(str(AGENT), "lazy", *options, "--"))


GLIBC, FIXED = "glibc", "glibc fixed"

ALLOCATORS = {
    row.name: row
    for row in (
        ComparedAllocator(
            GLIBC, "Debian's, default settings: thresholds grow with the blocks freed"
        ),
        ComparedAllocator(
            FIXED,
            "mmap threshold fixed at 128 KiB, like the paper's allocator",
            variables=tunables("mmap_threshold=131072"),
        ),
        ComparedAllocator(
            "glibc tuned",
            "thresholds fixed at 32 MiB for mmap, 256 MiB for trimming",
            variables=tunables("mmap_threshold=33554432", "trim_threshold=268435456"),
        ),
        ComparedAllocator(
            "glibc huge pages",
            "the tunable hugetlb=1: madvise for pages of 2 MiB",
            variables=tunables("hugetlb=1"),
        ),
        ComparedAllocator(
            "glibc mTHP",
            "the kernel gives all programs pages of 64 KiB",
            switch=MIDDLE_PAGES,
        ),
        ComparedAllocator("jemalloc", "5.3.0 of Debian", [LIBRARIES / "libjemalloc.so.2"]),
        ComparedAllocator("mimalloc 2.0", "2.0.9 of Debian", [LIBRARIES / "libmimalloc.so.2.0"]),
        ComparedAllocator("mimalloc 3.4", "3.4.3, the newest (cmeel-mimalloc)", [MIMALLOC]),
        ComparedAllocator(
            "tcmalloc", "gperftools 2.10 of Debian", [LIBRARIES / "libtcmalloc_minimal.so.4"]
        ),
        ComparedAllocator("scudo", "LLVM 16's, default settings", [SCUDO]),
        ComparedAllocator(
            "scudo Android",
            "LLVM 16's with a cache of 32 blocks of up to 2 MiB, released after 1 s",
            [SCUDO, BINARIES / "libscudo_android.so"],
        ),
        ours("fast", "ours: freed memory stays accessible, up to the limit of hot memory"),
        ours("guarded", "ours: freed memory from 256 KiB on is inaccessible", "--mode", "guarded"),
        ours("thp", "ours: huge pages of 2 MiB where the program fills them", "--mode", "thp"),
        ours("faithful", "ours, with the paper's rules", "--profile", "faithful"),
        ours("browser", "`fast` with writable shared mappings populated", "--profile", "browser"),
        ours(
            "browser thp",
            "`thp` with writable shared mappings populated",
            "--mode",
            "thp",
            "--profile",
            "browser",
        ),
    )
}
HUGE = {"glibc huge pages", "glibc mTHP", "thp", "browser thp"}
"""Allocators that use larger pages."""
