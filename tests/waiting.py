"""Waiting in tests, always with an end to it: the time only says that something hangs."""

import time
from collections.abc import Callable
from pathlib import Path


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether it holds before the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def is_running(process: int) -> bool:
    """Whether there is such a process, and more of it than its exit status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
