"""Launch runs that a study compares with each other: whole runs of the same plan."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from pagewise import _core
from pagewise.errors import UnreadableInput, UsageError
from pagewise.launch_runs import LaunchRun, read_runs
from pagewise.units import format_figure
from pagewise_studies.runs import LATENCIES
from pagewise_studies.verdict import Check, Reading, Verdict, judge

NAMES = frozenset({"name", "include"})
"""Entries of a plan that change nothing in a run."""
LATER = 3
"""The first round that counts: every application has been started, and frozen once, before."""
RUNS_MIN = 2
"""The fewest runs of each kind that show how much runs differ by themselves."""
FEW = f"needs {RUNS_MIN} runs of each or more, to see how much runs differ by themselves"


def read_comparable(
    folders: Sequence[Path], free: Collection[str], *, allow_invalid: bool
) -> list[LaunchRun]:
    """The runs in ``folders`` by their start, whose plans may differ only in the entries ``free``.

    Raises UnreadableInput for a run that ended early, and UsageError for a run that is given twice,
    has another plan, or can carry no verdict (except with ``allow_invalid``).
    """
    runs = sorted(read_runs(folders, allow_invalid=allow_invalid), key=lambda run: run.start_ns)
    for run in runs:
        if run.unfinished:
            raise UnreadableInput(
                f"{run.folder}: the run ended early: {run.unfinished}",
                path=str(run.folder),
                hint="run its plan again, or leave this folder out",
            )
    refuse_different(runs, free)
    refuse_twice(runs)
    return runs


def refuse_different(
    runs: Sequence[LaunchRun], free: Collection[str], hint: str | None = None
) -> None:
    """Raises UsageError for runs whose plans differ in entries other than ``free``."""
    first = runs[0]
    for run in runs:
        if differing := _differing(first, run, NAMES.union(free)):
            raise UsageError(
                f"{run.folder} and {first.folder} ran different plans: they differ in "
                f"{', '.join(differing)}",
                path=str(run.folder),
                hint=hint
                or "give runs of one plan, which may differ in " + ", ".join(sorted(free)),
            )


def refuse_twice(runs: Iterable[LaunchRun]) -> None:
    """Raises UsageError for a run that is given twice."""
    ordered = sorted(runs, key=lambda run: run.start_ns)
    for run, next_run in itertools.pairwise(ordered):
        if run.start_ns == next_run.start_ns:
            raise UsageError(
                f"{run.folder} and {next_run.folder} are the same run",
                path=str(next_run.folder),
                hint="give each run once",
            )


def _differing(run: LaunchRun, other: LaunchRun, free: Collection[str]) -> list[str]:
    names = sorted((run.plan.keys() | other.plan.keys()) - set(free))
    return [name for name in names if run.plan.get(name) != other.plan.get(name)]


def ruled(check: Check, data: str, readings: Sequence[Reading], lacking: str) -> Verdict:
    """The verdict on readings. Their figures are shown without a ruling if only runs are lacking;
    under other conditions than the check's they would mislead."""
    return judge(check, data, readings if lacking in ("", FEW) else [], lacking)


def emulated(run: LaunchRun) -> str:
    """The device as which slow the run's swap and files were; empty if they were the machine's."""
    tiers = run.plan.get("tiers")
    emulate = tiers.get("emulate") if isinstance(tiers, dict) else None
    slow = emulate.get("slow") if isinstance(emulate, dict) else None
    return str(slow) if slow is not None and slow == emulated_files(run) else ""


def emulated_files(run: LaunchRun) -> str:
    """The device as which slow the run's files were; empty if they were the machine's."""
    storage = run.plan.get("storage")
    return str(storage.get("files", "")) if isinstance(storage, dict) else ""


def faster_than_phones(run: LaunchRun) -> str:
    """Why the launches of a run say nothing about a phone's storage; empty if they do.

    Storage counts as a phone's if reading a page takes as long as under one of `LATENCIES`.
    """
    wanted = "needs runs with tiers.emulate and storage of the same device, such as emmc-5.1"
    device = emulated(run)
    if not device:
        return f"the storage of this machine may be faster than a phone's: {wanted}"
    read_us = _core.device(device)["read_ns"]["typical"] / 1000
    if read_us < min(latencies.slow_read_us for latencies in LATENCIES):
        return f"{device} reads a page in {format_figure(read_us)} us, faster than phones: {wanted}"
    return ""
