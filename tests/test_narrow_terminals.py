"""Commands to paste come through a terminal of any width as they stand in the JSON."""

import dataclasses
import fcntl
import json
import os
import struct
import subprocess
import sys
import tempfile
import termios
from functools import cache
from pathlib import Path

import pytest
import waiting

from pagewise.advice.page_size import TARGETS
from pagewise.advice.setting import Setting

ROOT = Path(__file__).parents[1]
PAGEWISE = Path(sys.executable).with_name("pagewise")
SWAP = "advise swap examples/phone-1g-long/phone-1g-long.pgw.zst --fast zram-lz4 --slow ufs-3.1"
PAGE_SIZE = (
    "advise pagesize examples/page-size/photo.pwf --memory 80% --storage optane-ssd --target"
)
ADVICE = {
    "swap": SWAP,
    **{target: f"{PAGE_SIZE} {target}" for target in ("x86-mthp", "arm64-16k", "boot-line")},
}
"""Commands whose advice has settings."""
HUNG_S = 300


def on_a_terminal(command: list[str | Path], columns: int) -> str:
    """What a command writes to a terminal of that width."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    shown = b""
    with waiting.running(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL
    ) as process:
        os.close(terminal)
        with waiting.killed_after(HUNG_S, process):
            try:
                while part := os.read(controller, 1 << 16):
                    shown += part
            except OSError:
                pass  # The terminal has no writer any more.
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


@cache
def settings(name: str) -> list[dict[str, str]]:
    """The settings of an advice, as its JSON has them."""
    command = [PAGEWISE, *ADVICE[name].split(), "--json"]
    printed = subprocess.check_output(command, cwd=ROOT, timeout=HUNG_S)
    found: list[dict[str, str]] = json.loads(printed)["settings"]
    return found


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", ADVICE)
def test_lines_to_paste_are_not_wrapped(name: str, columns: int) -> None:
    shown = on_a_terminal([PAGEWISE, *ADVICE[name].split()], columns)
    assert settings(name)
    for setting in settings(name):
        assert f"\n{setting['apply']}\nTo undo:\n{setting['undo']}\n" in shown, shown


def every_setting() -> list[tuple[str, Setting]]:
    """The settings of each target for its largest size, and those of an advice on swap."""
    by_target = [
        (target.name, setting)
        for target in TARGETS
        for setting in target.settings(target.sizes()[-1])
    ]
    by_command = [(name, Setting(**setting)) for name in ADVICE for setting in settings(name)]
    return by_target + by_command


def test_lines_to_paste_are_scripts_that_a_shell_reads() -> None:
    for name, setting in every_setting():
        for script in (setting.apply, setting.undo):
            checked = subprocess.run(
                ["bash", "-n"], input=script, text=True, capture_output=True, timeout=HUNG_S
            )
            assert (checked.returncode, checked.stderr) == (0, ""), f"{name}: {script}"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lines_of_every_target_are_printed_as_they_are(columns: int) -> None:
    source = (
        "import json, sys; from pagewise.terminal import pasted, show;"
        "show(*pasted(json.load(open(sys.argv[1]))))"
    )
    found = [dataclasses.asdict(setting) for _, setting in every_setting()]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(found, file)
        file.flush()
        shown = on_a_terminal([sys.executable, "-c", source, file.name], columns)
    for setting in found:
        assert f"\n{setting['apply']}\nTo undo:\n{setting['undo']}\n" in shown
