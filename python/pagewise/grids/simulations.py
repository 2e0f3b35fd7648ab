"""Cells that simulate swap architectures, and runs of many simulations at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pagewise import _core
from pagewise.grids import memory
from pagewise.grids.key import canonical
from pagewise.grids.memory import Size
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress, Trace
from pagewise.units import PAGE_BYTES

OF_THE_REPLAY = ("readahead", "clean_evictions", "ranges")
"""Options of every architecture, which belong to the replay of the trace."""
COUNTS = ("promotions", "demotions")
TIMES = ("io_time_s", "stall_time_s")
MILLICELLS = 1000
"""Progress counts thousandths of a cell."""


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

    def to_json(self) -> dict[str, Any]:
        """The request as JSON for the core."""
        options = dict(self.options)
        of_the_replay = {name: options.pop(name) for name in OF_THE_REPLAY if name in options}
        return {
            "architecture": self.architecture,
            "fast_tier_bytes": self.fast_tier_bytes,
            "fast": self.fast,
            "slow": self.slow,
            "options": options,
            "profile": self.profile,
            **({} if self.page_bytes == PAGE_BYTES else {"page_bytes": self.page_bytes}),
            **of_the_replay,
        }

    @property
    def kind(self) -> object:
        """Simulations of every kind may share a pass over the trace."""
        return "simulation"

    def effective(self) -> dict[str, Any]:
        """The request with every default filled in and the devices' figures."""
        return _core.describe_request(json.dumps(self.to_json()))

    def held_bytes(self, size: Size) -> int:
        """Bytes that it holds while it runs on this trace."""
        return memory.bytes_of(self.to_json(), size)

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """Runs simulations in one pass, each with ``outcome`` or with ``error``."""
        return _in_one_pass(found.trace, [request.to_json() for request in requests], (), progress)

    def inputs(self) -> dict[str, Any]:
        """The request, by column of the table."""
        return {
            "architecture": self.architecture,
            "profile": self.profile,
            "options": canonical(dict(self.options)),
            "fast_tier_bytes": self.fast_tier_bytes,
            "fast": self.fast,
            "slow": self.slow,
        }

    def figures(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """The figures of an outcome, by column of the table."""
        fast, slow, wear = outcome["fast"], outcome["slow"], outcome.get("wear") or {}
        return {
            "fast_reads": fast["reads"],
            "fast_writes": fast["writes"],
            "fast_bytes_written": fast["bytes_written"],
            "slow_reads": slow["reads"],
            "slow_writes": slow["writes"],
            "wear_fast": wear.get("fast"),
            "wear_slow": wear.get("slow"),
            **{name: outcome[name] for name in (*COUNTS, *TIMES)},
        }


def simulate_many(
    found: Numbered,
    requests: Sequence[Mapping[str, Any]],
    *,
    marks: Sequence[int] = (),
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Runs many requests (see `Simulation.to_json`) on all cores, in the fewest passes that fit
    memory.

    Each answer has either ``outcome``, as in `pagewise simulate --json`, or ``error``. With
    ``marks``, outcomes also have ``slices``: the counts before the first mark, between marks, and
    after the last. Marks are ns since the first event or, without a clock, numbers of events.
    ``progress`` counts thousandths of cells.
    """
    cores = memory.cores()
    answers: list[dict[str, Any]] = []
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
    requests: Sequence[Mapping[str, Any]],
    marks: Sequence[int],
    progress: Progress | None,
) -> list[dict[str, Any]]:
    memory.give_back_what_is_freed()
    text = json.dumps(list(requests))
    return _core.simulate_many(*trace.arguments(), text, marks=list(marks), progress=progress)
