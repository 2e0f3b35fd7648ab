"""S0, "memory thrashing of swap-enabled phones", on launch runs of real programs: Figs. 1 to 3.

Swap on is the mode swap-file, or the mode tiers with the policy flash where a device is emulated.
Swap off is a killer: of the least recently used application at a threshold, or by Android's table.
The plan of a run, not its name, decides for which phone of S0 it stands (`thrash_phones`). Runs of
one plan are repeats, and pooled.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from pagewise.bootstrap import NESTED_BOOTSTRAP
from pagewise.comparisons import StudyResult
from pagewise.launch_runs import LaunchRun, inputs_of, read_runs
from pagewise.recording import Progress
from pagewise.units import MIB
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.repeats import Repeats, judged, repeats_of
from pagewise_studies.thrash_checks import verdicts
from pagewise_studies.thrash_judge import Inputs
from pagewise_studies.thrash_phones import (
    Conditions,
    Phone,
    Phones,
    conditions,
    phones_of,
    series,
    state,
)
from pagewise_studies.thrash_storage import Storage, storage_of
from pagewise_studies.thrash_tables import later_median, quantile, tables

NAME = "thrash"
TITLE = "S0 on real programs: swap on against swap off"


def study(
    folders: Sequence[Path],
    output: Path,
    *,
    seed: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_runs(folders, allow_invalid=allow_invalid)
    plans = repeats_of(runs)
    pooled = [plan.pooled for plan in plans]
    phones = phones_of(pooled)
    storage = storage_of(plans, output, progress)
    every = [
        figure_1(phones, plans, storage),
        *figure_2(pooled),
        figure_3(phones),
        *killer_figures(phones),
    ]
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure for figure in every if figure.points],
        verdicts=judged(plans, lambda plans: verdicts(_inputs(plans, storage))),
        tables=tables(plans, phones, storage, seed),
        inputs=inputs_of(runs),
        runs=runs,
        arguments=f"{shlex.join(run.name for run in runs)} --seed {seed}",
        seeds=[seed],
        seeded=NESTED_BOOTSTRAP,
        losses={run.name: run.losses(output) for run in runs},
    )


def _inputs(plans: Sequence[Repeats], storage: Mapping[str, Storage]) -> Inputs:
    return Inputs(phones_of([plan.pooled for plan in plans]), storage)


def figure_1(phones: Phones, plans: Sequence[Repeats], storage: Mapping[str, Storage]) -> Figure:
    """Storage I/O, split at the busiest 10 % of blocks if all I/O was recorded."""
    points = []
    io_mib = {plan.pooled.name: plan.mean_of(lambda run: run.io_bytes / MIB) for plan in plans}
    for phone, run, name in _named(phones):
        # Runs that share phone and state differ by their name only.
        bar = f"{phone.label()}: {name}" if name == state(run) else run.name
        split = storage[run.name].volume
        if split is None:
            points.append(Point(bar, "split not recorded", io_mib[run.name]))
            continue
        points += [
            Point(bar, "top 10 % of blocks", split["top_10_percent_bytes"] / MIB),
            Point(bar, "other blocks", split["rest_bytes"] / MIB),
        ]
    return Figure(
        f"{NAME}-fig1",
        "Storage I/O of the whole run, swap on against swap off",
        "",
        "storage I/O, MiB",
        tuple(points),
        _config(phones),
        is_categorical=True,
        is_stacked=True,
    )


def _named(phones: Phones) -> Iterator[tuple[Phone, LaunchRun, str]]:
    """Each run of each phone with its state; the run's name follows if runs share a state."""
    for phone in phones.each():
        taken = Counter(map(state, phone.runs))
        for run in phone.runs:
            yield phone, run, state(run) if taken[state(run)] == 1 else series(run)


SUMMARIES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("mean", fmean),
    ("median", median),
    ("p90", lambda times: quantile(times, 0.9)),
)


def figure_2(runs: Sequence[LaunchRun]) -> Iterator[Figure]:
    """Launch time by round, a figure for each summary; the mean has a standard deviation."""
    for name, summary in SUMMARIES:
        points = []
        for run in runs:
            for number in run.rounds():
                times = run.launches(number, number)
                spread = mean_point(number, series(run), times)
                std = spread.std if name == "mean" else 0.0
                points.append(Point(number, series(run), summary(times), std, len(times)))
        yield Figure(
            f"{NAME}-fig2-{name}",
            f"Launch time by round, {name}",
            "round",
            "launch time, seconds",
            tuple(points),
            {"runs": [[run.name, state(run), run.start_ns] for run in runs], "summary": name},
        )


def figure_3(phones: Phones) -> Figure:
    """Launch time after the first round on S0's three phones."""
    points = [
        mean_point(phone.label(), name, run.launches(2))
        for phone, run, name in _named(phones)
        if run.launches(2)
    ]
    return Figure(
        f"{NAME}-fig3",
        "Launch time after the first round, by phone",
        "phone",
        "launch time, seconds",
        tuple(points),
        _config(phones),
        is_categorical=True,
    )


def killer_figures(phones: Phones) -> Iterator[Figure]:
    """I/O, launches and kills over the killer's threshold; the phone with swap is a flat line."""
    measures: tuple[tuple[str, str, Callable[[LaunchRun], float | None]], ...] = (
        ("io", "storage I/O, MiB a visit", lambda run: (run.io_bytes_per_visit() or 0) / MIB),
        ("launch", "launch time after the first round, median, seconds", later_median),
        ("kills", "kills a visit", lambda run: run.kills / len(run.visits)),
    )
    sweeps = list(_sweeps(phones))
    for name, y_label, measure in measures:
        points = []
        for label, killers, with_swap in sweeps:
            for at in sorted({run.threshold or 0.0 for run in killers}):
                values = [measure(run) for run in killers if run.threshold == at]
                found = [value for value in values if value is not None]
                if found:
                    points.append(mean_point(at, f"swap off, {label}", found))
                points += [
                    Point(at, f"{series(run)}, {label}", value)
                    for run in with_swap
                    for value in [measure(run)]
                    if value is not None and name != "kills"
                ]
        yield Figure(
            f"{NAME}-killer-{name}",
            f"The killer's threshold: {y_label.split(',')[0]}",
            "threshold, share of the budget",
            y_label,
            tuple(points),
            _config(phones),
        )


def _sweeps(phones: Phones) -> Iterator[tuple[str, list[LaunchRun], list[LaunchRun]]]:
    """Phones with runs of two or more thresholds of the killer.

    Each has a label, the runs that differ only in the threshold, and the runs with swap of the same
    phone.
    """
    for phone in phones.each():
        alike: dict[Conditions, list[LaunchRun]] = {}
        for run in phone.off:
            if run.threshold is None:
                continue
            alike.setdefault(conditions(run), []).append(run)
        for (budget_bytes, applications, storage), killers in alike.items():
            if len({run.threshold for run in killers}) > 1:
                label = f"{len(applications)} apps, {budget_bytes / MIB:.0f} MiB"
                label += f", {storage}" if storage else ""
                yield (
                    label,
                    killers,
                    [run for run in phone.on if conditions(run) == conditions(killers[0])],
                )


def _config(phones: Phones) -> dict[str, object]:
    return {
        "phones": [
            [phone.label(), [[run.name, state(run), run.start_ns] for run in phone.runs]]
            for phone in phones.each()
        ]
    }
