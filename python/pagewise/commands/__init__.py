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
    """A command: its name, its module in this package, and its heading and line in the help."""

    name: str
    module: str
    panel: str
    summary: str
    """The first paragraph of the help, which `pagewise --help` shows without loading the module."""

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
    Command(
        "demo",
        "demo",
        ANSWERS,
        "Analyze the recordings in examples/, recommend a swap architecture, and write a report.",
    ),
    Command(
        "import",
        "import_",
        RECORDINGS,
        "Convert recordings of any known format to one trace file.",
    ),
    Command(
        "capture",
        "capture",
        RECORDINGS,
        "Run a program and record its memory references: instructions, reads and writes.",
    ),
    Command(
        "remote",
        "remote",
        RECORDINGS,
        "Run pagewise-agent on another device, over ssh or adb, and bring its recording back.",
    ),
    Command(
        "info",
        "info",
        RECORDINGS,
        "Show what a recording holds, what is absent or lost, and which analyses that rules out.",
    ),
    Command(
        "slice",
        "slice_",
        RECORDINGS,
        "Copy the events between two times of a trace to a new trace.",
    ),
    Command(
        "analyze",
        "analyze",
        QUESTIONS,
        "Show how skewed the accesses are, how many pages are used once, and what memory would "
        "help.",
    ),
    Command(
        "misses",
        "misses",
        QUESTIONS,
        "Count the exact misses of eviction policies at given memory sizes.",
    ),
    Command(
        "curves",
        "curves",
        QUESTIONS,
        "Count TLB misses and page faults for every page size, exactly, in one pass.",
    ),
    Command(
        "simulate",
        "simulate",
        QUESTIONS,
        "Replay a recording on two tiers of swap, and count reads, writes, time and wear.",
    ),
    Command(
        "sweep",
        "sweep",
        QUESTIONS,
        "Run all combinations of traces, architectures or policies, options, sizes, devices and "
        "seeds.",
    ),
    Command(
        "launches",
        "launches",
        QUESTIONS,
        "Show when apps were launched, and what each launch waited for.",
    ),
    Command(
        "kills",
        "kills",
        QUESTIONS,
        "Show which processes were killed in a system trace, why, and who came back soon.",
    ),
    Command(
        "pressure",
        "pressure",
        QUESTIONS,
        "Show intervals of reclaim, refaults and thrashing in a system trace, with their causes.",
    ),
    Command(
        "replay-kills",
        "replay_kills",
        QUESTIONS,
        "Show which processes kill policies would have killed in a recording, when and why.",
    ),
    Command(
        "study",
        "study",
        ANSWERS,
        "Repeat a paper's experiment, and show which of its claims hold, and why.",
    ),
    Command(
        "advise",
        "advise",
        ANSWERS,
        "Print the settings to use, the evidence for them, and how to undo them.",
    ),
    Command(
        "pagesize",
        "pagesize",
        ANSWERS,
        "Choose the page size of a program, and check whether the program runs with it. "
        "Without a command name, runs choose.",
    ),
    Command(
        "report",
        "report",
        ANSWERS,
        "Write any mix of results as one HTML file, which needs no network to open.",
    ),
    Command(
        "export",
        "export",
        ANSWERS,
        "Write results as metrics for Prometheus, or as a timeline for ui.perfetto.dev.",
    ),
    Command(
        "devices",
        "devices",
        REFERENCE,
        "List the devices that --fast and --slow accept, or measure your own disk.",
    ),
    Command(
        "list",
        "list_",
        REFERENCE,
        "List everything that commands accept by name, such as formats, policies and devices.",
    ),
    Command(
        "schema",
        "schema",
        REFERENCE,
        "Print the JSON Schema of a result: every field with its type, range and meaning.",
    ),
]
