"""A program under capture ends with the pagewise that captures it, however that ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pagewise.capture.run import PLUGIN

pytestmark = pytest.mark.skipif(
    not PLUGIN.exists() or shutil.which("qemu-x86_64") is None or os.uname().machine != "x86_64",
    reason="needs x86-64, qemu-user and the capture plugin",
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_ends_with_its_capture(tmp_path: Path, number: signal.Signals) -> None:
    told = tmp_path / "process"
    # It hardly refers to new memory, so it would not notice soon that nobody reads.
    program = ["sh", "-c", f"echo $$ > {told}; while :; do :; done"]
    command = [sys.executable, "-m", "pagewise", "capture", "-o", tmp_path / "t.pwf", "--"]
    running = subprocess.Popen([*command, *program], stderr=subprocess.DEVNULL)
    assert within(60, lambda: told.exists() and told.read_text().endswith("\n"))
    process = int(told.read_text())
    assert is_running(process)
    try:
        running.send_signal(number)
        running.wait(60)
        assert within(20, lambda: not is_running(process)), "the program goes on"
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Whether there is such a process, and more of it than its exit status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def within(seconds: float, holds) -> bool:
    """Whether it holds before the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False
