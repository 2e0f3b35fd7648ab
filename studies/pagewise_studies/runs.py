"""Simulator counts of a study: simulations that run as a grid, with a lookup of each cell.

Latencies do not change the page operations of the paper's architectures, only their cost. So each
cell runs once, and the study computes I/O time from its counts for each pair of latencies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pagewise.errors import PagewiseError
from pagewise.grids import results
from pagewise.grids.key import canonical
from pagewise.grids.results import SimulatedCell
from pagewise.grids.run import sweep
from pagewise.grids.simulations import Simulation
from pagewise.grids.spec import Grid
from pagewise.grids.traces import TraceSource
from pagewise.recording import Progress
from pagewise.units import MIB

FAST, SLOW = "4/5us", "90/40us"


@dataclass(frozen=True)
class Latencies:
    """Times of one page operation in microseconds."""

    slow_read_us: float
    slow_write_us: float
    fast_read_us: float
    fast_write_us: float

    def __str__(self) -> str:
        return (
            f"slow {self.slow_read_us:g}/{self.slow_write_us:g} us, "
            f"fast {self.fast_read_us:g}/{self.fast_write_us:g} us"
        )


LATENCIES = tuple(
    Latencies(*slow, *fast)
    for slow in ((60, 20), (90, 40), (160, 500), (200, 300))
    for fast in ((4, 5), (10, 20))
)
"""The latencies under which checks are judged: flash from UFS to eMMC, fast tiers from zram to slow
NVM."""
BASE_LATENCIES = Latencies(90, 40, 4, 5)


@dataclass(frozen=True)
class Counts:
    """Page operations of one run."""

    fast_reads: int
    fast_writes: int
    slow_reads: int
    slow_writes: int

    @property
    def slow_accesses(self) -> int:
        """Reads and writes of the slow tier."""
        return self.slow_reads + self.slow_writes

    def io_time_s(self, latencies: Latencies) -> float:
        """Counts times latencies over both tiers, in seconds."""
        return 1e-6 * (
            self.fast_reads * latencies.fast_read_us
            + self.fast_writes * latencies.fast_write_us
            + self.slow_reads * latencies.slow_read_us
            + self.slow_writes * latencies.slow_write_us
        )


@dataclass(frozen=True)
class Variant:
    """An architecture with the options that a study sets, sorted by name."""

    architecture: str
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(architecture: str, **options: str) -> Variant:
        """Makes a variant, as in ``Variant.of("hybrid", entry_bit="0")``."""
        return Variant(architecture, tuple(sorted(options.items())))

    def with_options(self, **options: str) -> Variant:
        """This variant with further options."""
        return Variant.of(self.architecture, **dict(self.options), **options)


FLASH_ONLY = Variant.of("flash")
"""No fast tier: every page goes to the slow one."""
CLAIRVOYANT = Variant.of("clairvoyant")
"""The offline bound of I/O time at `FAST` and `SLOW`."""


class CellCounts:
    """Counts by trace, seed, variant and size of the fast tier in MiB."""

    def __init__(self, rows: Iterable[SimulatedCell]) -> None:
        self._counts: dict[tuple[str, int | None, Variant, int], Counts] = {}
        self._sha256: dict[tuple[str, int | None], str] = {}
        for row in rows:
            options = tuple(sorted(json.loads(str(row["options"])).items()))
            variant = Variant(row["architecture"], options)
            key = (row["trace"], row.get("seed"), variant, row["fast_tier_bytes"] // MIB)
            self._counts[key] = Counts(
                row["fast_reads"], row["fast_writes"], row["slow_reads"], row["slow_writes"]
            )
            self._sha256[row["trace"], row.get("seed")] = row["trace_sha256"]

    def counts(self, trace: TraceSource, variant: Variant, size_mib: int) -> Counts:
        """The counts of one cell."""
        return self._counts[trace.name, trace.seed, variant, size_mib]

    def hit_share(self, trace: TraceSource, variant: Variant, size_mib: int) -> float:
        """The share of the swap-ins that the fast tier answers; 0 if there are none.

        Every slow read of a cell answers a swap-in, and `FLASH_ONLY`, which must have run at the
        same size, answers all of them by slow reads.
        """
        reads = self.counts(trace, FLASH_ONLY, size_mib).slow_reads
        return 1 - self.counts(trace, variant, size_mib).slow_reads / reads if reads else 0.0

    def add(self, other: CellCounts) -> None:
        """Adds the counts of other runs."""
        self._counts |= other._counts
        self._sha256 |= other._sha256

    def sha256(self, trace: TraceSource) -> str:
        """The sha256 of the trace's file."""
        return self._sha256[trace.name, trace.seed]


def run(
    traces: Sequence[TraceSource],
    variants: Sequence[Variant],
    sizes_mib: Sequence[int],
    output: Path,
    progress: Progress | None,
) -> CellCounts:
    """Runs the cells that ``output`` lacks, and returns the counts of all cells."""
    requests = tuple(
        Simulation(variant.architecture, size * MIB, FAST, SLOW, variant.options)
        for variant in dict.fromkeys(variants)
        for size in sizes_mib
    )
    report = sweep(Grid(tuple(traces), requests), output, progress=progress)
    if report["failed"]:
        first = report["failed"][0]
        raise PagewiseError(
            f"{len(report['failed'])} of {report['cells']} runs failed, the first: "
            f"{canonical({name: first[name] for name in ('trace', 'architecture', 'options')})}: "
            f"{first['error']}"
        )
    return CellCounts(cast("list[SimulatedCell]", results.read(str(output))))
