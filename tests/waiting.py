"""Waits for tests. Every wait has a limit, which only a hang exceeds."""

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
    """A command in a new process group; after the block the whole group is killed."""
    process = subprocess.Popen(command, process_group=0, **options)
    try:
        yield process
    finally:
        # Even if it has ended, its children may live on.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Waits until ``holds`` is true; returns whether it was within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def line_of(stream: Any, seconds: float = 120) -> str:
    """The next line of a pipe; empty if none comes in time."""
    ready, _, _ = select.select([stream], [], [], seconds)
    return str(stream.readline()) if ready else ""


def is_running(process: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills a process that hangs, and also if the block fails, so that reading from it ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
