"""Where the cells of a grid run. One module per engine; all give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pagewise.errors import UsageError
from pagewise.grids.cells import CellResult, Task
from pagewise.recording import Progress

Report = Callable[[Mapping[str, CellResult]], None]

ENGINES = ("local", "ray")


class Engine(Protocol):
    """Runs tasks and reports the results of each by key, in the calling thread.

    ``room_bytes`` is what tasks that run at once may hold together; one always runs.
    """

    workers: int
    room_bytes: int

    def run(
        self, tasks: Sequence[Task], folder: Path, report: Report, progress: Progress | None
    ) -> None:
        """Runs ``tasks``; fetched and generated traces go to ``folder``.

        A ``KeyboardInterrupt`` stops all workers within a second and passes on.
        """


@contextmanager
def engine_named(name: str, *, address: str | None, jobs: int | None) -> Iterator[Engine]:
    """The engine called ``name``, for the time of the block."""
    if name == "local":
        from pagewise.engines.local import LocalEngine

        if address is not None:
            raise UsageError("an address is only for --engine ray")
        yield LocalEngine(jobs)
    elif name == "ray":
        from pagewise.engines.ray import connected

        with connected(address, jobs) as engine:
            yield engine
    else:
        raise UsageError(f"no engine is called {name!r}", hint=f"there are: {', '.join(ENGINES)}")
