"""The savings of freed memory that stays mapped, on recorded allocations of real programs.

Each recording is replayed against each allocator without a limit, then within budgets. A budget is
a multiple of the memory that the recording takes without a pool. Time is a model: the processor
time of the recorded command, less the faults saved, plus the work added, at the costs in
``checks/lazy-unmap-costs.toml``. The command was recorded without a pool, so its time is that of
the baseline. Programs under a kernel with the pool are counted, not replayed: `lazy_unmap_kernel`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pagewise import _core
from pagewise.allocations import (
    BASELINE,
    OURS,
    ReplayRequest,
    allocations_info,
    is_allocations,
    replay_allocations,
)
from pagewise.comparisons import StudyResult
from pagewise.errors import UnreadableInput, UsageError
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES, format_count
from pagewise_studies import lazy_unmap_kernel, outcome
from pagewise_studies.figure import Figure, Point
from pagewise_studies.lazy_unmap_checks import verdicts
from pagewise_studies.lazy_unmap_model import COSTS, Program, Replay
from pagewise_studies.table import Row, Table

NAME = "lazy-unmap"
TITLE = "S3: lazy unmapping, by allocator"
BUDGETS = (1.0, 1.1, 1.25, 1.5, 2.0)
"""Budgets as multiples of the peak resident memory of the baseline."""
NANOSECONDS = 1e9
SEEDED = "replays use no seed; the intervals of kills use the seed 1"


def study(
    recordings: Sequence[Path], output: Path, *, seed: int, progress: Progress | None = None
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object.

    A file whose name ends in ``.json`` among the recordings has counts of programs or of episodes
    under a kernel with the pool.
    """
    counted = [path for path in recordings if lazy_unmap_kernel.is_counted(path)]
    recorded_files = [path for path in recordings if path not in counted]
    if not recorded_files:
        raise UsageError(
            "study lazy-unmap needs a recording of allocations beside the counts under a kernel",
            hint="for example: pagewise study lazy-unmap examples/allocations/*.pgr",
        )
    kernel = lazy_unmap_kernel.read(counted)
    programs = [program(path, progress) for path in recorded_files]
    figures = [figure for recorded in programs for figure in (resident(recorded), killed(recorded))]
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[faulted(programs), *figures, *lazy_unmap_kernel.figures(NAME, kernel)],
        verdicts=[*verdicts(programs), *(lazy_unmap_kernel.verdicts(kernel) if counted else ())],
        tables=[
            *lazy_unmap_kernel.tables(NAME, kernel),
            *(table(recorded) for recorded in programs),
        ],
        inputs=dict(zip((recorded.name for recorded in programs), recorded_files, strict=True))
        | {f"{path.name}": path for path in counted},
        arguments=shlex.join(map(str, recordings)),
        seeds=[seed],
        seeded=SEEDED,
        losses={recorded.name: recorded.info["losses"] for recorded in programs},
    )


def program(path: Path, progress: Progress | None) -> Program:
    """Replays a recording against each allocator, without and with budgets."""
    if not path.is_file():
        raise UnreadableInput(f"{path}: no such file", path=str(path))
    if not is_allocations(path):
        raise UnreadableInput(
            f"{path}: not a recording of allocations",
            path=str(path),
            hint="record a program: pagewise-agent record --allocations -o FILE.pgr -- COMMAND",
        )
    info = allocations_info(path, progress=progress)
    if not info["pages"]:
        why = (
            "the recording was cut before the first block of 64 KiB or more"
            if info["is_cut"]
            else "its program allocated nothing of 64 KiB or more"
        )
        raise UnreadableInput(f"{path}: {why}", path=str(path))
    names = [row["name"] for row in _core.allocators()]
    free = replay_allocations(path, [{"allocator": name} for name in names], progress=progress)
    replays = {name: Replay(result) for name, result in zip(names, free, strict=True)}
    needed = replays[BASELINE].outcome["pages_resident_max"]
    asked: list[tuple[float, ReplayRequest]] = [
        (
            share,
            {
                "allocator": name,
                "budget_pages": max(1, round(share * needed)),
                "hears_pressure": is_notified,
            },
        )
        for share in BUDGETS
        for name in names
        for is_notified in ((False, True) if name == OURS else (False,))
    ]
    within = replay_allocations(path, [request for _, request in asked], progress=progress)
    budgets = {
        (request["allocator"], share, request.get("hears_pressure", False)): Replay(result)
        for (share, request), result in zip(asked, within, strict=True)
    }
    return Program(path.stem, info, replays, budgets)


def faulted(programs: Sequence[Program]) -> Figure:
    """Faults of large blocks by program, relative to the baseline."""
    points = [
        Point(recorded.name, name, replay.faults / recorded.baseline.faults)
        for recorded in programs
        for name, replay in recorded.replays.items()
    ]
    return Figure(
        f"{NAME}-faults",
        f"Faults on blocks from 64 KiB, {BASELINE} = 1",
        "program",
        "faults",
        tuple(points),
        _config(programs),
        is_categorical=True,
    )


def resident(recorded: Program) -> Figure:
    """Resident memory of large blocks over time, by allocator."""
    points = [
        Point(instant["time_ns"] / NANOSECONDS, name, mib(instant["pages_resident"]))
        for name, replay in recorded.replays.items()
        for instant in replay.outcome["timeline"]
    ]
    return Figure(
        f"{NAME}-resident-{recorded.name}",
        f"Resident memory of large blocks ({recorded.name})",
        "seconds",
        "MiB",
        tuple(points),
        _config([recorded]),
        chart="Resident memory of blocks from 64 KiB",
        view=recorded.name,
    )


def killed(recorded: Program) -> Figure:
    """Number of kills by budget."""
    points = [
        Point(share, _named(name, is_notified), float(replay.counts["kills"]))
        for (name, share, is_notified), replay in recorded.budgets.items()
    ]
    return Figure(
        f"{NAME}-kills-{recorded.name}",
        f"Processes killed, by memory as a share of what {BASELINE} needs ({recorded.name})",
        f"memory over the peak of {BASELINE}",
        "killed",
        tuple(points),
        _config([recorded]),
        chart="Processes killed where memory is short",
        view=recorded.name,
    )


def _named(name: str, is_notified: bool) -> str:
    return f"{name}, told of pressure" if is_notified else name


def table(recorded: Program) -> Table:
    """The table of a program, with a row for each allocator."""
    rows: list[Row] = [
        {
            "allocator": name,
            "faults": replay.faults,
            "of no-pool's": replay.faults / recorded.baseline.faults,
            "cleared, MiB": mib(replay.counts["pages_zeroed"]),
            "premapped, MiB": mib(replay.counts["pages_populated"]),
            "lazily freed and touched, MiB": mib(replay.counts["lazy_touches"]),
            "calls": replay.counts["calls"],
            "time saved (model)": recorded.saving(name) if recorded.is_timed else None,
            "peak, MiB": mib(replay.outcome["pages_resident_max"]),
            "idle, MiB": mib(replay.outcome["pages_resident_idle"]),
            **{
                f"killed at {share:g}x": recorded.budgets[name, share, False].counts["kills"]
                for share in BUDGETS
            },
        }
        for name, replay in recorded.replays.items()
    ]
    processor_ns, faults = recorded.info["processor_ns"], recorded.info["minor_faults"]
    large = format_count(recorded.baseline.faults)
    used = (
        f"{processor_ns / NANOSECONDS:.2f} s of CPU time, "
        f"{format_count(faults)} faults in all, {large} of them"
        if processor_ns is not None and faults is not None
        else f"time and faults in all not known, {large} faults"
    )
    return Table(
        f"{NAME}-{recorded.name}",
        f"Allocators on {recorded.name}",
        f"The program: `{' '.join(recorded.info['command']) or recorded.name}`, {used} on "
        "blocks from 64 KiB. Faults and memory are of these blocks only. *Idle*: five seconds "
        "after the last step. *Killed at*: kills with this multiple of the peak memory without a "
        f"pool. The model's costs, for a page or a call: {COSTS.words()}.",
        rows,
        shares=("of no-pool's", "time saved (model)"),
    )


def mib(pages: int) -> float:
    """Pages of 4 KiB in MiB."""
    return pages * PAGE_BYTES / MIB


def _config(programs: Sequence[Program]) -> dict[str, object]:
    return {
        "programs": [recorded.name for recorded in programs],
        "commands": [recorded.info["command"] for recorded in programs],
        "budgets": list(BUDGETS),
        "build": _core.build(),
    }
