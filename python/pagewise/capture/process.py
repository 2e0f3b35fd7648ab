"""The captured program as a process: a signal to pagewise ends it and everything it started.

The program gets its own process group. A terminal stops reads from other process groups, so a
program that may read from a terminal stays in ours, and its children are found through /proc. If
pagewise itself is killed, the kernel ends the program (the plugin sets PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pagewise import signals
from pagewise.recording import Progress

STDIN = 0


class Emulation:
    """A program under QEMU. Signals that end a process end the program instead.

    ``ended_by`` is the signal. The capture then completes as it does when a program ends by itself.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.is_group = not os.isatty(STDIN)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handles an ending signal."""
        if number == signal.SIGHUP:
            signals.leave_terminal()
        self.ended_by = self.ended_by or number
        self.kill()

    def start(self, command: Sequence[str], descriptors: Sequence[int], stdout: int | None) -> None:
        """Starts the command with these descriptors."""
        self.process = subprocess.Popen(
            command,
            pass_fds=descriptors,
            stdout=stdout,
            process_group=0 if self.is_group else None,
        )
        if self.ended_by is not None:
            self.kill()

    def kill(self) -> None:
        """Ends the program and everything that it started."""
        if self.process is None or self.process.returncode is not None:
            return
        if self.is_group:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            return
        for process in [self.process.pid, *below(self.process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def status(self) -> int | None:
        """Waits for the program. Returns its exit status, a negative signal number if a signal
        ended it, or None if the capture ended it."""
        assert self.process is not None, "it was started"
        status = self.process.wait()
        return None if self.ended_by is not None else status

    def watched(self, progress: Progress | None) -> Progress:
        """A progress function that stops the capture once the program was ended by a signal."""

        def advance(done: int, total: int) -> None:
            if self.ended_by is not None:
                raise signals.Ended(self.ended_by)
            try:
                if progress is not None:
                    progress(done, total)
            except BaseException:
                self.kill()
                raise

        return advance


def below(process: int) -> list[int]:
    """The children of a process and their children; empty if the kernel does not list them
    (CONFIG_PROC_CHILDREN)."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in map(int, task.read_text().split()):
                found += [child, *below(child)]
    return found


@contextmanager
def emulation() -> Iterator[Emulation]:
    """A program that the block starts, and that ends with the block."""
    running = Emulation()
    with signals.handled(running):
        try:
            yield running
        except BaseException:
            running.kill()
            raise
        finally:
            if running.process is not None:
                running.process.wait()
