"""How the page groups, names and orders simulated cells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from pagewise import _core
from pagewise.grids.results import SimulatedCell
from pagewise.report.model import Column, TableCell
from pagewise.units import DAYS_PER_YEAR

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
    Column("wear_fast_per_year", "fast: rated life used per year", "share"),
    Column("wear_slow_per_year", "slow: rated life used per year", "share"),
)


@dataclass(frozen=True, order=True)
class Setup:
    """What all points of a line in a chart share: the recording and the devices."""

    trace: str
    fast: str
    slow: str

    def __str__(self) -> str:
        return f"{self.trace} with {self.fast} before {self.slow}"


def by_setup(cells: Iterable[SimulatedCell]) -> dict[Setup, list[SimulatedCell]]:
    """The cells of each recording and pair of devices, in the order given."""
    grouped: dict[Setup, list[SimulatedCell]] = {}
    for cell in cells:
        setup = Setup(str(cell["trace"]), str(cell["fast"]), str(cell["slow"]))
        grouped.setdefault(setup, []).append(cell)
    return grouped


def label(cell: SimulatedCell) -> str:
    """The architecture, and the options that do not have their default."""
    options = cell.get("options") or {}
    if isinstance(options, str):
        options = json.loads(options)
    defaults = defaults_of(cell["architecture"])
    given = " ".join(
        f"{name}={value}"
        for name, value in sorted(options.items())
        if str(value) != defaults.get(name)
    )
    return f"{cell['architecture']} {given}".strip()


@cache
def defaults_of(architecture: str) -> dict[str, str]:
    """The defaults of an architecture's options; empty if the catalog does not have it."""
    return {
        option["name"]: option["default"]
        for row in _core.architectures()
        if row["name"] == architecture
        for option in row["options"]
    }


def sorted_cells(cells: Iterable[SimulatedCell]) -> list[SimulatedCell]:
    """The cells by recording, devices, architecture and size."""
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


def row(cell: SimulatedCell) -> list[TableCell]:
    """A cell as a row of the table."""
    options = cell.get("options")
    return [
        cell["trace"],
        cell["architecture"],
        options if isinstance(options, str) or options is None else json.dumps(options),
        cell["fast_tier_bytes"],
        cell["fast"],
        cell["slow"],
        cell["slow_reads"],
        cell["slow_writes"],
        cell["fast_reads"],
        cell["fast_writes"],
        cell["io_time_s"],
        cell.get("stall_time_s"),
        per_year(cell.get("wear_fast")),
        per_year(cell.get("wear_slow")),
    ]


def per_year(wear: float | None) -> float | None:
    """Share of the rated life used per year, before write amplification; None if unknown."""
    return None if wear is None else float(wear) * DAYS_PER_YEAR


def yearly_wear(cell: SimulatedCell) -> float | None:
    """Share of its rated life that the faster wearing device loses per year; None if unknown."""
    rates = [per_year(cell.get("wear_fast")), per_year(cell.get("wear_slow"))]
    return max((rate for rate in rates if rate is not None), default=None)
