"""Runs commands on a terminal of a given width."""

import fcntl
import os
import struct
import subprocess
import termios
from pathlib import Path

import waiting

ROOT = Path(__file__).parents[1]
HUNG_S = 300
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}},
    "TERM": "dumb",
}
"""No size but the terminal's own, and no progress bars between the lines."""


def on_a_terminal(command: list[str | Path], columns: int, *, has_errors: bool = False) -> str:
    """What a command writes to a terminal of this width; with ``has_errors``, standard error
    too."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    shown = b""
    with waiting.running(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal if has_errors else subprocess.DEVNULL,
        env=ENVIRONMENT,
    ) as process:
        os.close(terminal)
        with waiting.killed_after(HUNG_S, process):
            try:
                while part := os.read(controller, 1 << 16):
                    shown += part
            except OSError:
                pass  # the terminal has no writer any more
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")
