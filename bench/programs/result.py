"""The comparison as one JSON object."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lazy.store import Store

from programs.catalog import PROGRAMS
from programs.claims import claims
from programs.measure import runs_of
from programs.modes import STOCK
from programs.places import BINARIES
from programs.program import Program
from programs.summary import summary

LIMIT_S = 60


def result(
    store: Store, skipped: Mapping[str, str], place: str, load: Mapping[str, float]
) -> dict[str, Any]:
    """All programs that ran, the skipped programs, and the claims."""
    ran = [program for program in PROGRAMS.values() if runs_of(store, program, STOCK)]
    rows = [summary(store, program) for program in ran]
    return {
        "schema": "pagewise.bench-programs/1",
        "place": place,
        "load": load,
        "rows": rows,
        "skipped": [{"program": name, "reason": reason} for name, reason in skipped.items()],
        "versions": versions(ran),
        "catalog": [
            {
                "program": program.name,
                "what": program.what,
                "normalisation": normalisation(program),
            }
            for program in ran
        ],
        "claims": [asdict(claim) for claim in claims(rows)],
    }


def versions(programs: list[Program]) -> dict[str, str]:
    """The version of each program; each command runs once."""
    commands = {("ldd", "--version"): "C library"}
    for program in programs:
        if program.version:
            commands.setdefault(tuple(program.version), program.name)
    return {name: version(words) for words, name in commands.items()}


def version(words: tuple[str, ...]) -> str:
    """The first line of a command's output that contains a digit."""
    command = [word.replace("BIN", str(BINARIES)) for word in words]
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    lines = (line.strip() for line in ran.stdout.splitlines() if re.search(r"\d", line))
    return next(lines, "unknown").replace("|", " ")


def normalisation(program: Program) -> str:
    """Describes how the program's output is changed before it is compared."""
    parts = [f"lines with `{escaped(program.dropped)}` dropped"] if program.dropped else []
    parts += [
        f"`{escaped(pattern)}` becomes `{escaped(replacement)}`"
        for pattern, replacement in program.substitutions
    ]
    return "; ".join(parts + (["lines sorted"] if program.is_sorted else []))


def escaped(text: str) -> str:
    """The text, escaped for a cell of a Markdown table."""
    return text.replace("|", "\\|")
