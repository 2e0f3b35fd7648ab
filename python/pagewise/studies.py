"""The catalog of studies: what the package pagewise-studies names in its entry points.

A study depends on pagewise, and nothing in pagewise on a study, so that an installation can do
without them. The lookup reads files of every installed package: only commands that need it make it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.errors import Missing, UsageError

if TYPE_CHECKING:
    from pagewise.comparisons import StudyResult

GROUP = "pagewise.studies"
"""The group of the entry points, each of which names a `Study`."""
INSTALL = (
    "in the folder of pagewise's source: `make build`, or "
    "`.venv/bin/python -m pip install ./studies`"
)
"""The hint where there is no study."""


@dataclass(frozen=True)
class Study:
    """A paper's experiment or a question: inputs to figures, tables and verdicts.

    ``module`` has the function ``study``; ``example`` is a command that runs it. ``reads_runs``:
    it reads runs of the launch lab, which may be invalid.
    """

    name: str
    summary: str
    module: str
    example: str
    of_runs: bool = False
    simulates: bool = False
    has_live: bool = False
    reads_runs: bool = False

    @property
    def run(self) -> Callable[..., StudyResult]:
        """Loads the study, which the help need not.

        A study of recordings: ``run(recordings, output, seeds=, progress=)`` gives the result, from
        the folder with the recordings. A study of launch runs (``of_runs``): ``run(folders, output,
        seed=, progress=)``, from the folders of the runs, or the recordings of allocations. Both
        write NAME.json, NAME.md and a CSV file for each figure to ``output``. A study that
        ``reads_runs`` also takes ``allow_invalid=``: whether to take runs that say they can carry
        no verdict, with every row marked; without it, they are a UsageError.
        """
        study: Callable[..., StudyResult] = import_module(self.module).study
        return study

    @property
    def simulate(self) -> Callable[..., StudyResult]:
        """Loads the simulated form, where there is one (``simulates``), called as a study of
        recordings is."""
        module = import_module(f"{self.module}_simulated")
        simulated: Callable[..., StudyResult] = module.simulated
        return simulated

    @property
    def live(self) -> Callable[..., StudyResult]:
        """Loads the form on launch runs of a study of recordings, where there is one
        (``has_live``), called as a study of launch runs is."""
        live: Callable[..., StudyResult] = import_module(f"{self.module}_live").live
        return live


def studies() -> list[Study]:
    """Every installed study by name; none where the package is not installed."""
    from importlib.metadata import entry_points

    found: list[Study] = [point.load() for point in entry_points(group=GROUP)]
    return sorted(found, key=lambda study: study.name)


def refuse_foreign(folder: Path, name: str, files: Sequence[str] = ()) -> None:
    """Raises UsageError if a result or one of ``files`` would replace a file of another origin.

    The files in ``folder`` are the study's own if NAME.json there is a result of the study.
    """
    result = f"{name}.json"
    if _is_result(folder / result, name):
        return
    for file in (result, f"{name}.md", *files):
        path = folder / file
        if os.path.lexists(path):
            raise UsageError(
                f"{path}: exists, and study {name} did not make it",
                hint="give another folder with -o, or move the file away",
            )


def _is_result(path: Path, name: str) -> bool:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("study") == name


def none_installed() -> Missing:
    """The error where a study is asked for and none is installed."""
    return Missing("the studies are a package of their own, not installed here", hint=INSTALL)
