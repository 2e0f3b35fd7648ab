"""Signals that end a command: it cleans up first, and its exit status names the signal.

Ctrl-C (SIGINT), Ctrl-\\ (SIGQUIT), SIGTERM and the end of a terminal (SIGHUP) become the exception
`Ended`, so every ``finally`` on the way out runs. A signal that is ignored when pagewise starts
stays ignored: SIGHUP under nohup, SIGINT in the background of a script. Python handles signals only
in its main thread; in other threads these functions do nothing. This module is loaded first, so it
imports little.

The core checks for signals while it counts, but not while it waits for a pipe without a writer. So
a thread checks that Python handles each signal, and otherwise ends the process; it never does so
inside a block that cleans up, however slow the machine.
"""

from __future__ import annotations

import errno
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENCE_S = 2.0
"""How long a signal may stay unhandled before it ends the process without any ``finally``."""

Handler = Callable[[int, FrameType | None], object]


class Ended(BaseException):
    """A signal asks the process to end; no ``except Exception`` catches this."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        if self.number == signal.SIGINT:
            return "interrupted"
        return f"ended by {signal.Signals(self.number).name}"


def status_of(number: int) -> int:
    """The exit status of a command that a signal ended, as in shells."""
    return 128 + number


def heed(handler: Handler | signal.Handlers) -> None:
    """Installs the handler for every ending signal that is not ignored."""
    for number in _heeded():
        signal.signal(number, _hearing(handler) if callable(handler) else handler)


def watch() -> None:
    """Makes every ending signal that is not handled in time end the process."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def _watch(reading: int) -> None:
    """Reads the number of each signal when it arrives."""
    while number := os.read(reading, 1):
        if number[0] in ENDING and not _heard.wait(PATIENCE_S) and not _blocks:
            os._exit(status_of(number[0]))
        _heard.clear()


_heard = threading.Event()
"""Set when a handler has run."""
_blocks: list[Handler] = []
"""Handlers of the blocks that the main thread is in."""


def _hearing(handler: Handler) -> Handler:
    """The handler, extended to note for the watching thread that it ran."""

    def hear(number: int, frame: FrameType | None) -> None:
        _heard.set()
        handler(number, frame)

    return hear


def end(number: int, _frame: FrameType | None) -> None:
    """The handler of commands: raises `Ended`."""
    if number == signal.SIGHUP:
        leave_terminal()
    raise Ended(number)


def leave_terminal() -> None:
    """Sends output for a closed terminal to /dev/null, so that printing to it is not another
    error."""
    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """Installs the handler inside the block, for every ending signal that is not ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _heeded()} if is_main else {}
    if before:
        _blocks.append(handler)
    try:
        for number in before:
            signal.signal(number, _hearing(handler))
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
        if before:
            _blocks.pop()


class Ending:
    """Raises `Ended` at the first signal. Only notes later signals, and signals after `hold`, so
    that cleaning up is never interrupted."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.is_held = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handles an ending signal."""
        self.came.append(number)
        if not self.is_held and len(self.came) == 1:
            end(number, frame)

    def hold(self) -> None:
        """Makes signals wait for the end of the block from now on."""
        self.is_held = True


@contextmanager
def obeyed_after() -> Iterator[Ending]:
    """Ending signals raise `Ended` inside the block. After the block, the first of them is handled
    as it would have been without the block."""
    ending = Ending()
    try:
        with handled(ending):
            yield ending
    except Ended:
        if not ending.came:
            raise
    if ending.came:
        signal.raise_signal(ending.came[0])


def _heeded() -> list[signal.Signals]:
    """Ending signals that are neither ignored nor handled outside Python."""
    return [each for each in ENDING if signal.getsignal(each) not in (signal.SIG_IGN, None)]
