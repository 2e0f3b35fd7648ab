"""The completed runs, one JSON object per line, so that a comparison can resume.

A file holds runs of only one build: the first line names it. Runs of another build are moved aside.
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
class Measurement:
    """The figures of one run of one program under one allocator."""

    part: str
    program: str
    allocator: str
    round: int
    figures: Figures
    """Empty if the program failed; ``failure`` then has the reason."""
    failure: str | None = None
    load: float = 0.0
    """The machine's load average when it ended."""

    @property
    def key(self) -> Key:
        """The key that identifies the run."""
        return self.part, self.program, self.allocator, self.round


class Store:
    """The file of runs."""

    def __init__(self, path: Path, build: str) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0])["build"] != build:
            aside = path.with_suffix(".other-build.jsonl")
            print(f"runs of another build are moved to {aside}")
            path.rename(aside)
            lines = []
        if not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"build": build}) + "\n")
        self.runs = [Measurement(**json.loads(line)) for line in lines[1:]]
        self.keys = {run.key for run in self.runs}

    def add(self, run: Measurement) -> None:
        """Appends a run to the file."""
        self.runs.append(run)
        self.keys.add(run.key)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")


def build_of(sources: Iterable[Path]) -> str:
    """A name of the measured build, from the bytes of its files; absent files count as absent."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes() if path.exists() else b"absent")
    return digest.hexdigest()[:16]


def measured_files() -> list[Path]:
    """The library, its command, the measured programs, and the scripts that run them."""
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
