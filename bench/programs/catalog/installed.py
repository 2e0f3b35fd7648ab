"""Rows of commands that the machine has installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from programs.program import Program


def installed(
    name: str,
    what: str,
    words: Sequence[str],
    command: str = "",
    version: str = "--version",
    **more: Any,
) -> Program:
    """A row that needs `command`, by default its first word, and prints its version."""
    command = command or words[0]
    return Program(
        name=name,
        what=what,
        words=words,
        version=[command, version],
        needs=[command],
        **more,
    )
