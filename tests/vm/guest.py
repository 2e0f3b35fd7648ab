"""Boots guests for tests (`pagewise.guests.boot`), with packages kept in ``build/vm``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import SkipTest

from pagewise.errors import Missing
from pagewise.guests import debian
from pagewise.guests.boot import (
    Answer,
    GuestFailed,
    GuestHung,
    Machine,
    basic_arguments,
    boot,
    image,
    own_start,
    require,
)
from pagewise.guests.debian import package

__all__ = [
    "AGENT",
    "Answer",
    "GuestFailed",
    "GuestHung",
    "Machine",
    "answered",
    "basic_arguments",
    "boot",
    "compiled",
    "image",
    "need_agent",
    "own_start",
    "package",
    "refusal",
    "with_libraries",
]

debian.CACHE = Path(__file__).parents[2] / "build" / "vm"
AGENT = Path(sys.executable).with_name("pagewise-agent")


def need_agent(machine: Machine) -> None:
    """Skips the test if the agent is not built, or if the machine cannot be booted here."""
    if not AGENT.exists():
        raise SkipTest("no pagewise-agent beside this Python: make build")
    if reason := refusal(machine):
        raise SkipTest(reason)


def refusal(machine: Machine) -> str | None:
    """Why the machine cannot be booted here, as the reason of a skipped test; None if it can."""
    if shutil.which("cc") is None:
        return "cc missing: tools/prerequisites.sh test"
    try:
        require(machine)
    except Missing as error:
        return f"{error}: tools/prerequisites.sh test"
    return None


def compiled(program: Path, source: Path, *options: str, compiler: str = "cc") -> Path:
    """Compiles a C source for a guest; ``compiler``: for its architecture."""
    command = [compiler, "-std=gnu17", "-O2", "-o", program, source, *options]
    subprocess.run(command, check=True, timeout=300)
    return program


def with_libraries(program: Path) -> dict[str, Path | str]:
    """A program of this machine with the shared libraries it loads, as ``files`` of a guest."""
    listed = subprocess.run(
        ["ldd", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    return {f"bin/{program.name}": program} | {path.lstrip("/"): Path(path) for path in libraries}


def answered(results: Path, name: str) -> dict[str, Any]:
    """The JSON object that a command printed to NAME.json in a guest, where its script wrote its
    status to NAME.status and its messages to NAME.errors."""
    errors = (results / f"{name}.errors").read_text()
    assert (results / f"{name}.status").read_text() == "0\n", errors
    answer: dict[str, Any] = json.loads((results / f"{name}.json").read_text())
    return answer
