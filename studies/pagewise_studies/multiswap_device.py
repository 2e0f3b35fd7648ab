"""How long programs wait for hierarchical and for hybrid swap if the kernel reads ahead, and if
operations wait for a busy device.

S1 counts I/O time, as if each operation found the device idle and each fault read its page. Here
the measure is the time that programs wait: the stall time, and the time in the device's queue.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pagewise.errors import PagewiseError
from pagewise.grids import results
from pagewise.grids.run import sweep
from pagewise.grids.simulations import Simulation
from pagewise.grids.spec import Grid
from pagewise.recording import Progress
from pagewise.types import Outcome
from pagewise.units import MIB
from pagewise_studies.compare import Changes
from pagewise_studies.multiswap_checks import GAIN_THRESHOLD, Inputs, acting
from pagewise_studies.runs import FAST, FLASH_ONLY, Variant
from pagewise_studies.table import Row, Table
from pagewise_studies.workloads import Repeated, Workload, shortest

DEVICES = ("ufs-3.1", "emmc-5.1")
SIZES_MIB = (64, 128, 256)
READINGS: tuple[Mapping[str, str], ...] = (
    {},
    {"readahead": "recorded"},
    {"readahead": "kernel"},
    {"queueing": "yes"},
    {"queueing": "yes", "readahead": "recorded"},
    {"queueing": "yes", "readahead": "kernel"},
)
NOTE = (
    "How long programs wait for swap on each slow device in the least memory, with a fast tier of "
    f"{FAST}, as means over the repeats: the stall time and, with `queueing=yes`, the time in the "
    "queue. *Reading*: what is added to S1's I/O time. *Queue*, *read ahead* and *used* are of "
    "flash only: shares of the wait, of the pages read, and of those read ahead. *Hybrid better*: "
    "the number of S1's other readings under which ACC-S1-2 (shape) holds for this time in every "
    "repeat. *Best change* and *mean change*: hybrid relative to hierarchical over these readings, "
    "and over the sizes "
    f"{', '.join(map(str, SIZES_MIB))} MiB at which hybrid's fast tier answers swap-ins, up to the "
    "size that holds all pages with more than one access."
)
LACKS = ("needs a trace with a clock", "needs a recording that shows")
"""What the errors of cells say that a recording cannot answer."""


@dataclass(frozen=True)
class Waits:
    """What programs waited in one cell, and what was read ahead in it."""

    wait_s: float
    queue_s: float
    reads: int
    read_ahead: int
    used: int

    @staticmethod
    def of(outcome: Outcome) -> Waits:
        """The waits of an outcome."""
        queue_s = outcome.get("queue_time_s") or 0.0
        pages = outcome.get("readahead_pages") or {"read": 0, "used": 0}
        reads = outcome["fast"]["reads"] + outcome["slow"]["reads"]
        wait_s = outcome["stall_time_s"] + queue_s
        return Waits(wait_s, queue_s, reads, pages["read"], pages["used"])


Cells = Mapping[tuple[str, str, Variant, int], Waits]
"""By trace, slow device, variant with the reading, and size of the fast tier in MiB."""


def table(inputs: Inputs, output: Path, progress: Progress | None) -> Table:
    """A row for each of the recorded data, device and reading, with the least memory."""
    variants = [*inputs.hierarchical, *inputs.hybrid, FLASH_ONLY]
    plans = shortest(inputs.recorded)
    cells = _run([plan.pooled for plan in plans], variants, output, progress)
    rows = [
        row
        for plan, device, reading in itertools.product(plans, DEVICES, READINGS)
        for row in _rows(inputs, cells, plan, device, reading)
    ]
    title = "The time that programs wait, with readahead and a queue"
    shares = ("queue", "read ahead", "used", "best change", "mean change")
    return Table("device", title, NOTE, rows, shares)


def _run(
    workloads: Sequence[Workload],
    variants: Sequence[Variant],
    output: Path,
    progress: Progress | None,
) -> Cells:
    """Runs the cells that ``output`` lacks. A recording that does not show readahead has none with
    ``readahead=recorded``, and one without a clock none with a queue."""
    requests = tuple(
        Simulation(variant.architecture, size * MIB, FAST, device, variant.options)
        for variant, reading in itertools.product(variants, READINGS)
        for variant in [variant.with_options(**reading)]
        for device, size in itertools.product(DEVICES, SIZES_MIB)
    )
    traces = tuple(trace for workload in workloads for trace in workload.traces)
    report = sweep(Grid(traces, requests), output, progress=progress)
    failed = [
        cell for cell in report["failed"] if not any(lack in str(cell["error"]) for lack in LACKS)
    ]
    if failed:
        raise PagewiseError(f"{len(failed)} runs failed, the first: {failed[0]['error']}")
    found = {}
    for row in results.read(str(output)):
        if row["outcome"] is None:
            continue
        variant = Variant.of(str(row["architecture"]), **json.loads(str(row["options"])))
        size = int(row["fast_tier_bytes"] or 0) // MIB
        key = (row["trace"], str(row["slow"]), variant, size)
        found[key] = Waits.of(json.loads(row["outcome"]))
    return found


@dataclass(frozen=True)
class OfRepeat:
    """What one repeat shows of a reading; ``curves`` has hybrid relative to hierarchical, by both.

    ``queue``, ``read_ahead`` and ``used`` are shares, of flash only; ``used`` is None where nothing
    was read ahead.
    """

    wait_s: float
    queue: float
    read_ahead: float
    used: float | None
    curves: Mapping[tuple[Variant, Variant], Changes]


def _rows(
    inputs: Inputs, cells: Cells, plan: Repeated, device: str, reading: Mapping[str, str]
) -> Iterator[Row]:
    """The row of a reading; none if a repeat cannot show it or hybrid's filter, or if no program
    waits in it."""
    found = [_of_repeat(inputs, cells, repeat, device, reading) for repeat in plan.each]
    repeats = [repeat for repeat in found if repeat]
    if len(repeats) < len(found):
        return
    pairs = [pair for pair in repeats[0].curves if all(pair in each.curves for each in repeats)]
    if not pairs:
        return
    better = sum(
        all(each.curves[pair].longest_gain(GAIN_THRESHOLD) >= 2 for each in repeats)
        for pair in pairs
    )
    used = [each.used for each in repeats if each.used is not None]
    yield {
        "recordings": plan.plan.pooled.name,
        "slow device": device,
        "reading": ", ".join("=".join(pair) for pair in reading.items()) or "as S1",
        "wait of flash only, s": round(fmean(each.wait_s for each in repeats), 1),
        "queue": fmean(each.queue for each in repeats),
        "read ahead": fmean(each.read_ahead for each in repeats),
        "used": fmean(used) if used else None,
        "hybrid better": f"{better} of {len(pairs)}",
        "best change": min(fmean(each.curves[pair].best() for each in repeats) for pair in pairs),
        "mean change": fmean(each.curves[pair].mean() for pair in pairs for each in repeats),
    }


def _of_repeat(
    inputs: Inputs, cells: Cells, repeat: Workload, device: str, reading: Mapping[str, str]
) -> OfRepeat | None:
    """What a repeat shows of a reading; None if it cannot show it, or if no program waits."""
    (trace,) = repeat.traces

    def waits(variant: Variant, size: int) -> Waits | None:
        return cells.get((trace.name, device, variant.with_options(**reading), size))

    flash = waits(FLASH_ONLY, SIZES_MIB[0])
    if flash is None or not flash.reads or not flash.wait_s:
        return None
    curves = {}
    for hybrid, baseline in itertools.product(inputs.hybrid, inputs.hierarchical):
        sizes = [size for size in acting(inputs, repeat, hybrid) if size in SIZES_MIB]
        pairs = [(waits(hybrid, size), waits(baseline, size)) for size in sizes]
        values = [
            ours.wait_s / other.wait_s - 1
            for ours, other in pairs
            if ours and other and other.wait_s
        ]
        if values and len(values) == len(sizes):
            limit = inputs.skew[repeat].multi_access_mib
            curves[hybrid, baseline] = Changes(tuple(sizes), tuple(values)).up_to(limit)
    return OfRepeat(
        flash.wait_s,
        flash.queue_s / flash.wait_s,
        flash.read_ahead / flash.reads,
        flash.used / flash.read_ahead if flash.read_ahead else None,
        curves,
    )
