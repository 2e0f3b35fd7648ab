"""The unit of work of an engine: requests of one kind on one trace, in one pass over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pagewise.errors import PagewiseError
from pagewise.grids import memory
from pagewise.grids.memory import Size
from pagewise.grids.requests import CellResult, Request
from pagewise.grids.traces import Content, Numbered, TraceSource
from pagewise.recording import Progress


@dataclass(frozen=True)
class Cell:
    """One request on one trace; ``key`` identifies its outcome."""

    key: str
    trace: TraceSource
    trace_sha256: str
    request: Request


@dataclass(frozen=True)
class Task:
    """Cells of one trace and kind, run in one pass; ``held_bytes`` is the memory they take."""

    trace: TraceSource
    trace_sha256: str
    cells: tuple[Cell, ...]
    held_bytes: int


def split(
    cells: Sequence[Cell], sizes: Mapping[TraceSource, Size], workers: int, room_bytes: int
) -> list[Task]:
    """Splits ``cells`` into tasks, several per worker, so that no worker is idle for long at the
    end.

    One task per worker fits ``room_bytes``, unless single cells are larger.
    """
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.trace, cell.trace_sha256, cell.request.kind), []).append(cell)
    cells_max = max(1, min(memory.cells_of_pass(workers), -(-len(cells) // (4 * workers))))
    tasks = []
    for group in groups.values():
        trace, sha256 = group[0].trace, group[0].trace_sha256

        def cost(cell: Cell, size: Size = sizes[trace]) -> int:
            return cell.request.held_bytes(size)

        tasks += [
            Task(trace, sha256, tuple(part), sum(map(cost, part)))
            for part in memory.passes(group, cells_max, room_bytes // workers, cost)
        ]
    return tasks


def run(task: Task, content: Content, progress: Progress | None = None) -> list[CellResult]:
    """Runs the cells of ``task`` on its trace; results are in the order of the cells.

    If the trace can no longer be read, or changes meanwhile, every cell has that error.
    """
    try:
        with content.opened() as found:
            return _results(task, found, progress)
    except PagewiseError as error:
        return [CellResult(error=str(error), is_of_trace=True)] * len(task.cells)


def _results(task: Task, found: Numbered, progress: Progress | None) -> list[CellResult]:
    """The results of the cells of ``task``.

    If a pass fails as a whole, its cells run again one by one, so that a bad cell fails by itself.
    A ``KeyboardInterrupt`` from ``progress`` is raised again.
    """
    try:
        return _pass(task.cells, found, progress)
    except (PagewiseError, RuntimeError) as error:
        if len(task.cells) == 1:
            return [CellResult(error=str(error))]
    except BaseException as panic:
        # A panic in Rust is our own bug, but must not cost the other cells of a long run.
        if not _is_panic(panic):
            raise
        if len(task.cells) == 1:
            return [CellResult(error=f"internal error: {panic}")]
    return [
        result
        for cell in task.cells
        for result in _results(replace(task, cells=(cell,)), found, progress)
    ]


def _pass(cells: Sequence[Cell], found: Numbered, progress: Progress | None) -> list[CellResult]:
    requests = [cell.request for cell in cells]
    return requests[0].answers(found, requests, progress)


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"
