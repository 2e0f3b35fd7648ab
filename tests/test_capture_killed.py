"""A captured program ends together with pagewise, however pagewise ends."""

import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from waiting import is_running, within

from pagewise.capture.run import PLUGIN
from pagewise.references import references_info
from pagewise.signals import ENDING, status_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PLUGIN.exists()
        or shutil.which("qemu-x86_64") is None
        or os.uname().machine != "x86_64",
        reason="needs x86-64, qemu-user and the capture plugin",
    ),
]
PAGEWISE = [sys.executable, "-m", "pagewise"]
# The program touches little new memory, so it would notice a missing reader late. Its child would
# outlive it.
FAMILY = "sleep 600 & echo $! $$ > {listing}; while :; do :; done"


@contextmanager
def capturing(
    tmp_path: Path, *words: str, **options: object
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A capture of a program with a child, and their process ids; the block ends all of them."""
    listing = tmp_path / "processes"
    command = [*PAGEWISE, *words, "--", "sh", "-c", FAMILY.format(listing=listing)]
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | options
    running = subprocess.Popen(command, **given)  # type: ignore[call-overload]
    processes: list[int] = []
    try:
        assert within(60, lambda: listing.exists() and listing.read_text().endswith("\n"))
        processes = [int(word) for word in listing.read_text().split()]
        assert all(map(is_running, processes))
        yield running, processes
    finally:
        running.kill()
        running.wait(60)
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_ends_the_program_with_its_child_and_keeps_the_trace(
    tmp_path: Path, number: signal.Signals
) -> None:
    trace = tmp_path / "t.pwf"
    with capturing(tmp_path, "capture", "-o", str(trace), stderr=subprocess.PIPE) as (run, started):
        run.send_signal(number)
        _, diagnostics = run.communicate(timeout=60)
        assert run.returncode == status_of(number), diagnostics
        assert within(60, lambda: not any(map(is_running, started))), "the program is still running"
    assert b"the trace is whole up to there" in diagnostics and b"pagewise: " in diagnostics
    result = references_info(trace)
    assert (
        result["ending"]["stop"] == "interrupt" and result["cut"] == "the capture was interrupted"
    )
    assert result["references"] > 1000


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_pagesize_of_a_program_ends_as_its_capture_does(
    tmp_path: Path, number: signal.Signals
) -> None:
    kept = tmp_path / "kept.pwf"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = ["pagesize", "--keep", str(kept)]
    with capturing(tmp_path, *words, stderr=subprocess.PIPE, env=environment) as (run, started):
        run.send_signal(number)
        _, diagnostics = run.communicate(timeout=60)
        assert run.returncode == status_of(number), diagnostics
        assert within(60, lambda: not any(map(is_running, started))), "the program is still running"
    assert (
        references_info(kept)["ending"]["stop"] == "interrupt" and str(kept).encode() in diagnostics
    )
    assert {path.name for path in tmp_path.iterdir()} == {"kept.pwf", "processes"}


def test_an_interrupted_pagesize_says_how_to_keep_the_capture(tmp_path: Path) -> None:
    words = ["advise", "pagesize", "--memory", "80%", "--storage", "ufs-3.1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with capturing(tmp_path, *words, stderr=subprocess.PIPE, env=environment) as (run, _):
        run.send_signal(signal.SIGTERM)
        _, diagnostics = run.communicate(timeout=60)
        assert run.returncode == status_of(signal.SIGTERM), diagnostics
    assert (
        b"the captured trace was deleted" in diagnostics
        and b"`pagewise capture -o FILE.pwf" in diagnostics
    )
    assert {path.name for path in tmp_path.iterdir()} == {"processes"}


def test_the_program_ends_with_a_killed_capture(tmp_path: Path) -> None:
    with capturing(tmp_path, "capture", "-o", str(tmp_path / "t.pwf")) as (run, (_, program)):
        run.send_signal(signal.SIGKILL)
        run.wait(60)
        assert within(60, lambda: not is_running(program)), "the program is still running"


@contextmanager
def on_a_terminal(
    tmp_path: Path, trace: Path
) -> Iterator[tuple[subprocess.Popen[bytes], list[int], int]]:
    """A capture on its own terminal, its processes, and the controlling end of the terminal."""
    controller, terminal = pty.openpty()
    try:
        with capturing(
            tmp_path,
            *("capture", "-o", str(trace)),
            stdin=None,
            stdout=None,
            # A progress bar would fill the terminal, which has no reader.
            env={**os.environ, "TERM": "dumb"},
            preexec_fn=lambda: os.login_tty(terminal),
        ) as (run, started):
            os.close(terminal)
            yield run, started, controller
    finally:
        with suppress(OSError):
            os.close(controller)


def test_a_capture_ends_with_its_terminal(tmp_path: Path) -> None:
    trace = tmp_path / "t.pwf"
    with on_a_terminal(tmp_path, trace) as (run, started, controller):
        os.close(controller)
        assert run.wait(60) == status_of(signal.SIGHUP)
        assert within(60, lambda: not any(map(is_running, started))), "the program is still running"
    assert references_info(trace)["ending"]["stop"] == "interrupt"


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_of_the_terminal_ends_all_processes(
    tmp_path: Path, key: bytes, number: signal.Signals
) -> None:
    trace = tmp_path / "t.pwf"
    with on_a_terminal(tmp_path, trace) as (run, started, controller):
        os.write(controller, key)
        assert run.wait(60) == status_of(number)
        assert within(60, lambda: not any(map(is_running, started))), "the program is still running"
    assert references_info(trace)["ending"]["stop"] == "interrupt"


def test_kill_ends_all_processes_on_a_terminal_too(tmp_path: Path) -> None:
    trace = tmp_path / "t.pwf"
    with on_a_terminal(tmp_path, trace) as (run, started, _):
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == status_of(signal.SIGTERM)
        assert within(60, lambda: not any(map(is_running, started))), "the program is still running"
    assert references_info(trace)["ending"]["stop"] == "interrupt"
