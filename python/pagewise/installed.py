"""What is installed here: the versions of the Python package, of its core and of the agent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from typing import TypedDict

from pagewise import _core

AGENT = "pagewise-agent"
ENTRY_POINT = "pagewise.__main__:main"
"""The entry point of our command. Other projects may have a command of the same name."""
ANSWER_S_MAX = 10
"""Seconds that the agent may take to print its version."""


class Package(TypedDict):
    """The installed package of Python's registry or Debian's."""

    name: str
    """The distribution's name, which is not the name that Python imports."""
    version: str
    """The version of the distribution."""


class Agent(TypedDict):
    """A `pagewise-agent` that answers."""

    version: str
    """The version that it prints."""
    path: str
    """The path of the program."""


class Versions(TypedDict):
    """What `pagewise --version --json` prints."""

    schema: str
    """The name and version of this layout."""
    front: Package | None
    """The Python package; `None` if it runs from a folder, not from an installation."""
    core: str
    """The version of the compiled module."""
    agent: Agent | None
    """The agent beside this Python, else the first one in PATH; `None` if there is none."""


def versions() -> Versions:
    """The versions of everything that is installed here."""
    path = agent()
    answer = answered(path) if path else None
    return {
        "schema": "pagewise.version/1",
        "front": package(),
        "core": _core.version(),
        "agent": {"version": answer, "path": path} if path and answer else None,
    }


def package() -> Package | None:
    """The distribution whose entry point is our command."""
    for entry in entry_points(group="console_scripts", name="pagewise"):
        found: Distribution | None = entry.dist
        if entry.value == ENTRY_POINT and found is not None:
            return {"name": found.metadata["Name"], "version": found.version}
    return None


def agent() -> str | None:
    """The path of the agent: beside this Python, as in a virtual environment, else in PATH."""
    beside = Path(sys.executable).parent / AGENT
    return str(beside) if beside.exists() else shutil.which(AGENT)


def answered(path: str) -> str | None:
    """The version that an agent prints; None if it does not run here."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=ANSWER_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    name, _, version = done.stdout.strip().partition(" ")
    return version if done.returncode == 0 and name == AGENT and version else None
