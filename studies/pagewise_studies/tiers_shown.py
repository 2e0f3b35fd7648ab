"""Figures and the table of runs on a swap area of two tiers, for every study of such runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies.figure import Figure, Point
from pagewise_studies.live_runs import emulated
from pagewise_studies.runs import Counts
from pagewise_studies.table import Row, Table
from pagewise_studies.tiers import Live, TierRun

QUANTILES = {"p50": "50 %", "p99": "99 %", "p999": "99.9 %"}
FLASH = "flash"
"""The policy without a fast tier; the size in its plan is a page that it never uses."""
OCCUPIED = "Pages of the swap area by tier"


def runs_table(live: Live) -> Table:
    """The table of runs on two tiers, live beside simulated."""
    return Table(
        "runs",
        "Runs on two tiers, live beside simulated",
        "Reads, writes and I/O in pages. *Emulates*: the device whose times swap and files have; "
        "empty for the machine's own disk. *Slow I/O*: reads and writes of the slow tier. *On its "
        "requests*: by how much live slow I/O exceeds what the simulator gives for the requests of "
        "the same run. *Predicted*: by how much it exceeds what the simulator gives for the "
        "requests of a recorded run on a swap file, as a mean over these runs. *Moves*: whether "
        "`pagewise simulate --as-recorded` decides every move again. *Launch*: the median after "
        "the first round.",
        [_row(tier) for tier in live.tiers],
        ("on its requests", "predicted"),
    )


def _row(tier: TierRun) -> Row:
    times = tier.run.launches(2)
    slow = tier.counts.slow_accesses
    predicted = [_over(slow, counts) for counts in (tier.predicted or {}).values()]
    return {
        "run": tier.run.name,
        "policy": tier.kind,
        "fast tier, MiB": tier.fast_bytes / MIB if tier.policy != FLASH else None,
        "emulates": emulated(tier.run),
        "fast reads": tier.counts.fast_reads,
        "fast writes": tier.counts.fast_writes,
        "slow I/O": slow,
        "on its requests": _over(slow, tier.simulated) if tier.simulated else None,
        "predicted": sum(predicted) / len(predicted) if predicted else None,
        "moves": "" if tier.again is None else "same" if tier.again["identical"] else "differ",
        "launch, s": median(times) if times else None,
    }


def _over(slow: int, other: Counts) -> float:
    return slow / other.slow_accesses - 1 if other.slow_accesses else 0.0


def waits(study: str, live: Live) -> Figure:
    """Fault latency: the time of a read in swapd, by the tier that answered it."""
    return Figure(
        f"{study}-wait",
        "Fault latency by tier, from the arrival of a read at swapd to its answer",
        "share of the reads that are faster",
        "microseconds",
        tuple(
            Point(label, f"{tier.run.name}, {name} tier", times[quantile])
            for tier in live.tiers
            for name, times in tier.waits_us.items()
            for quantile, label in QUANTILES.items()
            if quantile in times
        ),
        config(live),
        is_categorical=True,
        is_joined=True,
        has_log_y=True,
    )


def occupancies(study: str, live: Live) -> Iterator[Figure]:
    """Tier occupancy over time, a view for each run."""
    for number, tier in enumerate(live.tiers, 1):
        points = [
            Point(round(each.at_s, 3), series, pages * PAGE_BYTES / MIB)
            for each in tier.occupancy
            for series, pages in (
                ("fast tier", each.fast_pages),
                ("slow tier only", each.slow_pages),
            )
        ]
        if points:
            yield Figure(
                f"{study}-occupancy-{number}",
                f"{OCCUPIED}: {tier.run.name}",
                "seconds since the start of the run",
                "MiB",
                tuple(points),
                config(live),
                is_stacked=True,
                chart=OCCUPIED,
                view=f"{tier.run.name} ({tier.label})",
            )


def config(live: Live) -> Mapping[str, object]:
    """What the figures of these runs depend on."""
    return {"runs": [[run.name, run.start_ns] for run in live.runs]}
