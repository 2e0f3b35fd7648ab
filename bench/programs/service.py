"""Whether the library serves the processes of a run, read from its counters in their memory.

`pagewise-agent lazy --stats` reads the same counters. A process that has loaded the library and
counts no allocation is not served: the library stands aside or had nothing to do.
"""

from __future__ import annotations

import re
import struct
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache

from programs.group import Group
from programs.places import LIBRARY

SYMBOL = "pagewise_lazy_statistics"
MAGIC = b"pwlazy\0\x01"
HEAD = struct.Struct("<8sQ")
"""What marks the counters, and the first of them: allocations."""
GROWTH = 1.2
"""Looks become rarer as a run goes on: each wait is longer than the one before by this factor."""
MAPPED = re.compile(
    rf"^([0-9a-f]+)-\S+ \S+ 00000000 .*/{re.escape(LIBRARY.name)}$".encode(), re.MULTILINE
)
LIMIT_S = 60


@cache
def offset() -> int:
    """The offset of the counters in the library."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout
    return int(
        next(line for line in symbols.splitlines() if line.endswith(f" {SYMBOL}")).split()[0], 16
    )


def allocations(process: int) -> int | None:
    """How many allocations the library has served in a process; None if it is not loaded there."""
    try:
        with open(f"/proc/{process}/maps", "rb") as maps:
            mapped = MAPPED.search(maps.read())
        if mapped is None:
            return None
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            memory.seek(int(mapped[1], 16) + offset())
            magic, number = HEAD.unpack(memory.read(HEAD.size))
    except (OSError, struct.error):
        return None  # the process has ended
    return number if magic == MAGIC else None


@dataclass
class Service:
    """What was seen of the library in the processes of one group."""

    group: Group
    is_loaded: bool = False
    """Whether a process had loaded the library."""
    allocations: int = 0
    """Allocations that the library had served in a process when that was first seen."""
    wait_s: float = 0.002
    next_s: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Looks at all processes, unless it is too early or one has been served already."""
        if self.allocations or time.monotonic() < self.next_s:
            return
        for process in self.group.processes():
            served = allocations(process)
            self.is_loaded |= served is not None
            self.allocations = max(self.allocations, served or 0)
        self.wait_s *= GROWTH
        self.next_s = time.monotonic() + self.wait_s
