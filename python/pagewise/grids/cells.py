"""The unit of work that engines hand out: some requests on one trace, in one pass over it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pagewise import _core
from pagewise.errors import PagewiseError
from pagewise.grids import memory
from pagewise.grids.key import canonical
from pagewise.grids.memory import Size
from pagewise.grids.spec import Request, TraceSource
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress, Trace

MILLICELLS = 1000
"""Progress is counted in thousandths of a cell."""


@dataclass(frozen=True)
class Cell:
    """One request on one trace; ``key`` identifies its outcome."""

    key: str
    trace: TraceSource
    trace_sha256: str
    request: Request


@dataclass(frozen=True)
class Task:
    """Cells of one trace that are run in one pass; ``held_bytes`` is what they hold meanwhile."""

    trace: TraceSource
    trace_sha256: str
    cells: tuple[Cell, ...]
    held_bytes: int


@dataclass(frozen=True)
class CellResult:
    """What became of a cell: its outcome as canonical JSON text, or why there is none."""

    outcome: str | None = None
    error: str | None = None


def split(
    cells: Sequence[Cell], sizes: Mapping[TraceSource, Size], workers: int, room_bytes: int
) -> list[Task]:
    """Tasks over ``cells``, several for each worker, so that none waits long at the end.

    As many as there are workers fit ``room_bytes``, as far as single cells do.
    """
    by_trace: dict[tuple[TraceSource, str], list[Cell]] = {}
    for cell in cells:
        by_trace.setdefault((cell.trace, cell.trace_sha256), []).append(cell)
    cells_max = max(1, min(memory.cells_of_pass(workers), -(-len(cells) // (4 * workers))))
    tasks = []
    for (trace, sha256), group in by_trace.items():

        def cost(cell: Cell, size: Size = sizes[trace]) -> int:
            return memory.bytes_of(cell.request.to_json(), size)

        tasks += [
            Task(trace, sha256, tuple(part), sum(map(cost, part)))
            for part in memory.passes(group, cells_max, room_bytes // workers, cost)
        ]
    return tasks


def simulate_many(
    found: Numbered,
    requests: Sequence[Mapping[str, Any]],
    *,
    marks: Sequence[int] = (),
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Runs many requests (see `Request.to_json`), on all cores, in as few passes as memory allows.

    Each answer holds either ``outcome``, as `pagewise simulate --json` prints it, or ``error``.
    With ``marks`` an outcome has ``slices`` too: the counts up to each mark from the one before it,
    and behind the last. Marks are ns since the first event or, without a clock, numbers of events.
    ``progress`` counts thousandths of cells.
    """
    cores = memory.cores()
    answers: list[dict[str, Any]] = []
    for part in memory.passes(
        requests,
        cores * memory.cells_of_pass(cores),
        memory.room_bytes(),
        lambda request: memory.bytes_of(request, found.size),
    ):
        before = len(answers)

        def advance(done: int, total: int, before: int = before, now: int = len(part)) -> None:
            if progress is not None:
                cells = before * MILLICELLS + (now * MILLICELLS * done // total if total else 0)
                progress(cells, len(requests) * MILLICELLS)

        answers += _in_one_pass(found.trace, part, marks, advance)
    return answers


def _in_one_pass(
    trace: Trace,
    requests: Sequence[Mapping[str, Any]],
    marks: Sequence[int],
    progress: Progress | None,
) -> list[dict[str, Any]]:
    memory.give_back_what_is_freed()
    text = json.dumps(list(requests))
    answers: list[dict[str, Any]] = json.loads(
        _core.simulate_many(*trace.arguments(), text, marks=list(marks), progress=progress)
    )
    return answers


def run(task: Task, trace: Trace, progress: Progress | None = None) -> list[CellResult]:
    """Runs the cells of ``task`` on ``trace``, results in the order of its cells.

    A pass that fails as a whole is run again cell by cell, so that one cell cannot take the others
    down. A ``KeyboardInterrupt`` raised by ``progress`` passes through.
    """
    try:
        return _pass(task.cells, trace, progress)
    except (PagewiseError, RuntimeError) as error:
        if len(task.cells) == 1:
            return [CellResult(error=str(error))]
    except BaseException as panic:
        # A panic of the Rust side is our own bug, and still no reason to lose a night's grid.
        if not _is_panic(panic):
            raise
        if len(task.cells) == 1:
            return [CellResult(error=f"internal error: {panic}")]
    return [
        result
        for cell in task.cells
        for result in run(replace(task, cells=(cell,)), trace, progress)
    ]


def _pass(cells: Sequence[Cell], trace: Trace, progress: Progress | None) -> list[CellResult]:
    answers = _in_one_pass(trace, [cell.request.to_json() for cell in cells], (), progress)
    return [
        CellResult(outcome=canonical(answer["outcome"]))
        if "outcome" in answer
        else CellResult(error=answer["error"])
        for answer in answers
    ]


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"
