"""Compiles the programs of bench/programs/sources whose source or command has changed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from programs.places import BINARIES, SOURCES

LIMIT_S = 240


@dataclass(frozen=True)
class Built:
    """A file in the folder of binaries, and the command that makes it."""

    name: str
    source: str
    words: Sequence[str]
    """The command; `SOURCE` and `OUTPUT` stand for paths, `BIN` for the folder of binaries."""
    needs: Sequence[str] = ()
    """Commands, or files by full path, that the command needs."""

    @property
    def path(self) -> Path:
        """The path of the compiled file."""
        return BINARIES / self.name


def c(name: str, *options: str, source: str = "", compiler: str = "gcc") -> Built:
    """A program in C or C++."""
    words = [compiler, "-O2", "-g", "-Wall", "-Wextra", "-pthread", "SOURCE", "-o", "OUTPUT"]
    needs = [compiler, *filter(None, (library(option) for option in options))]
    return Built(name, source or f"{name}.c", [*words, *options], needs)


def library(option: str) -> str | None:
    """The file that an option `-lNAME` links; None for other options and libc's own libraries."""
    if not option.startswith("-l") or option in ("-lm", "-ldl", "-lpthread"):
        return None
    return f"/usr/lib/x86_64-linux-gnu/lib{option[2:]}.so"


def build(built: Built) -> None:
    """Makes the file if its source or command has changed; raises CalledProcessError."""
    source = SOURCES / built.source
    mark = hashlib.sha256(source.read_bytes() + "\n".join(built.words).encode()).hexdigest()
    stamp = built.path.with_name(f".{built.name}.built")
    if built.path.exists() and stamp.exists() and stamp.read_text() == mark:
        return
    BINARIES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BINARIES) as folder:
        output = Path(folder) / built.name
        places = {"SOURCE": str(source), "OUTPUT": str(output), "BIN": str(BINARIES)}
        words = [replaced(word, places) for word in built.words]
        # Keeps go's caches out of the user's home folder.
        environment = os.environ | {"HOME": folder} if built.source.endswith(".go") else None
        subprocess.run(words, check=True, timeout=LIMIT_S, env=environment)
        output.rename(built.path)
    stamp.write_text(mark)


def replaced(word: str, places: dict[str, str]) -> str:
    """The word with each name replaced by its path."""
    for name, path in places.items():
        word = word.replace(name, path)
    return word
