"""What is common to the tests and benches of lazy unmapping in the kernel (docs/kernel.md)."""

import re

CASES = (
    "reuse",
    "off",
    "segv",
    "hole",
    "fixed",
    "ranges",
    "forks",
    "zeros",
    "age",
    "limits",
    "sparse",
    "heap",
    "mrelease",
    "core",
    "uffd",
    "counts",
    "null",
    "sizes",
)
"""Cases of lazy_unmap.c that need no other program."""
COMPLAINT = re.compile(
    r"BUG|WARNING|KASAN|INFO: |Bad page|bad pmd|rss-counter|page tables|general protection|Oops"
    r"|unable to handle|locking dependency|lock state|corruption|double fault|Kernel panic"
)
"""What the kernel prints when it finds an error in itself. A report of the OOM killer is none."""
WAYS_BACK = ("taken", "over_limit", "aged", "reclaimed", "dropped")
"""The ways by which pages leave a pool, as in the names of their counters."""


def complaints(log: str) -> list[str]:
    """The lines of a kernel's log that report an error of the kernel."""
    return [line for line in log.splitlines() if COMPLAINT.search(line)]


def counters(vmstat: str) -> dict[str, int]:
    """The counters in a copy of /proc/vmstat."""
    return {word: int(number) for word, number in map(str.split, vmstat.splitlines())}


def unaccounted(counted: dict[str, int]) -> int:
    """Pages that pools have kept and not given back: 0 once all processes that had one ended."""
    kept = counted["lazy_unmap_pages_kept"]
    return kept - sum(counted[f"lazy_unmap_pages_{way}"] for way in WAYS_BACK)
