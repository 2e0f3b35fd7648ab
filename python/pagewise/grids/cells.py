"""The unit of work that engines hand out: some requests on one trace, in one pass over it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagewise import _core
from pagewise.errors import PagewiseError
from pagewise.grids.key import canonical
from pagewise.grids.spec import Request, TraceSource
from pagewise.recording import Progress, Trace

CELLS_MAX = 32
"""Cells of one pass: enough to share the reading, few enough that little is lost by a kill."""


@dataclass(frozen=True)
class Cell:
    """One request on one trace; ``key`` identifies its outcome."""

    key: str
    trace: TraceSource
    trace_sha256: str
    request: Request


@dataclass(frozen=True)
class Task:
    """Cells of one trace that are run in one pass."""

    trace: TraceSource
    trace_sha256: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class CellResult:
    """What became of a cell: its outcome as canonical JSON text, or why there is none."""

    outcome: str | None = None
    error: str | None = None


def split(cells: Sequence[Cell], workers: int) -> list[Task]:
    """Tasks over ``cells``, several for each worker, so that none waits long at the end."""
    by_trace: dict[tuple[TraceSource, str], list[Cell]] = {}
    for cell in cells:
        by_trace.setdefault((cell.trace, cell.trace_sha256), []).append(cell)
    size = max(1, min(CELLS_MAX, -(-len(cells) // (4 * workers))))
    return [
        Task(trace, sha256, tuple(group[start : start + size]))
        for (trace, sha256), group in by_trace.items()
        for start in range(0, len(group), size)
    ]


def simulate_many(
    trace: Trace,
    requests: Sequence[Mapping[str, Any]],
    *,
    marks: Sequence[int] = (),
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Runs many requests (see `Request.to_json`) in one pass over the trace.

    Each answer holds either ``outcome``, as `pagewise simulate --json` prints it, or ``error``.
    With ``marks`` an outcome has ``slices`` too: the counts up to each mark from the one before it,
    and behind the last. Marks are ns since the first event or, without a clock, numbers of events.
    """
    text = json.dumps(list(requests))
    answers: list[dict[str, Any]] = json.loads(
        _core.simulate_many(*trace.arguments(), text, marks=list(marks), progress=progress)
    )
    return answers


def run(task: Task, path: Path, progress: Progress | None = None) -> list[CellResult]:
    """Runs the cells of ``task`` on the trace file at ``path``, results in the order of its cells.

    A pass that fails as a whole is run again cell by cell, so that one cell cannot take the others
    down. A ``KeyboardInterrupt`` raised by ``progress`` passes through.
    """
    try:
        return _pass(task.cells, path, progress)
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
        for result in run(Task(task.trace, task.trace_sha256, (cell,)), path, progress)
    ]


def _pass(cells: Sequence[Cell], path: Path, progress: Progress | None) -> list[CellResult]:
    requests = [cell.request.to_json() for cell in cells]
    answers = simulate_many(Trace(str(path)), requests, progress=progress)
    return [
        CellResult(outcome=canonical(answer["outcome"]))
        if "outcome" in answer
        else CellResult(error=answer["error"])
        for answer in answers
    ]


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"
