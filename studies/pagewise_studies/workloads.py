"""The workloads of studies: the recordings in examples/ and generated phone scenarios."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagewise.errors import UsageError
from pagewise.grids.key import digest
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import RECORDING
from pagewise.recording import import_trace
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
    """Traces that differ only in their seed, and the choices that distinguish them from others.

    ``name`` is the recording, or the scenario's arrangement.
    """

    name: str
    choices: Choices
    traces: tuple[TraceSource, ...]


def recording(folder: Path, name: str, output: Path) -> Workload:
    """A recording of ``folder``; its import into ``output`` makes further passes quick."""
    file = recording_file(folder, name)
    facts = file.stat()
    # Another recording of this name must not take the import's place.
    identity = digest([str(file.resolve()), facts.st_size, facts.st_mtime_ns])[:8]
    path = output / f"{name}-{identity}.parquet"
    if not path.exists():
        import_trace(file, path)
    return Workload(name, (), (TraceSource(f"{name}.parquet", str(path)),))


def recording_file(folder: Path, name: str) -> Path:
    """The file of a recording that ships, or of a run that was recorded."""
    path = folder / name / f"{name}.pgr"
    whole = folder / name / RECORDING
    if path.is_file() or not whole.is_file():
        if not path.is_file():
            raise UsageError(f"{path}: this study needs the recording", path=str(path))
        return path
    return whole


def recorded_names(folder: Path, shipped: Sequence[str]) -> list[str]:
    """The recorded runs in ``folder`` by name: those of ``shipped`` if it has them all, or else
    every run with a recording. Raises UsageError if there is none."""
    if all((folder / name).is_dir() for name in shipped):
        return list(shipped)
    names = [
        path.parent.name
        for path in sorted(folder.glob("*/run.toml"))
        if (path.parent / RECORDING).is_file()
        or (path.parent / f"{path.parent.name}.pgr").is_file()
    ]
    if not names:
        raise UsageError(
            f"{folder}: no folder in it is a recorded run",
            path=str(folder),
            hint="give the folder above those that `pagewise-agent launch PLAN.toml -o FOLDER "
            "--record` wrote",
        )
    return names


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
