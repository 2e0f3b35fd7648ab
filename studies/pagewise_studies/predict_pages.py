"""The pages of each application that left memory or came back, with times, from a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pagewise import _core
from pagewise.errors import NothingRecorded
from pagewise.launch_runs import LaunchRun
from pagewise.recording import Progress, Trace

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Pages: TypeAlias = numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]

ADDRESS_BITS = 44
"""Bits of a page number for the address, as in `trace::rows`; the space is in the bits above."""


@dataclass(frozen=True)
class Moves:
    """Moves of pages in one direction, sorted by time in seconds since the run began.

    ``number`` is the index in ``applications``, or -1 if the process belongs to no application.
    """

    time_s: NDArray[numpy.float64]
    page: Pages
    number: NDArray[numpy.int64]
    applications: tuple[str, ...]

    def during(self, app: str, start_s: float, end_s: float) -> Pages:
        """The distinct pages of an application that moved between two times, in ascending order."""
        import numpy

        first, last = numpy.searchsorted(self.time_s, (start_s, end_s))
        is_its = self.number[first:last] == self.applications.index(app)
        return numpy.unique(self.page[first:last][is_its])


def moves(run: LaunchRun, trace: Trace, progress: Progress | None = None) -> Mapping[str, Moves]:
    """Reads ``swap_in`` and ``swap_out``. Raises NothingRecorded for another run's recording."""
    import numpy

    header = trace.header
    kind, time_ns, space, address, process = (
        trace.column(name, progress=progress)
        for name in ("kind", "time_ns", "space", "address", "process")
    )
    applications = tuple(dict.fromkeys(visit.app for visit in run.visits))
    owners = run.owners()
    names = [
        each["name"] if owners is None else owners.get(each["pid"]) for each in header["processes"]
    ]
    number = numpy.full(max(len(names), 1 + int(process.max(initial=0))), -1)
    number[: len(names)] = [
        applications.index(name) if name in applications else -1 for name in names
    ]
    found = {}
    for name in ("swap_in", "swap_out"):
        these = numpy.flatnonzero(kind == _core.kinds().index(name))
        these = these[numpy.argsort(time_ns[these], kind="stable")]
        found[name] = Moves(
            time_s=(time_ns[these] + header["start_ns"] - run.start_ns) / 1e9,
            page=(space[these].astype(numpy.uint64) << numpy.uint64(ADDRESS_BITS)) | address[these],
            number=number[process[these]],
            applications=applications,
        )
    back = found["swap_in"]
    if len(back.page) and not any(
        len(back.during(visit.app, visit.start_s, visit.end_s)) for visit in run.visits
    ):
        raise NothingRecorded(
            f"{trace.path}: no page was swapped in during a visit by the application visited",
            path=trace.path,
            hint="is this the recording of that run? Its times count from run.toml's "
            "monotonic_start_ns, its processes are those of processes.parquet",
        )
    return found
