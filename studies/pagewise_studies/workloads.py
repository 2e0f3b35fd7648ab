"""The workloads of studies: recorded launch runs and generated phone scenarios."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagewise.errors import UsageError
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import CUTS, RECORDING, LaunchRun, read_run, refuse_invalid
from pagewise.units import format_size
from pagewise_studies.repeats import Repeats, repeats_of
from pagewise_studies.verdict import Choices

GENERATED = "generated scenarios (docs/scenarios.md)"
"""The use of the seeds in a simulated study."""
ARRANGEMENTS = ("rotation", "sessions", "returning")
"""The arrangements of S1's three scenarios."""
SCHEDULES = ("round-robin", "zipf")
ORDERS = ("strict", "shuffled")
MEMORIES_MIB = (600, 1500)
"""The memory of a 1 GB and of a 2 GB phone for apps (spec sheet S0.3), as readings: S1 names no
memory. Its 20 apps want 4 and 1.6 times as much; S0 saw thrashing begin at 1.6 times."""


@dataclass(frozen=True)
class Workload:
    """Traces of the same kind, and the choices that distinguish them from others.

    ``name`` is the run, the plan of several runs, or the scenario's arrangement.
    """

    name: str
    choices: Choices
    traces: tuple[TraceSource, ...]


@dataclass(frozen=True)
class Repeated:
    """A plan that was recorded: a workload of a single trace for each repeat.

    ``data`` is what verdicts call the recordings: the row of the matrix (docs/studies/matrix.md),
    whose plans differ in their budget, or the plan itself.
    """

    data: str
    plan: Repeats
    each: tuple[Workload, ...]

    @property
    def pooled(self) -> Workload:
        """The traces of all repeats, for means over them."""
        traces = tuple(trace for workload in self.each for trace in workload.traces)
        return Workload(self.plan.pooled.name, self.each[0].choices, traces)


def recorded(
    folder: Path, rows: Sequence[str], output: Path, *, allow_invalid: bool
) -> list[Repeated]:
    """The recorded plans in the folders ``rows`` of ``folder``, or if none of these has a recorded
    run, in ``folder`` itself. Imports the recordings into ``output``, so that further passes are
    quick.

    Raises UsageError if no run was recorded, and for one that can carry no verdict, except with
    ``allow_invalid``.
    """
    by_row = {row: _recorded_in(folder / row) for row in rows}
    has_rows = any(by_row.values())
    runs_of = {
        row: [read_run(path, f"{row}-{path.name}" if has_rows else None) for path in paths]
        for row, paths in (by_row if has_rows else {"": _recorded_in(folder)}).items()
    }
    runs = [run for of_row in runs_of.values() for run in of_row]
    if not runs:
        raise UsageError(
            f"{folder}: no folder in it is a recorded run",
            path=str(folder),
            hint="give the folder above those that `pagewise-agent launch PLAN.toml -o FOLDER "
            "--record` wrote",
        )
    refuse_invalid(runs, allow_invalid=allow_invalid)
    return [
        Repeated(
            row or plan.pooled.name,
            plan,
            tuple(_of_run(run, has_rows, output) for run in plan.each),
        )
        for row, of_row in runs_of.items()
        for plan in repeats_of(of_row)
    ]


def shortest(plans: Sequence[Repeated]) -> list[Repeated]:
    """The plan with the least memory of each of the data, in their order."""
    least: dict[str, Repeated] = {}
    for plan in sorted(plans, key=lambda each: each.plan.pooled.budget_bytes or 0):
        least.setdefault(plan.data, plan)
    return [least[data] for data in dict.fromkeys(plan.data for plan in plans)]


def _recorded_in(folder: Path) -> list[Path]:
    """The folders of recorded runs in a folder."""
    folders = [path.parent for path in sorted(folder.glob("*/run.toml"))]
    return [
        path
        for path in folders
        if any((path / name).is_file() for name in (RECORDING, f"{path.name}{CUTS['swap']}"))
    ]


def _of_run(run: LaunchRun, has_budgets: bool, output: Path) -> Workload:
    trace = run.recording(output)
    assert trace is not None, "only recorded runs are read"
    budget = "no limit" if run.budget_bytes is None else format_size(run.budget_bytes)
    choices = (("budget", budget),) if has_budgets else ()
    return Workload(run.name, choices, (TraceSource(f"{run.name}.parquet", trace.path),))


def scenario(
    arrangement: str,
    schedule: str,
    order: str,
    memory_mib: int,
    seeds: Sequence[int],
    **parameters: int | bool,
) -> Workload:
    """A generated workload, one trace per seed; ``parameters`` as in docs/scenarios.md."""
    given: dict[str, str | int] = {
        "arrangement": arrangement,
        "schedule": schedule,
        "order": order,
        "memory_mib": memory_mib,
        **parameters,
    }
    extra = "".join(f"-{name}-{value}" for name, value in sorted(parameters.items()))
    name = f"{arrangement}-{schedule}-{order}-{memory_mib}{extra}"
    traces = tuple(
        TraceSource(name, scenario=tuple(sorted({**given, "seed": seed}.items())), seed=seed)
        for seed in seeds
    )
    choices = (("order", order), ("schedule", schedule))
    return Workload(arrangement, choices, traces)


def scenarios(seeds: Sequence[int]) -> list[Workload]:
    """The scenarios of every arrangement, schedule, order and memory."""
    return [
        replace(found, choices=(("memory", f"{memory} MiB"), *found.choices))
        for memory in MEMORIES_MIB
        for arrangement, schedule, order in itertools.product(ARRANGEMENTS, SCHEDULES, ORDERS)
        for found in [scenario(arrangement, schedule, order, memory, seeds)]
    ]
