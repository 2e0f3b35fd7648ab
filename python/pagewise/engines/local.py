"""All cores of this machine: one thread each, since the simulator runs without Python's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from pagewise.engines import MILLICELLS, Report
from pagewise.grids import cells
from pagewise.grids.cells import CellResult, Task
from pagewise.grids.traces import materialize
from pagewise.recording import Progress

POLL_S = 0.1


class LocalEngine:
    """A pool of ``jobs`` threads; by default one per core this process may use."""

    def __init__(self, jobs: int | None = None) -> None:
        self.workers = max(1, jobs or len(os.sched_getaffinity(0)))

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks`` and reports each as it ends."""
        stop = threading.Event()
        meter = _Meter(tasks)
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="cell")
        try:
            waiting: dict[Future[list[CellResult]], Task] = {
                pool.submit(_run, task, number, folder, meter, stop): task
                for number, task in enumerate(tasks)
            }
            while waiting:
                done, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    task = waiting.pop(future)
                    results = future.result()
                    report(
                        {cell.key: found for cell, found in zip(task.cells, results, strict=True)}
                    )
                if progress:
                    progress(meter.done(), meter.total)
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _run(
    task: Task, number: int, folder: Path, meter: _Meter, stop: threading.Event
) -> list[CellResult]:
    def advance(done: int, total: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        meter.advance(number, done, total)

    advance(0, 1)
    results = cells.run(task, materialize(task.trace, folder), advance)
    meter.advance(number, 1, 1)
    return results


class _Meter:
    """How far the tasks are, together. Each thread writes only its own entry."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.weights = [MILLICELLS * len(task.cells) for task in tasks]
        self.total = sum(self.weights)
        self.shares = [0.0] * len(tasks)

    def advance(self, number: int, done: int, total: int) -> None:
        if total:
            self.shares[number] = done / total

    def done(self) -> int:
        pairs = zip(self.weights, self.shares, strict=True)
        return int(sum(weight * share for weight, share in pairs))
