"""Waiting in tests, always with an end to it: the time only says that something hangs."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills a process that hangs, and in any case after a block that failed: reading from it ends
    then."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
