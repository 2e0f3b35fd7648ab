"""Engines run the cells of a grid, one module each. All engines give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pagewise.errors import UsageError
from pagewise.grids.cells import Task
from pagewise.grids.requests import CellResult
from pagewise.recording import Progress

Report = Callable[[Mapping[str, CellResult]], None]

ENGINES = ("local", "ray")


class Engine(Protocol):
    """Runs tasks, and reports each task's results by key in the calling thread.

    ``room_bytes`` is the memory that concurrent tasks may hold together; at least one always runs.
    """

    workers: int
    room_bytes: int

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks``; writes fetched and generated traces to ``folder``.

        A ``KeyboardInterrupt`` stops all workers within a second and is raised again.
        """


@contextmanager
def engine_named(name: str, *, address: str | None, jobs: int | None) -> Iterator[Engine]:
    """The engine called ``name``, while the block runs."""
    refuse_unknown(name, address)
    if name == "local":
        from pagewise.engines.local import LocalEngine

        yield LocalEngine(jobs)
    else:
        from pagewise.engines.ray import connected

        with connected(address, jobs) as engine:
            yield engine


def refuse_unknown(name: str, address: str | None) -> None:
    """Raises UsageError if no engine has this name, or if the engine takes no address."""
    if name not in ENGINES:
        raise UsageError(f"no engine is called {name!r}", hint=f"there are: {', '.join(ENGINES)}")
    if name == "local" and address is not None:
        raise UsageError("--address works only with --engine ray")
