"""The log of a run of real programs: one entry per visit, and totals of all storage I/O."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagewise.errors import UnreadableInput

KIB = 1024


@dataclass(frozen=True)
class Visit:
    """One visit of an app: ``launch_s`` from request to first answer, storage I/O in bytes."""

    round: int
    app: str
    is_cold: bool
    launch_s: float
    io_bytes: int


@dataclass(frozen=True)
class VisitLog:
    """One run; ``io_bytes`` is all storage I/O, ``swap_bytes`` what went to and from swap."""

    name: str
    mode: str
    limit_mb: int
    kills: int
    io_bytes: int
    swap_bytes: int
    visits: tuple[Visit, ...]

    def rounds(self) -> list[list[Visit]]:
        """The visits of each round, in order."""
        last = max(visit.round for visit in self.visits)
        return [[v for v in self.visits if v.round == number] for number in range(last + 1)]

    def launches(self, first: int, last: int | None = None) -> list[float]:
        """Launch times in seconds of the rounds from ``first`` to ``last``, both included."""
        return [
            visit.launch_s
            for visit in self.visits
            if visit.round >= first and (last is None or visit.round <= last)
        ]

    def io_bytes_per_visit(self, first_round: int = 0) -> float:
        """Storage I/O of one visit on average, over the rounds from ``first_round`` on."""
        return statistics.fmean(v.io_bytes for v in self.visits if v.round >= first_round)


def read(path: Path) -> VisitLog:
    """The log in a ``.visits.json`` file."""
    try:
        log: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        total = log["total"]
        return VisitLog(
            name=path.name.split(".")[0],
            mode=log["mode"],
            limit_mb=log["limit"],
            kills=log["kills"],
            io_bytes=_io_bytes(total),
            swap_bytes=(total["pswpin"] + total["pswpout"]) * 4 * KIB,
            visits=tuple(
                Visit(
                    round=visit["round"],
                    app=visit["app"],
                    is_cold=bool(visit["cold"]),
                    launch_s=visit["launch"],
                    io_bytes=_io_bytes(visit),
                )
                for visit in log["res"]
            ),
        )
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInput(f"{path}: not a visit log: {error!r}", path=str(path)) from error


def _io_bytes(counters: dict[str, int]) -> int:
    """pgpgin and pgpgout count KiB, whatever their name says."""
    return (counters["pgpgin"] + counters["pgpgout"]) * KIB


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
