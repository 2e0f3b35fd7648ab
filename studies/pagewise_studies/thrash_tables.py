"""The tables of the thrash study: launches, I/O, the killer's threshold, skew, hot data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median

from pagewise.bootstrap import Nested, nested_interval, nested_ratio_interval
from pagewise.launch_runs import LaunchRun
from pagewise.types import ClassShare
from pagewise.units import MIB
from pagewise_studies.figure import spread
from pagewise_studies.repeats import Repeats
from pagewise_studies.table import Row, Table
from pagewise_studies.thrash_phones import Phones, conditions, series
from pagewise_studies.thrash_storage import TOP_SHARES, SkewOfAccesses, Storage

SECTIONS: tuple[tuple[str, int, int | None], ...] = (("first", 1, 1), ("later", 2, None))
"""Rounds with separate rows: if applications take turns, each launch of the first round is cold."""


def tables(
    plans: Sequence[Repeats], phones: Phones, storage: Mapping[str, Storage], seed: int
) -> list[Table]:
    """Every table that has rows."""
    runs = [plan.pooled for plan in plans]
    every = [
        repeated(plans),
        launches(runs, seed),
        comparison(phones, seed),
        volume(plans, phones),
        killers(phones),
        skew(runs, storage),
        single_access(runs, storage),
        hot_data(runs, storage),
    ]
    return [table for table in every if table.rows]


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, interpolated linearly between neighbouring values."""
    import numpy

    return float(numpy.quantile(values, share))


def repeated(plans: Sequence[Repeats]) -> Table:
    """The table of headline figures with what they differ by from repeat to repeat."""
    return Table(
        "repeats",
        "How much repeats differ",
        "Means over the runs of each plan, and the least and the most of one run. Launches are "
        "those after the first round.",
        list(_repeated(plans)),
    )


def _repeated(plans: Sequence[Repeats]) -> Iterator[Row]:
    for plan in plans:
        for name, figure in HEADLINES if len(plan.each) > 1 else ():
            values = [value for value in map(figure, plan.each) if value is not None]
            if values:
                yield {
                    "run": series(plan.pooled),
                    "runs": len(plan.each),
                    "figure": name,
                    "mean": fmean(values),
                    "least": min(values),
                    "most": max(values),
                }


def _mean_launch(run: LaunchRun) -> float | None:
    times = run.launches(2)
    return fmean(times) if times else None


def later_median(run: LaunchRun) -> float | None:
    """The median launch after the first round; None if no launch was answered."""
    times = run.launches(2)
    return median(times) if times else None


HEADLINES: tuple[tuple[str, Callable[[LaunchRun], float | None]], ...] = (
    ("mean launch, s", _mean_launch),
    ("median launch, s", later_median),
    ("I/O, MiB a visit", lambda run: (run.io_bytes_per_visit() or 0) / MIB),
)


def launches(runs: Sequence[LaunchRun], seed: int) -> Table:
    """The table of launch times: mean, deviation and quantiles, with intervals."""
    return Table(
        "launches",
        "Launch times in seconds",
        "From request to first answer, without unanswered visits. *Cold*: share of visits that "
        "started the program. *From* and *to*: 95 % intervals by bootstrap over applications, runs "
        "and visits.",
        list(_launches(runs, seed)),
        shares=("cold",),
    )


def _launches(runs: Sequence[LaunchRun], seed: int) -> Iterator[Row]:
    for run, (name, first, last) in itertools.product(runs, SECTIONS):
        visits, times = run.during(first, last), run.launches(first, last)
        if not times:
            continue
        nested, label = by_app_and_run(run, first, last), f"{run.name} {name}"
        mean_low, mean_high = nested_interval(nested, None, seed, f"{label} mean")
        median_low, median_high = nested_interval(nested, 0.5, seed, f"{label} median")
        yield {
            "run": series(run),
            "rounds": name,
            "visits": len(visits),
            "unanswered": len(visits) - len(times),
            "cold": fmean(visit.is_cold for visit in visits),
            "mean": fmean(times),
            "from": mean_low,
            "to": mean_high,
            "std": spread(times)[1],
            "median": median(times),
            "median from": median_low,
            "median to": median_high,
            "p90": quantile(times, 0.9),
            "longest": max(times),
        }


def by_app_and_run(run: LaunchRun, first: int, last: int | None) -> Nested:
    """Launch times of some rounds by application and repeat."""
    found: dict[str, dict[int, list[float]]] = {}
    for visit in run.during(first, last):
        if visit.launch_s is not None:
            found.setdefault(visit.app, {}).setdefault(visit.repeat, []).append(visit.launch_s)
    return {app: list(runs.values()) for app, runs in found.items()}


def comparison(phones: Phones, seed: int) -> Table:
    """The table of launch times with swap, in any mode, over launch times without."""
    return Table(
        "comparison",
        "Launch times with swap, relative to those without",
        "1 is the same, 2 is twice as long with swap. *From* and *to*: 95 % intervals by bootstrap "
        "over applications, runs and visits.",
        list(_comparison(phones, seed)),
    )


def _comparison(phones: Phones, seed: int) -> Iterator[Row]:
    for phone in phones.each():
        pairs = itertools.product((*phone.on, *phone.other), phone.off, SECTIONS)
        for on, off, (name, first, last) in pairs:
            above, below = on.launches(first, last), off.launches(first, last)
            if not above or not below or conditions(on) != conditions(off):
                continue
            label = f"{on.name} {off.name} {name}"
            sides = by_app_and_run(on, first, last), by_app_and_run(off, first, last)
            mean_low, mean_high = nested_ratio_interval(*sides, None, seed, f"{label} mean")
            median_low, median_high = nested_ratio_interval(*sides, 0.5, seed, f"{label} median")
            yield {
                "with swap": series(on),
                "without": series(off),
                "phone": phone.label(),
                "rounds": name,
                "mean": fmean(above) / fmean(below),
                "from": mean_low,
                "to": mean_high,
                "median": median(above) / median(below),
                "median from": median_low,
                "median to": median_high,
                "p90": quantile(above, 0.9) / quantile(below, 0.9),
            }


def volume(plans: Sequence[Repeats], phones: Phones) -> Table:
    """The table of storage I/O, and of the memory that applications wanted over their budget."""
    return Table(
        "volume",
        "Storage I/O of each run",
        "Reads and writes of the whole machine during visits, as means over repeats. *After the "
        "first round*: MiB a visit. *Wanted*: the most memory, file pages included, that the same "
        "applications used in a run without a limit. *Refaults*: file pages read again.",
        [_volume(plan, phones) for plan in plans],
    )


def _volume(plan: Repeats, phones: Phones) -> Row:
    run = plan.pooled
    wanted_bytes = max(
        (
            visit.memory_bytes
            for other in phones.unlimited
            if other.applications == run.applications
            for visit in other.visits
        ),
        default=None,
    )
    budget = run.budget_bytes
    return {
        "run": series(run),
        "schedule": run.schedule,
        "ended early": run.unfinished or "",
        "apps": len(run.applications),
        "budget, MiB": budget / MIB if budget else None,
        "wanted / budget": wanted_bytes / budget if wanted_bytes and budget else None,
        "I/O, MiB": plan.mean_of(lambda run: run.io_bytes / MIB),
        "MiB a visit": (run.io_bytes_per_visit() or 0) / MIB,
        "after the first round": (run.io_bytes_per_visit(2) or 0) / MIB,
        "swap, MiB a visit": run.swap_bytes / len(run.visits) / MIB,
        "file refaults a visit": fmean(visit.file_refaults for visit in run.visits),
        "kills": plan.mean_of(lambda run: run.kills),
    }


def killers(phones: Phones) -> Table:
    """The table of runs by the killer's threshold, with the runs of the same phone with swap."""
    return Table(
        "killers",
        "The killer's threshold",
        "The killer ends the application used longest ago when anonymous memory takes more than "
        "this share of the budget. Rows without a threshold are the same phone with swap, or with "
        "killd, which kills by Android's table. Launches are those after the first round.",
        list(_killers(phones)),
        shares=("cold",),
    )


def _killers(phones: Phones) -> Iterator[Row]:
    for phone in phones.each():
        by_threshold = sorted(phone.off, key=lambda run: run.threshold or 0.0)
        for run in (*by_threshold, *(phone.on + phone.other if phone.off else ())):
            times = run.launches(2)
            yield {
                "run": series(run),
                "phone": phone.label(),
                "budget, MiB": (run.budget_bytes or 0) / MIB,
                "threshold": run.threshold,
                "kills a visit": run.kills / len(run.visits),
                "cold": fmean(visit.is_cold for visit in run.visits),
                "I/O, MiB a visit": (run.io_bytes_per_visit() or 0) / MIB,
                "file refaults a visit": fmean(visit.file_refaults for visit in run.visits),
                "launch mean, s": fmean(times) if times else None,
                "median, s": median(times) if times else None,
                "p90, s": quantile(times, 0.9) if times else None,
            }


def skew(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """The table of skew, with a row for each way of counting accesses."""
    return Table(
        "skew",
        "Skew: share of accesses of the busiest pages",
        "*Swap*: pages that left memory and came back, by process and address. *Swap and files*: "
        "also file pages that entered the page cache. *All storage*: 4 KiB blocks of every device. "
        "*Pages for 80%*: the smallest share of pages that takes 80 % of the accesses.",
        [
            {
                **head,
                "pages": analysis["pages"],
                "accesses": analysis["accesses"],
                **{_top(share): analysis["top_share"].get(share) for share in TOP_SHARES},
                "pages for 80%": analysis["pages_for_80_percent"],
            }
            for head, analysis in _analyses(runs, storage)
        ],
        shares=(*map(_top, TOP_SHARES), "pages for 80%"),
    )


def _top(share: str) -> str:
    """The name of the column of the busiest pages."""
    return f"top {float(share):.0%}"


def single_access(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """The table of pages that are accessed once, or swapped out once."""
    return Table(
        "single-access",
        "Single accesses",
        "*Pages*: share of pages with exactly one access. *Accesses*: share of accesses to them. "
        "*Pages out once*: share of swapped pages that went out once; *of page-outs*: their share "
        "of page-outs.",
        [
            {
                **head,
                "pages": analysis["single_access"]["pages"],
                "accesses": analysis["single_access"]["accesses"],
                "pages out once": single_out["pages"] if single_out else None,
                "of page-outs": single_out["outs"] if single_out else None,
            }
            for head, analysis in _analyses(runs, storage)
            for single_out in [analysis["single_out"]]
        ],
        shares=("pages", "accesses", "pages out once", "of page-outs"),
    )


def hot_data(runs: Iterable[LaunchRun], storage: Mapping[str, Storage]) -> Table:
    """The table of the classes of the busiest 10 % of pages."""
    return Table(
        "hot-data",
        "What the busiest 10 % of pages are",
        "Share of these pages, and of the accesses to them, by class of page. *Of several "
        "programs*: file pages of any class that processes of several programs read in, such as "
        "Node and Java; applications in one browser are one program.",
        [
            {
                **head,
                "class": name.replace("_", " "),
                "pages": shares["pages"],
                "accesses": shares["accesses"],
            }
            for head, analysis in _analyses(runs, storage)
            for name, shares in _hottest(analysis)
        ],
        shares=("pages", "accesses"),
    )


def _hottest(analysis: SkewOfAccesses) -> Iterator[tuple[str, ClassShare]]:
    yield from (analysis["top_10_percent_classes"] or {}).items()
    if "top_10_percent_of_several" in analysis:
        yield "of several programs", analysis["top_10_percent_of_several"]


def _analyses(
    runs: Iterable[LaunchRun], storage: Mapping[str, Storage]
) -> Iterator[tuple[dict[str, str], SkewOfAccesses]]:
    """The first columns of each row, and the analysis from which the other columns come."""
    for run in runs:
        for counted, analysis in storage[run.name].analyses.items():
            yield {"run": series(run), "accesses to": counted}, analysis
