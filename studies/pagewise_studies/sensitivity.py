"""The effect of each choice that the papers leave open: a row changes a single option.

Columns: workload, architecture, option, value, default, and the change relative to all defaults, in
I/O time (mean and largest over the sizes), slow-tier accesses and fast-tier writes (mean).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from pagewise import _core
from pagewise.recording import Progress
from pagewise_studies.compare import Changes, changes
from pagewise_studies.runs import BASE_LATENCIES, Variant, run
from pagewise_studies.table import Row
from pagewise_studies.workloads import Workload

SIZES_MIB = (64, 128, 256, 512)
NUMBERS = {"ghost": ("0.25", "1", "4"), "bit_epoch": ("10000", "100000", "1000000")}
"""Values to try for options that take a number. ``ghost``: remembered pages, as a multiple of the
fast tier's pages (S0.4). ``bit_epoch``: swap-ins after which access bits are cleared."""
OF_THE_REPLAY = (("readahead", "off", "kernel"), ("clean_evictions", "none", "inferred"))
"""Choices of the replay with any architecture: name, default, and the value to try."""


def table(
    architectures: Sequence[str],
    workloads: Sequence[Workload],
    output: Path,
    progress: Progress | None,
) -> list[Row]:
    """A row for each workload, architecture and value other than the default."""
    tried = [row for row in _choices() if row[0] in architectures]
    variants = [
        *(Variant.of(name) for name in architectures),
        *(Variant.of(name, **{option: value}) for name, option, _, value in tried),
    ]
    traces = [trace for workload in workloads for trace in workload.traces]
    cells = run(traces, variants, SIZES_MIB, output, progress)
    rows: list[Row] = []
    for workload in workloads:
        for name, option, default, value in tried:
            time, slow, fast = (
                changes(
                    cells,
                    workload,
                    Variant.of(name, **{option: value}),
                    Variant.of(name),
                    measure,
                    SIZES_MIB,
                )
                for measure in (
                    lambda counts: counts.io_time_s(BASE_LATENCIES),
                    lambda counts: counts.slow_accesses,
                    lambda counts: counts.fast_writes,
                )
            )
            rows.append(
                {
                    "workload": workload.name,
                    "architecture": name,
                    "option": option,
                    "value": value,
                    "default": default,
                    "io_time_mean": time.mean(),
                    "io_time_largest": _largest(time),
                    "slow_accesses_mean": slow.mean(),
                    "fast_writes_mean": fmean(fast.values),
                }
            )
    return rows


def _choices() -> Iterator[tuple[str, str, str, str]]:
    """Architecture, option, default and every other value of each option in the catalog."""
    for architecture in _core.architectures():
        for option in architecture["options"]:
            values = [*option["words"], *NUMBERS.get(option["name"], ())]
            for value in values:
                if value != option["default"]:
                    yield architecture["name"], option["name"], option["default"], value
        for name, default, value in OF_THE_REPLAY:
            yield architecture["name"], name, default, value


def _largest(curve: Changes) -> float:
    """The value farthest from 0."""
    return max(curve.values, key=abs)
