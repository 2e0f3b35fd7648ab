"""Runs tasks on all cores of this machine, in threads: the simulator releases Python's lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from pagewise.engines import Report
from pagewise.grids import cells, memory
from pagewise.grids.cells import Task
from pagewise.grids.requests import CellResult
from pagewise.grids.simulations import MILLICELLS
from pagewise.grids.traces import prepared
from pagewise.recording import Progress

POLL_S = 0.1


class LocalEngine:
    """A pool of ``jobs`` threads; by default, one per core that this process may use."""

    def __init__(self, jobs: int | None = None) -> None:
        self.workers = max(1, jobs or memory.cores())
        self.room_bytes = memory.room_bytes()

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs as many ``tasks`` at once as fit memory, and reports each as it ends."""
        stop = threading.Event()
        meter = _Meter(tasks)
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="cell")
        waiting = deque(enumerate(tasks))
        running: dict[Future[list[CellResult]], Task] = {}
        try:
            while waiting or running:
                while waiting and self._has_room(running.values(), waiting[0][1]):
                    number, task = waiting.popleft()
                    running[pool.submit(_run, task, number, folder, meter, stop)] = task
                done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    results = future.result()
                    report(
                        {cell.key: found for cell, found in zip(task.cells, results, strict=True)}
                    )
                if progress:
                    progress(meter.done(), meter.total)
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _has_room(self, running: Collection[Task], task: Task) -> bool:
        """Whether a task fits beside the running ones."""
        held = sum(other.held_bytes for other in running)
        fits = held + task.held_bytes <= self.room_bytes
        return not running or (len(running) < self.workers and fits)


def _run(
    task: Task, number: int, folder: Path, meter: _Meter, stop: threading.Event
) -> list[CellResult]:
    def advance(done: int, total: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        meter.advance(number, done, total)

    advance(0, 1)
    found = prepared(task.trace, task.trace_sha256, folder)
    results = cells.run(task, found, advance)
    meter.advance(number, 1, 1)
    return results


class _Meter:
    """The progress of all tasks together. Each thread writes only its own entry."""

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
