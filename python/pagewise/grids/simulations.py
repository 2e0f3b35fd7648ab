"""Cells that simulate swap architectures, and runs of many simulations at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, Self, TypedDict, cast

from pagewise import _core
from pagewise.grids import memory
from pagewise.grids.key import canonical
from pagewise.grids.memory import Size
from pagewise.grids.requests import CellResult
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress, Trace
from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    from pagewise.comparisons import FailedCell, SweepCell
    from pagewise.types import DescribedRequest, Outcome, Simulated

OF_THE_REPLAY: tuple[Literal["readahead", "clean_evictions", "queueing", "ranges"], ...] = (
    "readahead",
    "clean_evictions",
    "queueing",
    "ranges",
)
"""Options of every architecture, which belong to the replay of the trace."""
MILLICELLS = 1000
"""Progress counts thousandths of a cell."""


class SimulateRequest(TypedDict):
    """A request of the core; options that are absent have their defaults."""

    architecture: str
    fast_tier_bytes: int
    fast: str
    slow: str
    options: dict[str, str]
    profile: str | None
    page_bytes: NotRequired[int]
    readahead: NotRequired[str]
    clean_evictions: NotRequired[str]
    queueing: NotRequired[str]
    ranges: NotRequired[str]


@dataclass(frozen=True)
class Simulation:
    """A configuration of the simulator: an architecture on two devices.

    ``options`` holds only the options in the spec. ``place`` is where the spec has the request.
    """

    architecture: str
    fast_tier_bytes: int
    fast: str
    slow: str
    options: tuple[tuple[str, str], ...] = ()
    profile: str | None = None
    page_bytes: int = PAGE_BYTES
    place: str = field(default="", compare=False)

    def to_json(self) -> SimulateRequest:
        """The request as JSON for the core."""
        options = dict(self.options)
        request: SimulateRequest = {
            "architecture": self.architecture,
            "fast_tier_bytes": self.fast_tier_bytes,
            "fast": self.fast,
            "slow": self.slow,
            "options": options,
            "profile": self.profile,
        }
        if self.page_bytes != PAGE_BYTES:
            request["page_bytes"] = self.page_bytes
        for name in OF_THE_REPLAY:
            if name in options:
                request[name] = options.pop(name)
        return request

    @property
    def kind(self) -> object:
        """Simulations of every kind may share a pass over the trace."""
        return "simulation"

    def effective(self) -> DescribedRequest:
        """The request with every default filled in and the devices' figures."""
        return _core.describe_request(json.dumps(self.to_json()))

    def held_bytes(self, size: Size) -> int:
        """Bytes that it holds while it runs on this trace."""
        return memory.bytes_of(self.to_json(), size)

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[CellResult]:
        """Runs simulations in one pass."""
        asked = [request.to_json() for request in requests]
        return [_result(answer) for answer in _in_one_pass(found.trace, asked, (), progress)]

    def failed(self, trace: str, error: str | None) -> FailedCell:
        """The failed cell: what this cell asked of a trace, with the error."""
        return cast("FailedCell", {"trace": trace, **self.to_json(), "error": error})

    def fill(self, row: SweepCell, outcome: str | None) -> None:
        """Adds the request, and the figures of its outcome, to a row of the table."""
        row["architecture"] = self.architecture
        row["profile"] = self.profile
        row["options"] = canonical(dict(self.options))
        row["fast_tier_bytes"] = self.fast_tier_bytes
        row["fast"] = self.fast
        row["slow"] = self.slow
        if outcome is None:
            return
        figures: Outcome = json.loads(outcome)
        fast, slow, wear = figures["fast"], figures["slow"], figures["wear"]
        row["fast_reads"] = fast["reads"]
        row["fast_writes"] = fast["writes"]
        row["fast_bytes_written"] = fast["bytes_written"]
        row["slow_reads"] = slow["reads"]
        row["slow_writes"] = slow["writes"]
        row["wear_fast"] = wear["fast"]
        row["wear_slow"] = wear["slow"]
        row["promotions"] = figures["promotions"]
        row["demotions"] = figures["demotions"]
        row["io_time_s"] = figures["io_time_s"]
        row["stall_time_s"] = figures["stall_time_s"]


def _result(answer: Simulated) -> CellResult:
    outcome = answer.get("outcome")
    if outcome is None:
        return CellResult(error=answer.get("error"))
    return CellResult(outcome=canonical(outcome))


def simulate_many(
    found: Numbered,
    requests: Sequence[SimulateRequest],
    *,
    marks: Sequence[int] = (),
    progress: Progress | None = None,
) -> list[Simulated]:
    """Runs many requests (see `Simulation.to_json`) on all cores, in the fewest passes that fit
    memory.

    Each answer has either ``outcome``, as in `pagewise simulate --json`, or ``error``. With
    ``marks``, outcomes also have ``slices``: the counts before the first mark, between marks, and
    after the last. Marks are ns since the first event or, without a clock, numbers of events.
    ``progress`` counts thousandths of cells.
    """
    cores = memory.cores()
    answers: list[Simulated] = []
    for part in memory.passes(
        requests,
        cores * memory.cells_of_pass(cores),
        memory.room_bytes(),
        lambda request: memory.bytes_of(request, found.size),
    ):
        before = len(answers)

        def advance(done: int, total: int, before: int = before, now: int = len(part)) -> None:
            if progress is not None:
                cells = before * MILLICELLS + (now * MILLICELLS * done // total if total else 0)
                progress(cells, len(requests) * MILLICELLS)

        answers += _in_one_pass(found.trace, part, marks, advance)
    return answers


def _in_one_pass(
    trace: Trace,
    requests: Sequence[SimulateRequest],
    marks: Sequence[int],
    progress: Progress | None,
) -> list[Simulated]:
    memory.give_back_what_is_freed()
    text = json.dumps(list(requests))
    return _core.simulate_many(*trace.arguments(), text, marks=list(marks), progress=progress)
