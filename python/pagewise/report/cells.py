"""Simulated cells: how they are grouped, named and ordered on the page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pagewise.report.inputs import Result
from pagewise.report.model import Column

COLUMNS = (
    Column("trace", "recording"),
    Column("architecture", "architecture"),
    Column("options", "options"),
    Column("fast_tier_bytes", "fast tier", "bytes"),
    Column("fast", "fast device"),
    Column("slow", "slow device"),
    Column("slow_reads", "slow reads", "count"),
    Column("slow_writes", "slow writes", "count"),
    Column("fast_reads", "fast reads", "count"),
    Column("fast_writes", "fast writes", "count"),
    Column("io_time_s", "I/O time", "seconds"),
    Column("stall_time_s", "stall time", "seconds"),
    Column("wear_fast", "fast wear per day", "ratio"),
    Column("wear_slow", "slow wear per day", "ratio"),
)


DAYS_PER_YEAR = 365


@dataclass(frozen=True, order=True)
class Setting:
    """What stays the same along a line of a chart: the recording and the devices."""

    trace: str
    fast: str
    slow: str

    def __str__(self) -> str:
        return f"{self.trace} with {self.fast} before {self.slow}"


def settings(cells: Iterable[Result]) -> dict[Setting, list[Result]]:
    """The cells of each recording and pair of devices, in the order given."""
    grouped: dict[Setting, list[Result]] = {}
    for cell in cells:
        setting = Setting(str(cell["trace"]), str(cell["fast"]), str(cell["slow"]))
        grouped.setdefault(setting, []).append(cell)
    return grouped


def label(cell: Result) -> str:
    """Architecture and the options that were given."""
    options = cell.get("options") or {}
    if isinstance(options, str):
        options = json.loads(options)
    given = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return f"{cell['architecture']} {given}".strip()


def sorted_cells(cells: Iterable[Result]) -> list[Result]:
    """By recording, devices, architecture and size."""
    return sorted(
        cells,
        key=lambda cell: (
            str(cell["trace"]),
            str(cell["fast"]),
            str(cell["slow"]),
            label(cell),
            cell["fast_tier_bytes"],
        ),
    )


def yearly_wear(cell: Result) -> float | None:
    """Share of the rated life used per year by the device that wears faster; None where unknown."""
    rates = [cell.get(name) for name in ("wear_fast", "wear_slow")]
    known = [float(rate) for rate in rates if rate is not None]
    return max(known) * DAYS_PER_YEAR if known else None
