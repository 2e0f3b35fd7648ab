"""S1 Figs. 2-5 on running programs: hybrid, hierarchical and flash swap served by swapd, and kill.

The checks of the paper are those of the study of recordings (`multiswap_checks`), as far as runs
can carry them. `multiswap_live_checks` has the checks.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from pagewise.comparisons import StudyResult
from pagewise.launch_runs import inputs_of
from pagewise.recording import Progress
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, mean_point
from pagewise_studies.multiswap import FIGURES
from pagewise_studies.multiswap_live_checks import verdicts
from pagewise_studies.runs import Counts
from pagewise_studies.thrash_phones import state
from pagewise_studies.tiers import Live, TierRun, read_live, served_files
from pagewise_studies.tiers_shown import config, occupancies, runs_table, waits

NAME = "multiswap-live"
TITLE = "S1 on running programs: policies on two tiers, flash swap and kill"


def live(
    folders: Sequence[Path],
    output: Path,
    *,
    seed: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_live(folders, output, progress, allow_invalid=allow_invalid)
    every = [*figures(runs), figure_5(runs), waits(NAME, runs), *occupancies(NAME, runs)]
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure for figure in every if figure.points],
        verdicts=verdicts(runs),
        tables=[runs_table(runs)],
        inputs=inputs_of(runs.runs) | served_files(runs),
        runs=runs.runs,
        arguments=f"--live {shlex.join(run.name for run in runs.runs)}",
        called="multiswap",
        seeds=[],
        seeded="",
        losses={run.name: run.losses(output) for run in runs.recorded},
    )


def figures(runs: Live) -> Iterator[Figure]:
    """Figs. 2 to 4 of S1: live, on the same requests, and predicted from the swap file."""
    by_label: dict[str, list[TierRun]] = {}
    for tier in runs.tiers:
        by_label.setdefault(tier.label, []).append(tier)
    for name, what, unit, measure in FIGURES:
        points = []
        for label, tiers in by_label.items():
            series: dict[str, list[Counts]] = {
                "live": [tier.counts for tier in tiers],
                "simulated on its requests": [
                    tier.simulated for tier in tiers if tier.simulated is not None
                ],
                "predicted from the swap file": [
                    counts for tier in tiers for counts in (tier.predicted or {}).values()
                ],
            }
            points += [
                mean_point(label, kind, [float(measure(counts)) for counts in found])
                for kind, found in series.items()
                if found
            ]
        yield Figure(
            f"{NAME}-{name}",
            f"S1 {name.replace('fig', 'Fig. ')}, live: {what}",
            "policy, fast tier",
            f"{what}, {unit}",
            tuple(points),
            config(runs),
            is_categorical=True,
        )


def figure_5(runs: Live) -> Figure:
    """Fig. 5 of S1: launch time after the first round."""
    launched: dict[str, list[float]] = {}
    for tier in runs.tiers:
        launched.setdefault(tier.label, []).extend(tier.run.launches(2))
    for run in (*runs.files, *runs.kills):
        name = "swap file" if run in runs.files else state(run)
        launched.setdefault(name, []).extend(run.launches(2))
    return Figure(
        f"{NAME}-fig5",
        "S1 Fig. 5, live: launch time after the first round",
        "swap",
        "launch time, seconds",
        tuple(mean_point(name, "launches", times) for name, times in launched.items() if times),
        config(runs),
        is_categorical=True,
    )
