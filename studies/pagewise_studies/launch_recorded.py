"""Compares simulated lives with recorded runs that have repeats. In one model a launch touches each
page once, in the other it touches pages again as recorded launches do.

The first repeat of each plan gives the model, the others judge it. In a third model, "plan left
out", nothing was learned from the judged plan.

    python -m pagewise_studies.launch_recorded RECORDINGS... OUTPUT
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from pagewise.launch_runs import LaunchRun, Visit, read_run
from pagewise.lives import live_all
from pagewise.types import Lifecycle
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies.launch_fit import SWAPPING, Fit, Warm, fit, needs, shares_used
from pagewise_studies.launch_tables import launches
from pagewise_studies.launch_touches import Seen, seen, touches, with_reads

REPEATS_MIN = 2
"""A plan needs a repeat to learn from and one to judge."""
ROUNDS = 4
"""Rounds in which the repeated touches are fitted to the refaults of the learned runs."""
FACTOR_MAX = 4.0
FEW = 1000
"""Refaults of a launch that do not count when repeated touches are fitted: 4 MiB."""
WARM_FACTORS = (1.0, 1.15, 1.3, 1.5)
CORES = (80, 90, 97)
"""What is tried for the use of warm launches."""
UNLIMITED = "no-limit"
LEVEL = 0.25
Shown = Mapping[str, Sequence[Seen]]
"""What the first repeat of each plan shows, by the plan's name."""
Models = dict[str, Fit]
"""A model for each storage."""


@dataclass(frozen=True)
class PlanRuns:
    """The repeats of one plan; the first is learned from."""

    name: str
    storage: str
    runs: tuple[LaunchRun, ...]


@dataclass(frozen=True)
class Row:
    """A plan: its judged runs beside its life; refaults are file pages of a visit after round 1."""

    plan: str
    model: str
    real_s: list[float]
    simulated_s: float
    real_refaults: float
    simulated_refaults: float
    real_swap_ins: float
    simulated_swap_ins: float
    real_kills: float
    simulated_kills: int

    @property
    def difference(self) -> float:
        """By how much the simulated median exceeds the judged runs' median, as a share of it."""
        return self.simulated_s / median(self.real_s) - 1

    @property
    def refault_ratio(self) -> float | None:
        """Simulated refaults per recorded one; None where a visit had less than one."""
        return self.simulated_refaults / self.real_refaults if self.real_refaults >= 1 else None


def plans(folders: Sequence[Path]) -> Iterator[PlanRuns]:
    """The plans below ``folders`` with enough valid and finished repeats, one of them recorded.

    The first folder that has a run counts. The first repeat with a recording is learned from.
    """
    groups: dict[str, dict[str, LaunchRun]] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*/*/run.toml"))):
        run = read_run(path.parent)
        if not run.invalid_because and not run.unfinished:
            name = f"{path.parent.parent.name}/{re.sub('-[0-9]+$', '', run.name)}"
            groups.setdefault(name, {}).setdefault(run.name, run)
    for name, found in groups.items():
        runs = sorted(
            found.values(), key=lambda run: (run.recording_path("swap") is None, run.name)
        )
        if len(runs) >= REPEATS_MIN and runs[0].recording_path("swap") is not None:
            storage = runs[0].plan.get("storage", {})
            files = storage.get("files", "disk") if isinstance(storage, Mapping) else "disk"
            yield PlanRuns(name, str(files), tuple(runs))


def without_limit(folders: Sequence[Path]) -> list[LaunchRun]:
    """A valid run of each plan without a limit of memory, which shows what launches need."""
    found: dict[str, LaunchRun] = {}
    for folder in folders:
        for path in sorted(folder.glob(f"*/{UNLIMITED}*/run.toml")):
            run = read_run(path.parent)
            if not run.invalid_because and not run.unfinished:
                found.setdefault(path.parent.parent.name, run)
    return list(found.values())


def learned(
    learnt: Mapping[str, LaunchRun],
    shown: Shown,
    storage: Mapping[str, str],
    unlimited: Sequence[LaunchRun],
) -> Models:
    """A model for each storage; what launches touch is learned from the runs on all storage."""
    touched = touches(learnt, shown)
    used = shares_used(list(learnt.values()), needs(unlimited))
    models = {}
    for kind in {storage[name] for name in learnt}:
        runs = [run for name, run in learnt.items() if storage[name] == kind]
        models[kind] = fit(runs, unlimited, touched, used)
    swapping = {name: run for name, run in learnt.items() if run.mode in SWAPPING}
    killing = {name: run for name, run in learnt.items() if run.kills}
    if swapping:
        models = _with_warm(models, swapping, storage)
    return _with_repeats(models, killing, storage) if killing else models


def _with_warm(models: Models, runs: Mapping[str, LaunchRun], storage: Mapping[str, str]) -> Models:
    """The models with the use of warm launches that brings back as many pages as recorded."""

    def error(warm: Warm) -> float:
        tried = {kind: replace(model, warm=warm) for kind, model in models.items()}
        found = 0.0
        for run, life in _lives(tried, runs, storage):
            visits = [v for v, real in zip(life["visits"], run.visits, strict=True) if _later(real)]
            simulated = fmean(v["file_refaults"] + v["swap_ins"] for v in visits)
            real = fmean(
                v.file_refaults + v.swap_in_bytes / PAGE_BYTES for v in run.visits if _later(v)
            )
            found += abs(log((simulated + 1) / (real + 1)))
        return found

    best = min((Warm(*choice) for choice in product(WARM_FACTORS, CORES)), key=error)
    return {kind: replace(model, warm=best) for kind, model in models.items()}


def _with_repeats(
    models: Models, runs: Mapping[str, LaunchRun], storage: Mapping[str, str]
) -> Models:
    """The models with as many repeated touches as make cold launches refault as recorded."""
    apps = {app for run in runs.values() for app in run.applications}
    factors = dict.fromkeys(apps, 1.0)
    for _ in range(ROUNDS):
        models = {kind: replace(model, repeats=factors) for kind, model in models.items()}
        errors: dict[str, list[float]] = {app: [] for app in apps}
        for run, life in _lives(models, runs, storage):
            for app in run.applications:
                pairs = [
                    (visit.file_refaults, lived["file_refaults"])
                    for visit, lived in zip(run.visits, life["visits"], strict=True)
                    if _later(visit) and visit.is_cold and visit.app == app
                ]
                if pairs:
                    real, simulated = (fmean(column) for column in zip(*pairs, strict=True))
                    errors[app].append(log((real + FEW) / (simulated + FEW)))
        factors = {
            app: min(FACTOR_MAX, factors[app] * exp(fmean(errors[app] or [0.0]))) for app in apps
        }
    return {kind: replace(model, repeats=factors) for kind, model in models.items()}


def _later(visit: Visit) -> bool:
    return visit.round > 1


def _lives(
    models: Models, runs: Mapping[str, LaunchRun], storage: Mapping[str, str]
) -> Iterator[tuple[LaunchRun, Lifecycle]]:
    lives = live_all([models[storage[name]].life(run) for name, run in runs.items()])
    return zip(runs.values(), lives, strict=True)


def judged_row(plan: PlanRuns, model: str, life: Lifecycle) -> Row:
    """Compares the judged runs of a plan with its life."""
    judged = plan.runs[1:]
    first = len(judged[0].during(1, 1))
    later = life["visits"][first:]
    visits = [visit for run in judged for visit in run.during(2)]
    return Row(
        plan=plan.name,
        model=model,
        real_s=[median(run.launches(2)) for run in judged],
        simulated_s=median(launches(later)),
        real_refaults=fmean(visit.file_refaults for visit in visits),
        simulated_refaults=fmean(visit["file_refaults"] for visit in later),
        real_swap_ins=fmean(visit.swap_in_bytes / PAGE_BYTES for visit in visits),
        simulated_swap_ins=fmean(visit["swap_ins"] for visit in later),
        real_kills=fmean(run.kills for run in judged),
        simulated_kills=len(life["kills"]),
    )


def compare(
    every: Sequence[PlanRuns], shown: Shown, unlimited: Sequence[LaunchRun]
) -> tuple[list[Row], Models]:
    """Each plan under each model, and the models that learned from all plans."""
    learnt = {plan.name: with_reads(plan.runs[0], shown[plan.name]) for plan in every}
    storage = {plan.name: plan.storage for plan in every}
    models = learned(learnt, shown, storage, unlimited)
    used = next(iter(models.values())).used
    bare = {
        kind: fit(
            [run for name, run in learnt.items() if storage[name] == kind], unlimited, {}, used
        )
        for kind in models
    }
    found = []
    for plan in every:
        judged = plan.runs[1]
        lives = [bare[plan.storage].life(judged), models[plan.storage].life(judged)]
        once, again = live_all(lives)
        found += [judged_row(plan, "each page once", once), judged_row(plan, "as recorded", again)]
        others = {name: run for name, run in learnt.items() if name != plan.name}
        try:
            left_out = learned(others, shown, storage, unlimited)[plan.storage]
            life = live_all([left_out.life(judged)])[0]
        except (KeyError, ValueError) as error:
            print(f"{plan.name}: not measurable from other plans: {error!r}", file=sys.stderr)
            continue
        found.append(judged_row(plan, "as recorded, plan left out", life))
    return found, models


def page(compared: Sequence[Row], plans: Sequence[PlanRuns], shown: Shown, models: Models) -> str:
    """The tables in Markdown."""
    return "\n".join(
        [
            "## Files read again within a launch",
            "",
            *_again_table(plans, shown),
            "",
            "## Runs and their lives",
            "",
            *_row_table(compared),
            "",
            *_sums(compared),
            "",
            "The models that learned from all plans:",
            "",
            *_constants(models),
        ]
    )


def _again_table(plans: Sequence[PlanRuns], shown: Shown) -> Iterator[str]:
    names = [plan.name for plan in plans]
    apps = sorted({app for plan in plans for app in plan.runs[0].applications})
    yield "| launch | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for app in apps:
        for is_cold in (True, False):
            cells = [_again_cell(plan, shown[plan.name], app, is_cold) for plan in plans]
            if any(cells):
                yield f"| {app}, {'cold' if is_cold else 'warm'} | " + " | ".join(cells) + " |"
    cells = [
        f"{sum(launch.swap_ins - launch.distinct_swap_ins for launch in shown[plan.name]):,} of "
        f"{sum(launch.swap_ins for launch in shown[plan.name]):,}"
        for plan in plans
    ]
    yield "| anonymous pages, all launches | " + " | ".join(cells) + " |"


def _again_cell(plan: PlanRuns, launches: Sequence[Seen], app: str, is_cold: bool) -> str:
    rows = [
        launch
        for visit, launch in zip(plan.runs[0].visits, launches, strict=True)
        if visit.round > 1 and (visit.app, visit.is_cold) == (app, is_cold)
    ]
    if not rows:
        return ""
    requests, distinct = sum(r.requests for r in rows), sum(r.distinct for r in rows)
    mib = distinct * PAGE_BYTES / MIB / len(rows)
    return f"{requests / max(1, distinct):.2f} x {mib:.0f}"


def _row_table(compared: Sequence[Row]) -> Iterator[str]:
    yield (
        "| plan | model | recorded launch, s | simulated launch, s | difference "
        "| recorded refaults | simulated refaults | ratio | recorded swap-ins "
        "| simulated swap-ins | recorded kills | simulated kills |"
    )
    yield "|---" * 12 + "|"
    for row in compared:
        ratio = "" if row.refault_ratio is None else f"{row.refault_ratio:.2f}"
        yield (
            f"| {row.plan} | {row.model} | {', '.join(f'{s:.3g}' for s in row.real_s)} "
            f"| {row.simulated_s:.3g} | {row.difference:+.0%} "
            f"| {row.real_refaults:,.0f} | {row.simulated_refaults:,.0f} | {ratio} "
            f"| {row.real_swap_ins:,.0f} | {row.simulated_swap_ins:,.0f} "
            f"| {row.real_kills:.0f} | {row.simulated_kills} |"
        )


def _sums(compared: Sequence[Row]) -> Iterator[str]:
    """How many plans each model reaches."""
    for model in dict.fromkeys(row.model for row in compared):
        rows = [row for row in compared if row.model == model]
        near = sum(abs(row.difference) <= LEVEL for row in rows)
        ratios = [row.refault_ratio for row in rows if row.refault_ratio is not None]
        alike = sum(0.5 <= ratio <= 2 for ratio in ratios)
        yield (
            f"- *{model}*: {near} of {len(rows)} medians within {LEVEL:.0%}, refaults of {alike} "
            f"of {len(ratios)} plans within a factor of two."
        )


def _constants(models: Models) -> Iterator[str]:
    """The constants of the models that learned from all plans."""
    for kind, model in sorted(models.items()):
        yield (
            f"- {kind}: {model.rates.swap_us:.1f} us to read a page from swap, "
            f"{model.rates.file_us:.1f} us from a file."
        )
    model = next(iter(models.values()))
    yield (
        f"- Warm launches use {model.warm.factor:g} times the pages that a recording shows, "
        f"{model.warm.core_percent} % of them each time."
    )
    repeats = ", ".join(f"{app} {factor:.2f}" for app, factor in sorted(model.repeats.items()))
    yield f"- Factors of the repeated touches of cold launches: {repeats}."


def main() -> None:
    """Prints the tables, and writes the rows to OUTPUT/launch-recorded.json."""
    *folders, output = map(Path, sys.argv[1:])
    if not folders:
        sys.exit("usage: python -m pagewise_studies.launch_recorded RECORDINGS... OUTPUT")
    output.mkdir(exist_ok=True)
    ready = list(plans(folders))
    unlimited = without_limit(folders)
    known = {app for run in unlimited for app in run.applications}
    every = [
        plan
        for plan in ready
        if max(plan.runs[0].rounds(), default=0) > 1 and known >= set(plan.runs[0].applications)
    ]
    if not every:
        sys.exit(
            "no plan has a recorded repeat, a second one, and a run of its applications without a "
            "limit of memory; `make recordings` makes them"
        )
    shown = {plan.name: seen(plan.runs[0], output) for plan in every}
    compared, models = compare(every, shown, unlimited)
    rows = [asdict(row) | {"difference": row.difference} for row in compared]
    (output / "launch-recorded.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(page(compared, every, shown, models))


if __name__ == "__main__":
    main()
