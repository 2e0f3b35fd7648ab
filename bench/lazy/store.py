"""The runs done so far, one JSON object a line, so that a comparison can be resumed.

A file holds runs of one build only: the first line names it. Runs of another build are set aside.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lazy.places import AGENT, PROGRAMS

Figures = dict[str, Any]
Key = tuple[str, str, str, int]
"""Part, program, allocator, round."""


@dataclass(frozen=True)
class Run:
    """What one run of one program under one allocator gave."""

    part: str
    program: str
    allocator: str
    round: int
    figures: Figures
    """Empty where the program failed; then ``failure`` says how."""
    failure: str | None = None
    load: float = 0.0
    """The machine's load average when it ended."""

    @property
    def key(self) -> Key:
        """What makes it the same run."""
        return self.part, self.program, self.allocator, self.round


class Store:
    """The file of runs."""

    def __init__(self, path: Path, build: str) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0])["build"] != build:
            aside = path.with_suffix(".other-build.jsonl")
            print(f"runs of another build are set aside as {aside}")
            path.rename(aside)
            lines = []
        if not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"build": build}) + "\n")
        self.runs = [Run(**json.loads(line)) for line in lines[1:]]
        self.keys = {run.key for run in self.runs}

    def add(self, run: Run) -> None:
        """Keeps a run, on disk at once."""
        self.runs.append(run)
        self.keys.add(run.key)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")


def build_of(sources: Iterable[Path]) -> str:
    """Names what is measured by the bytes of its files; absent ones count as absent."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes() if path.exists() else b"absent")
    return digest.hexdigest()[:16]


def measured_files() -> list[Path]:
    """The library, its command, the programs that are run, and what says how."""
    beside: Sequence[Path] = [
        path
        for folder in (AGENT.parent, AGENT.parent.parent / "lib")
        for path in folder.glob("libpagewise_lazy.so")
    ]
    how = [
        *(PROGRAMS.parent / name for name in ("allocators.py", "backing.py")),
        *(PROGRAMS.parent / "parts").glob("*.py"),
    ]
    return [AGENT, *beside, *how, *(path for path in PROGRAMS.iterdir() if path.is_file())]


def load() -> float:
    """The machine's load average over the last minute."""
    return round(os.getloadavg()[0], 1)
