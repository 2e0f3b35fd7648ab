"""Finds the guard of a running swapd, for its bench and its tests."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

HANGS_AFTER_S = 120


def guard_of(server: int) -> int:
    """The process that takes over if the server is killed."""
    late = time.monotonic() + HANGS_AFTER_S
    while time.monotonic() < late:
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                if parent == str(server) and b"--guard" in (path / "cmdline").read_bytes():
                    return int(path.name)
        time.sleep(0.005)
    raise TimeoutError(f"process {server} has no guard")
