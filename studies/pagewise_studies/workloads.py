"""The workloads of studies: the recordings in examples/ and generated phone scenarios."""

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
"""The use of the seeds in a simulated study."""
ARRANGEMENTS = ("rotation", "sessions", "returning")
"""The arrangements of S1's three scenarios."""
SCHEDULES = ("round-robin", "zipf")
ORDERS = ("strict", "shuffled")
MEMORY_MIB = 1500
"""The memory of a 2 GB phone for apps (spec sheet S0.3). S1 names no memory. Its 20 apps want
1.6 times this memory, at which S0 saw thrashing begin, and 4 times the memory of a 1 GB phone."""


@dataclass(frozen=True)
class Workload:
    """Traces that differ only in their seed, and the choices that distinguish them from others.

    ``name`` is the recording, or the scenario's arrangement.
    """

    name: str
    choices: Choices
    traces: tuple[TraceSource, ...]


def recording(folder: Path, name: str, output: Path) -> Workload:
    """A recording of ``folder``; its import into ``output`` makes further passes quick."""
    path = output / f"{name}.parquet"
    if not path.exists():
        import_trace(recording_file(folder, name), path)
    return Workload(name, (), (TraceSource(path.name, str(path)),))


def recording_file(folder: Path, name: str) -> Path:
    """The file of a recording that ships."""
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
    """The scenarios of every arrangement, schedule and order."""
    return [
        scenario(arrangement, schedule, order, MEMORY_MIB, seeds)
        for arrangement, schedule, order in itertools.product(ARRANGEMENTS, SCHEDULES, ORDERS)
    ]
