"""Reasons for verdicts, in figures of the judged runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from pagewise.launch_runs import LaunchRun
from pagewise.types import ClassShare
from pagewise.units import MIB
from pagewise_studies.thrash_phones import Phone, state
from pagewise_studies.thrash_storage import Storage


def io_cause(phone: Phone) -> str:
    """The parts of the I/O of each run of a phone."""
    return "; ".join(map(_io, (*phone.on, *phone.off)))


def _io(run: LaunchRun) -> str:
    visits = len(run.visits)
    refaults = sum(visit.file_refaults for visit in run.visits) / visits
    parts = [f"{run.name} ({state(run)}): {run.io_bytes / visits / MIB:.0f} MiB a visit"]
    if run.io_bytes and run.swap_bytes:
        parts.append(f"{min(1.0, run.swap_bytes / run.io_bytes) * 100:.0f} % of it swap")
    parts.append(f"{refaults:,.0f} file pages read again a visit")
    if run.kills:
        parts.append(f"{run.kills / visits:.1f} kills a visit")
    if run.oom_kills:
        ended = run.oom_kills / visits
        parts.append(f"{ended:.2f} processes a visit killed by the kernel when memory ran out")
    return ", ".join(parts)


def launch_cause(runs: Iterable[LaunchRun], first: int, last: int | None = None) -> str:
    """Median cold launch and median warm launch in some rounds of each run."""
    return "; ".join(
        f"{run.name} ({state(run)}): {', '.join(parts)}"
        for run in runs
        for parts in [_by_warmth(run, first, last)]
        if parts
    )


def _by_warmth(run: LaunchRun, first: int, last: int | None) -> list[str]:
    parts = []
    for word, is_cold in (("cold", True), ("warm", False)):
        times = [
            visit.launch_s
            for visit in run.during(first, last)
            if visit.is_cold == is_cold and visit.launch_s is not None
        ]
        if times:
            parts.append(f"{len(times)} {word} launches of {median(times):.2f} s")
    lost = sum(visit.launch_s is None for visit in run.during(first, last))
    return [*parts, f"{lost} without an answer"] if lost else parts


def skew_cause(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> str:
    """The share of single-access pages, which flatten a skew, and classes of the busiest pages."""
    return "; ".join(
        f"{run.name} ({state(run)}), {counted}: {analysis['single_access']['pages'] * 100:.0f} % "
        f"of pages accessed once, the top 10 % take {analysis['top_share']['0.1'] * 100:.0f} %"
        f"{_classes(analysis['top_10_percent_classes'] or {})}"
        for run in runs
        for counted, analysis in storage[run.name].analyses.items()
    )


def _classes(classes: Mapping[str, ClassShare]) -> str:
    """The two most frequent classes among the busiest pages."""
    largest = sorted(classes.items(), key=lambda row: -row[1]["pages"])[:2]
    parts = [f"{row['pages'] * 100:.0f} % {name.replace('_', ' ')}" for name, row in largest]
    return f" and are {', '.join(parts)}" if parts else ""
