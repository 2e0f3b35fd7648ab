"""The reference pages that the build writes: commands from their help, functions from the package.

The help of the agent is in them if the agent was built.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pagewise
from pagewise.commands import COMMANDS, Command

AGENT = Path(sys.executable).with_name("pagewise-agent")
WIDTH = 100
"""Columns of the help texts."""


def write(docs: Path) -> None:
    """Writes commands.md and api.md into the folder of the pages."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "commands.md").write_text(commands())
    (docs / "api.md").write_text(functions())


def commands() -> str:
    """The page of the command lines, from `--help` of each command."""
    parts = ["# Command lines\n", "The help texts of this version, as `--help` prints them.\n"]
    parts += ["## pagewise\n", block([sys.executable, "-m", "pagewise", "--help"])]
    for row in COMMANDS:
        for words in [[row.name], *([row.name, name] for name in parts_of(row))]:
            command = [sys.executable, "-m", "pagewise", *words, "--help"]
            parts += [f"### pagewise {' '.join(words)}\n", block(command)]
    parts.append("## pagewise-agent\n")
    if not AGENT.exists():
        return "\n".join([*parts, "The agent was not built, so its help is missing here.\n"])
    parts.append(block([str(AGENT), "--help"]))
    for name in names_of_agent():
        parts += [f"### pagewise-agent {name}\n", block([str(AGENT), name, "--help"])]
    return "\n".join(parts)


def parts_of(row: Command) -> list[str]:
    """The names of the commands of a group, such as `swap` of `advise`."""
    commands = getattr(row.run, "registered_commands", [])
    return [command.name for command in commands if command.name]


def names_of_agent() -> list[str]:
    """The names of the agent's commands, from its help."""
    _, _, listing = printed([str(AGENT), "--help"]).partition("Commands:\n")
    rows = [line.split() for line in listing.split("\n\n")[0].splitlines() if line[2:3].strip()]
    return [words[0] for words in rows if words[0] != "help"]


def block(command: list[str]) -> str:
    """What a command prints, as a block of code."""
    return f"````text\n{printed(command).rstrip()}\n````\n"


def printed(command: list[str]) -> str:
    """The standard output of a command."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, env=environment
    )
    return run.stdout


def functions() -> str:
    """The page of the Python package: each name of `pagewise.__all__`, with its docstring."""
    heading = "# Functions of the Python package\n\n[python.md](python.md) introduces them. Their "
    heading += "results are dictionaries; [results.md](results.md) has each field.\n"
    errors, others = [], []
    for name in pagewise.__all__:
        found = getattr(pagewise, name)
        if isinstance(found, type) and issubclass(found, Exception):
            errors.append(directive("autoexception", name))
        elif isinstance(found, type):
            others.append(directive("autoclass", name, members=True))
        else:
            others.append(directive("autofunction", name))
    return "\n".join([heading, *others, "## Errors\n", *errors])


def directive(kind: str, name: str, *, members: bool = False) -> str:
    """The directive of Sphinx that writes the entry of a name."""
    options = "   :members:\n" if members else ""
    return f"```{{eval-rst}}\n.. {kind}:: pagewise.{name}\n{options}```\n"
