"""Inputs of the thrash study's checks, and verdicts with their causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pagewise.launch_runs import LaunchRun
from pagewise.units import MIB
from pagewise_studies.live_runs import emulated_files
from pagewise_studies.thrash_phones import Phones, series, state
from pagewise_studies.thrash_storage import Storage
from pagewise_studies.verdict import (
    Choices,
    Reading,
    Verdict,
    judge,
    load_checks,
    unmeasured,
    with_cause,
)

CHECKS = load_checks("thrash")


@dataclass(frozen=True)
class Inputs:
    """The runs by phone, and the storage analyses of their recordings by the name of the run."""

    phones: Phones
    storage: Mapping[str, Storage]


def verdict(
    name: str, readings: Sequence[Reading], runs: Iterable[LaunchRun], missing: str, cause: str = ""
) -> Verdict:
    """The verdict on ``runs``.

    ``missing``: the reason if there are no readings. ``cause``: the figures of the runs, which the
    verdict adds if the check does not hold under every reading.
    """
    data = ", ".join(dict.fromkeys(run.name for run in runs))
    if not readings:
        return unmeasured(CHECKS[name], data, missing)
    return with_cause(judge(CHECKS[name], data, readings), cause)


def first_reason(reasons: Iterable[str]) -> str:
    """The first reason that is not empty; empty if there is none."""
    return next(filter(None, reasons), "")


def choices_of(run: LaunchRun) -> Choices:
    """The budget and the storage of a run as choices of a reading."""
    budget_bytes = run.budget_bytes or 0
    return (
        ("budget", f"{budget_bytes / MIB:.0f} MiB"),
        ("storage", emulated_files(run) or "this disk"),
    )


def compared(on: LaunchRun, off: LaunchRun) -> Choices:
    """A run with swap and the run without, of the same setting, as the choices of a reading."""
    return (*choices_of(on), ("killer", state(off)))


def compared_phones(small: LaunchRun, large: LaunchRun) -> Choices:
    """Runs at 1 and at 2 GB as the choices of a reading."""
    return (("1 GB", series(small)), ("2 GB", series(large)))
