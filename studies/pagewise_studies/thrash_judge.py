"""What the checks of the thrash study share: their inputs, and a verdict with the cause as seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pagewise.launch_runs import LaunchRun
from pagewise_studies.thrash_phones import SWAP_OFF, Phones, series
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
    """The runs by phone, and what their recordings say by the name of the run."""

    phones: Phones
    storage: Mapping[str, Storage]


def verdict(
    name: str, readings: Sequence[Reading], runs: Iterable[LaunchRun], missing: str, cause: str = ""
) -> Verdict:
    """The verdict on ``runs``: ``missing`` is why there are no readings, if there are none, and
    ``cause`` what was seen in the runs where the check does not hold under every reading."""
    data = ", ".join(dict.fromkeys(run.name for run in runs))
    if not readings:
        return unmeasured(CHECKS[name], data, missing)
    return with_cause(judge(CHECKS[name], data, readings), cause)


def first_reason(reasons: Iterable[str]) -> str:
    """The first reason that is not empty; empty if all are."""
    return next(filter(None, reasons), "")


def compared(on: LaunchRun, other: LaunchRun) -> Choices:
    """A run with swap and the run it is compared with, as the choices of a reading."""
    second = "swap off" if other.mode == SWAP_OFF else "at 2 GB"
    return (("swap on", series(on)), (second, series(other)))
