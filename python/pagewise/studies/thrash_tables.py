"""The tables of the thrash study: launches, I/O, what a launch pays for swap, skew, hot data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from pagewise.studies.bootstrap import interval, ratio_interval
from pagewise.studies.launch_runs import LaunchRun
from pagewise.studies.table import Cell, Table
from pagewise.studies.thrash_phones import Phones, state
from pagewise.studies.thrash_storage import Storage
from pagewise.studies.visits import spread

MIB = 2**20
SECTIONS: tuple[tuple[str, int, int | None], ...] = (("first", 1, 1), ("later", 2, None))
"""Rounds that are summed up apart: every launch of the first is cold."""


def tables(
    runs: Sequence[LaunchRun], phones: Phones, storage: Mapping[str, Storage], seed: int
) -> list[Table]:
    """Every table, those without a row left out."""
    every = [
        launches(runs, seed),
        comparison(phones, seed),
        volume(runs, phones),
        killers(phones),
        skew(runs, storage),
        single_access(runs, storage),
        hot_data(runs, storage),
    ]
    return [table for table in every if table.rows]


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of a few values, between neighbours in proportion."""
    import numpy

    return float(numpy.quantile(values, share))


def launches(runs: Sequence[LaunchRun], seed: int) -> Table:
    """Mean, deviation and quantiles with their intervals."""
    rows: list[Sequence[Cell]] = []
    for run in runs:
        for name, first, last in SECTIONS:
            visits, times = run.during(first, last), run.launches(first, last)
            if not times:
                continue
            rows.append(
                [
                    run.name,
                    state(run),
                    name,
                    len(visits),
                    len(visits) - len(times),
                    sum(visit.is_cold for visit in visits) / len(visits),
                    fmean(times),
                    *interval(times, None, seed, f"{run.name} {name} mean"),
                    spread(times)[1],
                    median(times),
                    *interval(times, 0.5, seed, f"{run.name} {name} median"),
                    quantile(times, 0.9),
                    max(times),
                ]
            )
    columns: tuple[str, ...] = (
        "run",
        "state",
        "rounds",
        "visits",
        "unanswered",
        "cold",
        "mean",
        "from",
        "to",
    )
    columns += ("std", "median", "median from", "median to", "p90", "longest")
    return Table(
        "launches",
        "Launch times in seconds",
        "From request to first answer. Unanswered visits are in no figure. Intervals: bootstrap "
        "over visits, 95 %. *cold* is the share of visits that started the program anew.",
        columns,
        rows,
    )


def comparison(phones: Phones, seed: int) -> Table:
    """Launches and I/O with swap over those without."""
    rows: list[Sequence[Cell]] = []
    for phone in phones.each():
        for on, off in phone.pairs():
            for name, first, last in SECTIONS:
                above, below = on.launches(first, last), off.launches(first, last)
                if not above or not below:
                    continue
                label = f"{on.name} {off.name} {name}"
                rows.append(
                    [
                        phone.label(),
                        on.name,
                        f"{off.name} ({state(off)})",
                        name,
                        fmean(above) / fmean(below),
                        *ratio_interval(above, below, None, seed, f"{label} mean"),
                        median(above) / median(below),
                        *ratio_interval(above, below, 0.5, seed, f"{label} median"),
                        quantile(above, 0.9) / quantile(below, 0.9),
                    ]
                )
    columns = (
        "phone",
        "swap on",
        "swap off",
        "rounds",
        "mean",
        "from",
        "to",
        "median",
        "median from",
        "median to",
        "p90",
    )
    return Table(
        "comparison",
        "Launch times with swap over those without",
        "1 is the same, 2 twice as long. Intervals: bootstrap over visits, 95 %.",
        columns,
        rows,
    )


def volume(runs: Sequence[LaunchRun], phones: Phones) -> Table:
    """Storage I/O, and how much memory the applications wanted of what they got."""
    rows: list[Sequence[Cell]] = []
    for run in runs:
        visits = len(run.visits)
        wanted = max(
            (
                max(visit.memory_bytes for visit in other.visits)
                for other in phones.unlimited
                if other.applications == run.applications
            ),
            default=None,
        )
        rows.append(
            [
                run.name,
                state(run),
                None if run.budget_bytes is None else run.budget_bytes / MIB,
                wanted / run.budget_bytes if wanted and run.budget_bytes else None,
                len(run.applications),
                run.schedule,
                sum(visit.io_bytes for visit in run.visits) / MIB,
                *((run.io_bytes_per_visit(first) or 0) / MIB for first in (1, 2)),
                sum(visit.swap_bytes for visit in run.visits) / visits / MIB,
                sum(visit.file_refaults for visit in run.visits) / visits,
                sum(visit.kills for visit in run.visits),
                run.unfinished or "",
            ]
        )
    columns: tuple[str, ...] = (
        "run",
        "state",
        "budget, MiB",
        "wanted / budget",
        "apps",
        "schedule",
        "I/O, MiB",
    )
    columns += ("MiB a visit", "after the first round", "of it swap", "file refaults a visit")
    columns += ("kills", "ended early")
    return Table(
        "volume",
        "Storage I/O of each run",
        "Reads and writes of the whole machine during visits. *wanted* is the most memory that the "
        "same applications used in a run without a limit. Refaults are pages of files read again.",
        columns,
        rows,
    )


def killers(phones: Phones) -> Table:
    """The sweep of the killer's threshold, beside the same phone with swap."""
    rows: list[Sequence[Cell]] = []
    for phone in phones.each():
        by_threshold = sorted(phone.off, key=lambda run: run.threshold or 0.0)
        for run in (*by_threshold, *(phone.on if phone.off else ())):
            times = run.launches(2)
            visits = len(run.visits)
            rows.append(
                [
                    phone.label(),
                    run.name,
                    run.threshold,
                    sum(visit.kills for visit in run.visits) / visits,
                    sum(visit.is_cold for visit in run.visits) / visits,
                    (run.io_bytes_per_visit() or 0) / MIB,
                    sum(visit.file_refaults for visit in run.visits) / visits,
                    fmean(times) if times else None,
                    median(times) if times else None,
                    quantile(times, 0.9) if times else None,
                ]
            )
    columns: tuple[str, ...] = (
        "phone",
        "run",
        "threshold",
        "kills a visit",
        "cold",
        "I/O, MiB a visit",
    )
    columns += ("file refaults a visit", "launch mean, s", "median, s", "p90, s")
    return Table(
        "killers",
        "The killer's threshold",
        "Above this share of anonymous memory in the budget the application used longest ago is "
        "killed; no threshold: the same phone with swap. Launches are those after the first round.",
        columns,
        rows,
    )


def skew(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """How accesses fall on pages, over swap and over all storage apart."""
    rows = [
        [
            run.name,
            state(run),
            kind,
            analysis["pages"],
            analysis["accesses"],
            *(analysis["top_share"].get(share) for share in ("0.01", "0.05", "0.1", "0.25", "0.5")),
            analysis["pages_for_80_percent"],
        ]
        for run, kind, analysis in _analyses(runs, storage)
    ]
    columns: tuple[str, ...] = (
        "run",
        "state",
        "accesses to",
        "pages",
        "accesses",
        "top 1 %",
        "5 %",
        "10 %",
    )
    columns += ("25 %", "50 %", "pages for 80 %")
    return Table(
        "skew",
        "Skew: share of accesses of the busiest pages",
        "*swap*: pages that left memory and came back, by process and address; *all storage*: "
        "4 KiB blocks of every device, read and written.",
        columns,
        rows,
    )


def single_access(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """Pages that are accessed once, or swapped out once."""
    rows = [
        [
            run.name,
            state(run),
            kind,
            analysis["single_access"]["pages"],
            analysis["single_access"]["accesses"],
            single_out.get("pages"),
            single_out.get("outs"),
        ]
        for run, kind, analysis in _analyses(runs, storage)
        for single_out in [analysis.get("single_out") or {}]
    ]
    columns: tuple[str, ...] = (
        "run",
        "state",
        "accesses to",
        "pages",
        "accesses",
        "pages out once",
        "of page-outs",
    )
    return Table(
        "single-access",
        "Single accesses",
        "Share of pages with one access, and of accesses that fall on them; of swapped pages also "
        "those that went out once, and their share of page-outs.",
        columns,
        rows,
    )


def hot_data(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """What the busiest 10 % of pages are."""
    rows = [
        [run.name, state(run), kind, name.replace("_", " "), share["pages"], share["accesses"]]
        for run, kind, analysis in _analyses(runs, storage)
        for name, share in (analysis.get("top_10_percent_classes") or {}).items()
    ]
    return Table(
        "hot-data",
        "What the busiest 10 % of pages are",
        "Shares of those pages, and of the accesses to them, by class of the page.",
        ("run", "state", "accesses to", "class", "pages", "accesses"),
        rows,
    )


def _analyses(
    runs: Iterable[LaunchRun], storage: Mapping[str, Storage]
) -> Iterator[tuple[LaunchRun, str, Mapping[str, Any]]]:
    for run in runs:
        for kind, analysis in storage[run.name].analyses.items():
            yield run, kind, analysis
