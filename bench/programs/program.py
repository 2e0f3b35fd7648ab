"""A program of the comparison, and which parts of its outcome are compared."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from programs.building import Built

MIB = 1 << 20
Substitution = tuple[str, str]
"""A regular expression, and its replacement."""


@dataclass(frozen=True)
class Program:
    """One row of the catalog: a command that ends by itself and prints a result."""

    name: str
    what: str
    words: Sequence[str]
    """The command; `FOLDER`, `SOURCES`, `INPUTS` and `BIN` in it stand for folders."""
    expects: str
    """A regular expression that must match the outcome of a stock run, as proof of its work."""
    caller: Sequence[str] = ()
    """A prefix before that of the mode, such as a shell that closes streams."""
    family: str = ""
    version: Sequence[str] = ()
    """A command that prints the version on one of its first lines."""
    needs: Sequence[str] = ()
    """Commands, or files by full path; the program is skipped if one is missing."""
    probe: Sequence[str] = ()
    """A command that fails on machines where the program cannot work."""
    built: Sequence[Built] = ()
    """Files to compile from bench/programs/sources before it runs."""
    prepare: Callable[[Path], None] | None = None
    """Fills the folder in which it runs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    """The exit status of a stock run, or a negative signal number."""
    substitutions: Sequence[Substitution] = ()
    dropped: str = ""
    """A regular expression; matching lines are not compared."""
    is_sorted: bool = False
    """Threads or children print in any order, so lines are sorted before they are compared."""
    results: Sequence[str] = ()
    """Files of its folder that are compared byte by byte."""
    text_results: Sequence[str] = ()
    """Files of its folder that are compared after the same normalisation as the output."""
    limit_s: float = 60
    group_bytes: int | None = None
    """Limit of the memory cgroup in which it runs."""
    has_swap: bool = False
    """Whether the program runs with a swap file; swapped memory does not count for the group."""
    allocates_large: bool = False
    """Whether the program allocates large blocks: the library serves it, without a CPU limit."""
    cpu_ratio_most: float = 1.05
    """The highest ratio of its CPU time in `fast` to stock's."""
    is_together: bool = False
    """Whether the program mostly waits, so that all modes run at the same time, once."""
    is_served: bool | None = None
    """Whether the library must serve the program; None: if it allocates large blocks."""
    is_quick: bool = False
    """tests/live runs it, too."""

    @property
    def must_be_served(self) -> bool | None:
        """Whether the library must serve the program, must not, or (None) may."""
        return (self.allocates_large or None) if self.is_served is None else self.is_served

    def absent(self) -> str | None:
        """The reason why the program cannot run on this machine, or None."""
        for need in (*self.needs, *(need for built in self.built for need in built.needs)):
            exists = Path(need).exists() if "/" in need else shutil.which(need) is not None
            if not exists:
                return f"{need} is missing"
        if not self.probe:
            return None
        probe = subprocess.run(self.probe, capture_output=True, text=True, timeout=self.limit_s)
        return f"{self.name} fails here: {probe.stderr.strip()}" if probe.returncode else None
