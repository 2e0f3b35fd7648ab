"""Where the cells of a grid run. One module per engine; all give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pagewise.errors import UsageError
from pagewise.grids.cells import CellResult, Task
from pagewise.recording import Progress

Report = Callable[[Mapping[str, CellResult]], None]

ENGINES = ("local", "ray")
MILLICELLS = 1000
"""Progress is counted in thousandths of a cell."""


class Engine(Protocol):
    """Runs tasks and reports the results of each by key, in the calling thread."""

    workers: int

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks``; fetched and generated traces go to ``folder``.

        A ``KeyboardInterrupt`` stops all workers within a second and passes on.
        """


def engine_named(name: str, *, address: str | None, jobs: int | None) -> Engine:
    """The engine called ``name``."""
    if name == "local":
        from pagewise.engines.local import LocalEngine

        if address is not None:
            raise UsageError("an address is only for --engine ray")
        return LocalEngine(jobs)
    if name == "ray":
        from pagewise.engines.ray import RayEngine

        return RayEngine(address, jobs)
    raise UsageError(f"no engine is called {name!r}", hint=f"there are: {', '.join(ENGINES)}")
