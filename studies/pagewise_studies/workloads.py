"""What the studies run on: the recordings in examples/ and generated phone scenarios."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pagewise.errors import UsageError
from pagewise.grids.traces import TraceSource
from pagewise.recording import import_trace
from pagewise_studies.verdict import Choices

GENERATED = "generated scenarios (docs/scenarios.md)"
"""What the seeds of a simulated study are for."""
ARRANGEMENTS = ("rotation", "sessions", "returning")
"""The three scenarios."""
SCHEDULES = ("round-robin", "zipf")
ORDERS = ("strict", "shuffled")
MEMORY_MIB = 1500
"""What a phone of 2 GB has left for apps (spec sheet S0.3). S1 names no memory; its 20 apps want
1.6 times this, where S0 saw thrashing begin, and four times what a 1 GB phone has."""


@dataclass(frozen=True)
class Workload:
    """Traces that differ in their seed alone, and the choices that tell them from others.

    ``name`` is the recording, or the scenario's arrangement.
    """

    name: str
    choices: Choices
    traces: tuple[TraceSource, ...]


def recording(folder: Path, name: str, output: Path) -> Workload:
    """One recording of ``folder``, imported into ``output`` once so that many passes are quick."""
    path = output / f"{name}.parquet"
    if not path.exists():
        import_trace(recording_file(folder, name), path)
    return Workload(name, (), (TraceSource(path.name, str(path)),))


def recording_file(folder: Path, name: str) -> Path:
    """The file of a recording as it ships."""
    path = folder / name / f"{name}.pgw.zst"
    if not path.is_file():
        raise UsageError(f"{path}: this study needs the recording", path=str(path))
    return path


def scenario(
    arrangement: str,
    schedule: str,
    order: str,
    memory_mib: int,
    seeds: Sequence[int],
    **parameters: int | bool,
) -> Workload:
    """A generated workload, one trace per seed; ``parameters`` as in docs/scenarios.md."""
    given = {
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
    """Every arrangement on every schedule and order."""
    return [
        scenario(arrangement, schedule, order, MEMORY_MIB, seeds)
        for arrangement, schedule, order in itertools.product(ARRANGEMENTS, SCHEDULES, ORDERS)
    ]
