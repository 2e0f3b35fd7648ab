"""What a program of the comparison is, and what of its outcome is compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from programs.building import Built

MIB = 1 << 20
Substitution = tuple[str, str]
"""A regular expression of lines, and what stands for it."""


@dataclass(frozen=True)
class Program:
    """One row: a command that ends by itself and says what it did."""

    name: str
    what: str
    words: Sequence[str]
    """The command; `FOLDER`, `SOURCES`, `INPUTS` and `BIN` in it stand for folders."""
    expects: str
    """A regular expression that the output of a stock run holds: the program did its work."""
    family: str = ""
    version: Sequence[str] = ()
    """A command that prints the version on one of its first lines."""
    needs: Sequence[str] = ()
    """Commands, or files by full path, without which it is skipped."""
    built: Sequence[Built] = ()
    """What is compiled from bench/programs/sources before it runs."""
    prepare: Callable[[Path], None] | None = None
    """Fills the folder in which it runs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    """What a stock run ends with; minus the number of a signal."""
    substitutions: Sequence[Substitution] = ()
    dropped: str = ""
    """A regular expression; lines that it finds are not compared."""
    is_sorted: bool = False
    """Threads or children print in any order, so lines are sorted before they are compared."""
    results: Sequence[str] = ()
    """Files of its folder that are compared, too."""
    text_results: Sequence[str] = ()
    """Files of its folder that are compared after the same normalisation as the output."""
    limit_s: float = 60
    group_bytes: int | None = None
    """Limit of the memory cgroup in which it runs."""
    has_swap: bool = False
    """The machine has a swap file while it runs, and the limit does not count what is there."""
    allocates_large: bool = False
    """It allocates large blocks in its work, so the library serves it."""
    cpu_ratio_most: float = 1.05
    """What its CPU time in `fast` may be of stock's."""
    is_together: bool = False
    """It waits more than it works: all modes run at once, one time."""
    is_quick: bool = False
    """It is in the short half, which tests/live runs."""

    def absent(self) -> str | None:
        """Why it cannot run here, if it cannot."""
        for need in (*self.needs, *(need for built in self.built for need in built.needs)):
            is_there = Path(need).exists() if "/" in need else shutil.which(need) is not None
            if not is_there:
                return f"{need} is missing"
        return None
