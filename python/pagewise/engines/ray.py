"""Runs tasks on a Ray cluster, one Ray task per pass or recording. If a worker dies, its task runs
again.

Every worker needs the same pagewise, and reads traces itself: from fsspec addresses (``s3://``,
``gs://``), from a file system that all nodes share, or by generating them.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypedDict

from pagewise.engines import Report
from pagewise.engines.recordings import AHEAD
from pagewise.errors import OF_CLUSTERS, Missing, PagewiseError, UsageError
from pagewise.fleet import Answer, FiguresOf, answer
from pagewise.grids import cells, memory
from pagewise.grids.cells import Task
from pagewise.grids.key import file_digest, this_build
from pagewise.grids.requests import CellResult
from pagewise.grids.simulations import MILLICELLS
from pagewise.grids.traces import materialize, prepared
from pagewise.recording import Progress
from pagewise.scratch import clear, scratch, shared, temporary
from pagewise.storage import is_remote, local_path
from pagewise.units import MIB

RETRIES = 5
"""How often a task runs again after its worker died. A cell that kills its worker every time is
then reported as failed."""
POLL_S = 0.2
WORKER_BYTES = 200 * MIB
"""Memory of a worker besides its cells: the interpreter, Ray, and the buffered rows of a trace."""


class ClusterOptions(TypedDict, total=False):
    """Options of ``ray.init``: the address of a cluster, or what a new one may take."""

    address: str
    num_cpus: int | None
    object_store_memory: int
    _memory: int
    _temp_dir: str


@contextmanager
def connected(address: str | None, jobs: int | None) -> Iterator[RayEngine]:
    """The cluster at ``address``, or a new one on this machine with ``jobs`` processes.

    If this process already has a connection, uses it and keeps it open.
    """
    try:
        import ray
    except ImportError as error:
        raise Missing("Ray is not installed", hint=OF_CLUSTERS) from error
    if address and jobs is not None:
        raise UsageError(
            f"the cluster at {address} decides how many tasks run at once",
            hint="leave out one of --address and --jobs",
        )
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.callback(clear, temporary())  # removes what workers on this machine kept
            options: ClusterOptions = (
                {"address": address} if address else stack.enter_context(own(jobs))
            )
            stack.callback(ray.shutdown)
            ray.init(log_to_driver=False, include_dashboard=False, **options)
        yield RayEngine(ray)


@contextmanager
def own(jobs: int | None) -> Iterator[ClusterOptions]:
    """Options of a new cluster on this machine, whose files and logs are removed with it."""
    with scratch(Path(os.environ.get("RAY_TMPDIR", temporary()))) as folder:
        # Results are small, so Ray need not reserve gigabytes for its object store. It gets a
        # folder inside ours, since it opens its own folder to all users.
        place = str(folder / "ray")
        yield {
            "num_cpus": jobs,
            "object_store_memory": 80 * MIB,
            "_memory": memory.room_bytes(),
            "_temp_dir": place,
        }


class RayEngine:
    """The cluster that ``ray`` is connected to."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.node_bytes = int(max((node.get("memory", 0) for node in nodes), default=0))
        # Tasks are sized so that each core of the largest node can run one.
        cores = max((node.get("CPU", 1) for node in nodes), default=1)
        self.room_bytes = int((self.node_bytes / max(1, cores) - WORKER_BYTES) * self.workers)

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks`` and reports each as it ends; each worker has its own folder."""
        run = secrets.token_hex(8)
        waiting = {self._started(task, run): task for task in tasks}
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

    def answers(self, paths: Sequence[str], figures_of: FiguresOf) -> Iterator[Answer]:
        """The answer for each recording, in their order. Workers read paths and addresses.

        The memory that a recording needs is not known before, so tasks request none for it.
        """
        held = min(WORKER_BYTES, self.node_bytes)
        remote = self.ray.remote(max_retries=RETRIES, num_cpus=1, memory=held)(answer_remotely)
        waiting: deque[Any] = deque()
        try:
            for path in paths:
                # Workers have a working directory of their own.
                place = path if is_remote(path) else os.path.abspath(local_path(path))
                waiting.append(remote.remote(place, figures_of, this_build()))
                if len(waiting) >= AHEAD * self.workers:
                    yield self._answer(waiting.popleft())
            while waiting:
                yield self._answer(waiting.popleft())
        finally:
            for reference in waiting:
                self.ray.cancel(reference, force=True)

    def _answer(self, reference: Any) -> Answer:
        try:
            found: Answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return PagewiseError(self._reason(error))
        return found

    def _reason(self, error: Exception) -> str:
        """Why a task has no result: the last line is the exception in the worker, or the reason why
        the worker is gone."""
        is_inside = isinstance(error, self.ray.exceptions.RayTaskError)
        what = "failed in its worker" if is_inside else "lost its worker"
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        return f"{what}: {reason}"

    def _started(self, task: Task, run: str) -> Any:
        """Starts a task on a node with enough memory; if no node is large enough, the task gets a
        whole node."""
        held = min(WORKER_BYTES + task.held_bytes, self.node_bytes)
        remote = self.ray.remote(max_retries=RETRIES, num_cpus=1, memory=held)(run_remotely)
        return remote.remote(task, this_build(), run)

    def _results(self, reference: Any, task: Task) -> list[CellResult]:
        try:
            results: list[CellResult] = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return [CellResult(error=self._reason(error))] * len(task.cells)
        return results


def run_remotely(task: Task, build: str, run: str) -> list[CellResult]:
    """Runs one task in a worker of the cluster, which must have the caller's version of
    pagewise."""
    if this_build() != build:
        error = f"the worker has pagewise {this_build()}, the caller {build}"
        return [CellResult(error=error)] * len(task.cells)
    # Traces stay on the node between the tasks of a run.
    try:
        clear(temporary())
        folder = shared(f"traces-{run}") / task.trace_sha256
        folder.mkdir(exist_ok=True)
        path = materialize(task.trace, folder)
        if file_digest(path) != task.trace_sha256:
            raise PagewiseError(f"{task.trace.name}: the worker's copy differs from the caller's")
        found = prepared(task.trace, task.trace_sha256, folder)
    except (PagewiseError, OSError) as error:
        return [CellResult(error=str(error))] * len(task.cells)
    return cells.run(task, found)


def answer_remotely(path: str, figures_of: FiguresOf, build: str) -> Answer:
    """The answer for one recording in a worker of the cluster, which must have the caller's version
    of pagewise."""
    if this_build() != build:
        return PagewiseError(f"the worker has pagewise {this_build()}, the caller {build}")
    return answer(path, figures_of)
