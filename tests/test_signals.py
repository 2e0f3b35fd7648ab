"""Signals that end a command: it cleans up, and its exit status names the signal."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading

import pytest
from waiting import running, within

from pagewise import signals
from pagewise.signals import ENDING, Ended, obeyed_after, status_of

pytestmark = pytest.mark.slow

PAGEWISE = [sys.executable, "-m", "pagewise"]
every_signal = pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)


@every_signal
def test_a_signal_ends_the_block_and_acts_after_it(number: signal.Signals) -> None:
    came: list[str] = []
    before = signal.signal(number, lambda *_: came.append("obeyed"))
    try:
        with obeyed_after():
            try:
                signal.raise_signal(number)
                pytest.fail("the block continues")
            finally:
                came.append("let go")
    finally:
        signal.signal(number, before)
    assert came == ["let go", "obeyed"]


def test_ctrl_c_is_a_keyboard_interrupt_for_a_python_caller() -> None:
    with pytest.raises(KeyboardInterrupt), obeyed_after():
        signal.raise_signal(signal.SIGINT)


@every_signal
def test_a_second_signal_does_not_interrupt_the_cleanup(number: signal.Signals) -> None:
    before = signal.signal(number, lambda *_: None)
    done = []
    try:
        with obeyed_after() as ending:
            ending.hold()
            signal.raise_signal(number)
            done.append("after the first")
        with obeyed_after():
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(signal.SIGTERM)  # a second signal, of any kind
                done.append("after the second")
    finally:
        signal.signal(number, before)
    assert done == ["after the first", "after the second"]


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with obeyed_after() as ending:
            signal.raise_signal(signal.SIGHUP)
        assert ending.came == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_in_other_threads_do_nothing() -> None:
    came = []

    def enter() -> None:
        with obeyed_after():
            came.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(60)
    assert came == [signal.getsignal(signal.SIGTERM)]


def test_an_exception_that_is_no_signal_passes() -> None:
    with pytest.raises(Ended) as error, obeyed_after():
        raise Ended(signal.SIGTERM)
    assert str(error.value) == "ended by SIGTERM" and str(Ended(signal.SIGINT)) == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_waits_for_a_silent_pipe_ends(number: signal.Signals) -> None:
    reading, writing = os.pipe()
    command = [*PAGEWISE, "curves", "-", "--frames", "64"]
    try:
        with running(command, stdin=reading, stderr=subprocess.PIPE) as process:
            os.write(writing, b"PWREFS")
            assert within(60, lambda: unread(reading) == 0), "the command does not read"
            process.send_signal(number)
            assert process.wait(60) == status_of(number)
            assert process.stderr is not None and b"Traceback" not in process.stderr.read()
    finally:
        os.close(reading)
        os.close(writing)


def unread(pipe: int) -> int:
    """How many unread bytes a pipe has."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


LATE = """
import os, signal, sys
from pagewise import __main__, cli, signals
def run():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        while True:
            pass
    finally:
        print("let go", flush=True)
cli.run = run
__main__.main()
"""


@every_signal
def test_a_command_cleans_up_and_ends_with_the_signals_status(number: signal.Signals) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LATE, str(int(number))], capture_output=True, timeout=60
    )
    assert (run.returncode, run.stdout) == (status_of(number), b"let go\n"), run.stderr


DEAF = """
import ctypes, os, signal, sys, threading
from pagewise import signals
signals.PATIENCE_S = 0.05
reading, writing = os.pipe()
signals.watch()
signals.heed(signals.end)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the thread that watches gets it
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
threading.Timer(1.5, os.write, (writing, b"x")).start()
try:
    with signals.obeyed_after():
        try:
            ctypes.CDLL(None).read(reading, ctypes.create_string_buffer(1), 1)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            print("let go", flush=True)
except signals.Ended as ended:
    sys.exit(signals.status_of(ended.number))
"""


def test_a_slow_cleanup_is_not_ended() -> None:
    run = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, timeout=60)
    assert (run.returncode, run.stdout) == (status_of(signal.SIGTERM), b"let go\n"), run.stderr


def test_nohup_keeps_a_command_running() -> None:
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-c"]
    both = LATE.replace("        while", "        os.kill(os.getpid(), 15)\n        while")
    run = subprocess.run(
        [*ignoring, both, str(int(signal.SIGHUP))], capture_output=True, timeout=60
    )
    assert run.returncode == status_of(signal.SIGTERM), run.stderr


def test_a_closed_terminal_is_not_another_error() -> None:
    controller, terminal = os.openpty()
    source = "import os; from pagewise import signals; os.read(3, 1); signals.leave_terminal();"
    source += "print('without a reader', flush=True)"
    reading, writing = os.pipe()
    command = [sys.executable, "-c", source]
    try:
        with running(
            ["sh", "-c", 'exec "$@" 3<&0', "sh", *command],
            stdin=reading,
            stdout=terminal,
            stderr=subprocess.PIPE,
        ) as process:
            os.close(terminal)
            os.close(controller)
            os.write(writing, b"x")
            _, diagnostics = process.communicate(timeout=60)
            assert process.returncode == 0, diagnostics
    finally:
        os.close(reading)
        os.close(writing)


def test_every_ending_signal_has_its_own_message() -> None:
    assert {status_of(number) for number in ENDING} == {130, 143, 129, 131}
    assert signals.PATIENCE_S < 60
