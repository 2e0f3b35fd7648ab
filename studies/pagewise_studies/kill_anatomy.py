"""S2's table and Fig. 2 on real kills: the phases of a kill, and what each phase grows with."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from pagewise.comparisons import StudyResult
from pagewise.errors import UsageError
from pagewise.recording import Progress
from pagewise.types import Loss
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.kill_anatomy_checks import by_victim, verdicts
from pagewise_studies.kill_anatomy_tables import NAME, PAPER, PHASES, tables
from pagewise_studies.kill_laws import laws
from pagewise_studies.kill_measurement import (
    Kill,
    KillMeasurement,
    KillRepeat,
    read_kill_measurement,
    seen,
    typical,
)

TITLE = "S2: the phases of a kill, and what makes them longer"


def study(
    folders: Sequence[Path], output: Path, *, seed: int, progress: Progress | None = None
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object.

    ``seed`` changes nothing: intervals are those of the repeats.
    """
    if len(folders) != 1:
        raise UsageError(
            f"study {NAME} takes one measurement, not {len(folders)}",
            hint="it compares kills of one machine and time",
        )
    measured = read_kill_measurement(folders[0])
    found = laws(measured)
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=figures(measured),
        verdicts=verdicts(measured, found),
        tables=tables(measured, found),
        inputs={repeat.path.name: repeat.path for repeat in measured.repeats},
        arguments=shlex.quote(str(folders[0])),
        seeds=[],
        seeded="",
        losses={repeat.path.name: losses(repeat) for repeat in measured.repeats},
    )


def losses(repeat: KillRepeat) -> list[Loss]:
    """Counts of events that the recorder lost, and of kills that it did not see."""
    counts = {
        "events that found the buffer full": repeat.lost,
        "kills that were not seen": repeat.asked - len(repeat.kills),
    }
    return [{"what": what, "count": count} for what, count in counts.items() if count]


def figures(measured: KillMeasurement) -> list[Figure]:
    """Phases by victim; phases against memory, threads and other victims; memory over time."""
    config = {"machine": measured.machine, "kills": len(measured.kills)}
    memory = [
        Point(kill.rss_mib, label, value / 1000)
        for kill in measured.of("memory")
        for phase, label in {"unmap": "unmapping", "pagetables": "page tables"}.items()
        if (value := kill.phase(phase)) is not None and kill.rss_mib is not None
    ]
    return [
        Figure(
            f"{NAME}-phases",
            "Phases of a kill",
            "victim",
            "us",
            tuple(phase_points(measured)),
            config,
            is_categorical=True,
            is_stacked=True,
        ),
        Figure(
            f"{NAME}-memory",
            "Reclaim against resident memory",
            "resident MiB",
            "ms",
            tuple(sorted(memory, key=lambda point: (point.series, point.x))),
            config,
        ),
        against(
            measured.of("threads"),
            "threads",
            "Delivery and handling against threads",
            ("signal", "threads", "pagetables"),
            lambda kill: kill.asked_threads,
            config,
        ),
        against(
            measured.of("together"),
            "together",
            "Phases against others that die at once",
            ("threads", "unmap", "pagetables"),
            lambda kill: kill.others,
            config,
        ),
        Figure(
            f"{NAME}-curve",
            "Resident memory of one victim each, from the call to kill",
            "ms",
            "MiB",
            tuple(curve_points(measured)),
            config,
        ),
    ]


def phase_points(measured: KillMeasurement) -> list[Point]:
    """The median of each phase by kind of victim, then the times of the paper."""
    ours = [
        Point(name, label, median(values), n=len(values))
        for name, kills in by_victim(measured.of("paper")).items()
        for phase, label in PHASES.items()
        if (values := seen(kills, phase))
    ]
    paper = [
        Point(name, label, float(value))
        for name, (_, delivery, handling, reclaim, _) in PAPER.items()
        for label, value in (
            (PHASES["signal"], delivery),
            (PHASES["threads"], handling),
            ("reclaim, undivided", reclaim),
        )
    ]
    return ours + paper


def against(
    kills: Sequence[Kill],
    name: str,
    title: str,
    phases: Sequence[str],
    x: Callable[[Kill], int],
    config: Mapping[str, object],
) -> Figure:
    """Medians of some phases against ``x``, a requested property of the kill."""
    places = sorted({x(kill) for kill in kills})
    points = [
        Point(place, PHASES[phase], median(values), mean_point(0, "", values).std, len(values))
        for phase in phases
        for place in places
        if (values := seen([kill for kill in kills if x(kill) == place], phase))
    ]
    label = {"threads": "threads", "together": "others dying at once"}[name]
    return Figure(f"{NAME}-{name}", title, label, "us", tuple(points), config)


def curve_points(measured: KillMeasurement) -> list[Point]:
    """Memory over time in a typical kill of each kind of victim."""
    return [
        Point(time / 1000, name, size)
        for name, kills in by_victim([*measured.of("paper"), *measured.of("memory")]).items()
        for time, size in typical(kills).curve
    ]
