"""Repeats: what a figure is over runs of the same kind, and launch runs of one plan, pooled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from pagewise.launch_runs import LaunchRun
from pagewise_studies.live_runs import FEW, NAMES, RUNS_MIN, refuse_twice
from pagewise_studies.verdict import UNMEASURED, Estimate, Verdict, unmeasured

UNCHANGED = NAMES | {"seed"}
"""Entries of a plan in which repeats may differ: a seed chooses another order of the same kind."""


@dataclass(frozen=True)
class Repeats:
    """The runs of one plan, by their start.

    ``pooled`` has the visits of all of them. Its sums are sums over the repeats, so figures of it
    have to be per visit.
    """

    pooled: LaunchRun
    each: tuple[LaunchRun, ...]

    def mean_of(self, figure: Callable[[LaunchRun], float]) -> float:
        """The mean of a figure of a run over the repeats."""
        return fmean(map(figure, self.each))


def in_words(names: Sequence[str]) -> str:
    """Names of runs in a row, numbered ones by the first and the last: ``a, run-0 to run-29``."""
    groups: list[list[str]] = []
    for name in names:
        stem, _, number = name.rpartition("-")
        if groups and number.isdecimal() and groups[-1][-1] == f"{stem}-{int(number) - 1}":
            groups[-1].append(name)
        else:
            groups.append([name])
    return ", ".join(
        f"{group[0]} to {group[-1]}" if len(group) > 2 else ", ".join(group) for group in groups
    )


def estimate_of(figures: Sequence[float]) -> Estimate | None:
    """The mean of a figure over repeats, with its 95 % interval by Student's t distribution.

    ``figures`` has the figure of each repeat. None for fewer than two: one does not show how much
    repeats differ.
    """
    from scipy.stats import t

    if len(figures) < RUNS_MIN:
        return None
    half = float(t.ppf(0.975, len(figures) - 1)) * stdev(figures) / len(figures) ** 0.5
    mean = fmean(figures)
    return Estimate(mean, mean - half, mean + half)


def repeats_of(runs: Sequence[LaunchRun]) -> list[Repeats]:
    """The runs by plan, in the order of the first run of each. Raises UsageError for a run that is
    given twice."""
    refuse_twice(runs)
    plans: dict[str, list[LaunchRun]] = {}
    for run in runs:
        plan = {name: value for name, value in run.plan.items() if name not in UNCHANGED}
        plans.setdefault(repr(sorted(plan.items())), []).append(run)
    names = _names(list(plans.values()))
    return [
        Repeats(_pooled(name, alike), tuple(sorted(alike, key=lambda run: run.start_ns)))
        for name, alike in zip(names, plans.values(), strict=True)
    ]


def judged(
    plans: Sequence[Repeats], verdicts: Callable[[Sequence[Repeats]], Iterable[Verdict]]
) -> list[Verdict]:
    """The verdicts on the plans that ran at least twice. A check that needs others too is not
    measurable; it shows their figures and names them.

    ``verdicts``: the verdicts on these plans, in the order of their checks.
    """
    enough = [plan for plan in plans if len(plan.each) >= RUNS_MIN]
    once = [plan.pooled.name for plan in plans if len(plan.each) < RUNS_MIN]
    found = list(verdicts(plans))
    if not once:
        return found
    sure = {verdict.check: verdict for verdict in verdicts(enough)}
    return [
        sure[verdict.check]
        if sure[verdict.check].verdict != UNMEASURED
        else _too_few(verdict, once)
        for verdict in found
    ]


def _too_few(verdict: Verdict, once: Sequence[str]) -> Verdict:
    named = [name for name in once if name in verdict.data.split(", ")]
    if not named or verdict.verdict == UNMEASURED:
        return verdict
    why = f"{FEW}; there is one of {', '.join(named)}"
    return replace(unmeasured(verdict.check, verdict.data, why), ours=verdict.ours)


def _names(plans: Sequence[Sequence[LaunchRun]]) -> Iterator[str]:
    """The name of each plan, without the number of the repeat (``kill-40`` of ``kill-40-0``) if it
    tells plans apart; the name of the run if there is only one."""
    taken = {run.name for runs in plans for run in runs}
    short = [re.sub(r"-\d+$", "", str(runs[0].plan.get("name", ""))) for runs in plans]
    for name, runs in zip(short, plans, strict=True):
        is_clear = name and short.count(name) == 1 and name not in taken
        yield name if len(runs) > 1 and is_clear else runs[0].name


def _pooled(name: str, runs: Sequence[LaunchRun]) -> LaunchRun:
    if len(runs) == 1:
        return runs[0]
    return replace(
        runs[0],
        name=name,
        visits=tuple(
            replace(visit, repeat=number) for number, run in enumerate(runs) for visit in run.visits
        ),
        victims=tuple(victim for run in runs for victim in run.victims),
        unfinished=next((run.unfinished for run in runs if run.unfinished), None),
    )
