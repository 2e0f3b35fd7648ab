"""The catalog of commands: one module and one row each.

A module is imported when its function or its examples are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import typer

RECORDINGS = "Recordings"
QUESTIONS = "Questions"
ANSWERS = "Answers"
REFERENCE = "Reference"


@dataclass(frozen=True)
class Command:
    """A command: its name, its module in this package, and its heading in the help."""

    name: str
    module: str
    panel: str

    @property
    def run(self) -> Callable[..., int | None] | typer.Typer:
        """The function of the command, or its group of commands."""
        module = self._loaded()
        found: Callable[..., int | None] | typer.Typer = getattr(module, "app", None) or module.run
        return found

    @property
    def examples(self) -> tuple[str, ...]:
        """Command lines for the help."""
        return getattr(self._loaded(), "EXAMPLES", ())

    @property
    def settings(self) -> dict[str, object]:
        """How the command line of this command is read, where that is not as usual."""
        return getattr(self._loaded(), "SETTINGS", {})

    def _loaded(self) -> ModuleType:
        return import_module(f"{__name__}.{self.module}")


COMMANDS = [
    Command("demo", "demo", ANSWERS),
    Command("import", "import_", RECORDINGS),
    Command("capture", "capture", RECORDINGS),
    Command("remote", "remote", RECORDINGS),
    Command("info", "info", RECORDINGS),
    Command("slice", "slice_", RECORDINGS),
    Command("analyze", "analyze", QUESTIONS),
    Command("misses", "misses", QUESTIONS),
    Command("curves", "curves", QUESTIONS),
    Command("simulate", "simulate", QUESTIONS),
    Command("sweep", "sweep", QUESTIONS),
    Command("launches", "launches", QUESTIONS),
    Command("kills", "kills", QUESTIONS),
    Command("pressure", "pressure", QUESTIONS),
    Command("replay-kills", "replay_kills", QUESTIONS),
    Command("study", "study", ANSWERS),
    Command("advise", "advise", ANSWERS),
    Command("pagesize", "pagesize", ANSWERS),
    Command("report", "report", ANSWERS),
    Command("devices", "devices", REFERENCE),
    Command("list", "list_", REFERENCE),
    Command("schema", "schema", REFERENCE),
]
