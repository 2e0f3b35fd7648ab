"""Which pages of each application left memory or came back, and when, from a run's recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pagewise import _core
from pagewise.errors import NothingRecorded
from pagewise.launch_runs import LaunchRun
from pagewise.recording import Progress, Trace

if TYPE_CHECKING:
    import numpy

    Pages: TypeAlias = numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]

ADDRESS_BITS = 44
"""Bits that the address of a page has room for, as in `trace::rows`; its space lies above them."""


@dataclass(frozen=True)
class Moves:
    """Moves in one direction by time, in seconds since the run began; ``number`` is that of the
    application in ``applications``, -1 for processes of none."""

    time_s: numpy.ndarray[Any, Any]
    page: Pages
    number: numpy.ndarray[Any, Any]
    applications: tuple[str, ...]

    def during(self, app: str, start_s: float, end_s: float) -> Pages:
        """The pages of an application that moved in a time, ascending, each once."""
        import numpy

        first, last = numpy.searchsorted(self.time_s, (start_s, end_s))
        is_its = self.number[first:last] == self.applications.index(app)
        return numpy.unique(self.page[first:last][is_its])


def moves(run: LaunchRun, trace: Trace, progress: Progress | None = None) -> Mapping[str, Moves]:
    """``swap_in`` and ``swap_out``. Raises NothingRecorded for the recording of another run."""
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
