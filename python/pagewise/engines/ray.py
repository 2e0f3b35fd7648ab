"""A Ray cluster: one Ray task per pass. A worker that dies is replaced and its task run again.

Every worker needs the same pagewise, and reads traces itself: from fsspec addresses (``s3://``,
``gs://``), from a file system that all nodes share, or by generating them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pagewise.engines import MILLICELLS, Report
from pagewise.errors import OF_CLUSTERS, Missing, PagewiseError
from pagewise.grids import cells
from pagewise.grids.cells import CellResult, Task
from pagewise.grids.key import file_digest, this_build
from pagewise.grids.traces import materialize
from pagewise.recording import Progress
from pagewise.storage import private_folder

RETRIES = 5
"""How often a task is run again after its worker died. A cell that kills its worker every time is
then reported as failed."""
POLL_S = 0.2


class RayEngine:
    """The cluster at ``address``, or a new one on this machine with ``jobs`` processes."""

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise Missing("Ray is not installed", hint=OF_CLUSTERS) from error
        self.ray: Any = ray
        self.owns_connection = not ray.is_initialized()
        if self.owns_connection:
            # Results are small: Ray must not reserve gigabytes for its object store.
            local: dict[str, Any] = {"num_cpus": jobs, "object_store_memory": 80 * 2**20}
            options = {"address": address} if address else local
            ray.init(log_to_driver=False, include_dashboard=False, **options)
        self.workers = max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks`` and reports each as it ends; workers have folders of their own."""
        remote = self.ray.remote(max_retries=RETRIES, num_cpus=1)(run_remotely)
        waiting = {remote.remote(task, this_build()): task for task in tasks}
        total = MILLICELLS * sum(len(task.cells) for task in tasks)
        done = 0
        try:
            while waiting:
                ready, _ = self.ray.wait(list(waiting), num_returns=1, timeout=POLL_S)
                for reference in ready:
                    task = waiting.pop(reference)
                    results = self._results(reference, task)
                    report(
                        {cell.key: found for cell, found in zip(task.cells, results, strict=True)}
                    )
                    done += MILLICELLS * len(task.cells)
                if progress:
                    progress(done, total)
        finally:
            for reference in waiting:
                self.ray.cancel(reference, force=True)
            if self.owns_connection:
                self.ray.shutdown()

    def _results(self, reference: Any, task: Task) -> list[CellResult]:
        try:
            results: list[CellResult] = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            # The last line is the exception inside the worker, or why there is no worker.
            is_inside = isinstance(error, self.ray.exceptions.RayTaskError)
            what = "failed in its worker" if is_inside else "lost its worker"
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return [CellResult(error=f"{what}: {reason}")] * len(task.cells)
        return results


def run_remotely(task: Task, build: str) -> list[CellResult]:
    """One task, in a worker of the cluster, whose pagewise must be that of the caller."""
    if this_build() != build:
        error = f"the worker has pagewise {this_build()}, the caller {build}"
        return [CellResult(error=error)] * len(task.cells)
    # Traces stay on the node between tasks, by the user whose file they are.
    try:
        folder = private_folder("pagewise-traces") / task.trace_sha256
        folder.mkdir(exist_ok=True)
        path = materialize(task.trace, folder)
        if file_digest(path) != task.trace_sha256:
            raise PagewiseError(f"{task.trace.name}: the worker reads other bytes than the caller")
    except (PagewiseError, OSError) as error:
        return [CellResult(error=str(error))] * len(task.cells)
    return cells.run(task, path)
