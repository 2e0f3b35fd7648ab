"""The catalog of commands: one module and one row each. Imports no slow module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import typer

from pagewise.commands import (
    advise,
    analyze,
    capture,
    curves,
    demo,
    devices,
    import_,
    info,
    list_,
    misses,
    pagesize,
    replay_kills,
    report,
    schema,
    simulate,
    slice_,
    study,
    sweep,
)

RECORDINGS = "Recordings"
QUESTIONS = "Questions"
ANSWERS = "Answers"
REFERENCE = "Reference"


@dataclass(frozen=True)
class Command:
    """A command: its name, its function, its heading in the help, and examples."""

    name: str
    run: Callable[..., int | None] | typer.Typer
    panel: str
    examples: tuple[str, ...]


COMMANDS = [
    Command("demo", demo.run, ANSWERS, demo.EXAMPLES),
    Command("import", import_.run, RECORDINGS, import_.EXAMPLES),
    Command("capture", capture.run, RECORDINGS, capture.EXAMPLES),
    Command("info", info.run, RECORDINGS, info.EXAMPLES),
    Command("slice", slice_.run, RECORDINGS, slice_.EXAMPLES),
    Command("analyze", analyze.run, QUESTIONS, analyze.EXAMPLES),
    Command("misses", misses.run, QUESTIONS, misses.EXAMPLES),
    Command("curves", curves.run, QUESTIONS, curves.EXAMPLES),
    Command("simulate", simulate.run, QUESTIONS, simulate.EXAMPLES),
    Command("sweep", sweep.run, QUESTIONS, sweep.EXAMPLES),
    Command("replay-kills", replay_kills.run, QUESTIONS, replay_kills.EXAMPLES),
    Command("study", study.run, ANSWERS, study.EXAMPLES),
    Command("advise", advise.app, ANSWERS, advise.EXAMPLES),
    Command("pagesize", pagesize.app, ANSWERS, pagesize.EXAMPLES),
    Command("report", report.run, ANSWERS, report.EXAMPLES),
    Command("devices", devices.app, REFERENCE, ()),
    Command("list", list_.run, REFERENCE, list_.EXAMPLES),
    Command("schema", schema.run, REFERENCE, schema.EXAMPLES),
]
