"""Commands that a user may look for in `pagewise`, and where they are."""

from __future__ import annotations

import typer

from pagewise.commands import COMMANDS

OF_AGENT = (
    "balloon",
    "completions",
    "doctor",
    "killd",
    "killtrace",
    "launch",
    "lazy",
    "manual",
    "pages",
    "record",
    "relaunchd",
    "swapd",
)
"""The commands of pagewise-agent."""


def place_of(name: str) -> str | None:
    """The program or the group that has a command of this name, as on a command line."""
    if name in OF_AGENT:
        return "pagewise-agent"
    for row in COMMANDS:
        group = row.run
        if isinstance(group, typer.Typer) and name in names_of(group):
            return f"pagewise {row.name}"
    return None


def names_of(group: typer.Typer) -> set[str | None]:
    """The names of the commands of a group."""
    return {command.name for command in group.registered_commands}
