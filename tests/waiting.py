"""Waiting in tests, always with an end to it: the time only says that something hangs."""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def running(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A command in a process group of its own; after the block the whole group is gone."""
    process = subprocess.Popen(command, process_group=0, **options)
    try:
        yield process
    finally:
        # Even if it has ended: what it started may live on.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether it holds before the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def line_of(stream: Any, seconds: float = 120) -> str:
    """The next line of a pipe; empty where none comes in time."""
    ready, _, _ = select.select([stream], [], [], seconds)
    return str(stream.readline()) if ready else ""


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
