"""A workload without its single-access pages: S1's explanation, put to the test."""

from __future__ import annotations

from pathlib import Path

from pagewise import _core
from pagewise.grids.key import digest
from pagewise.grids.traces import TraceSource, materialize
from pagewise_studies.workloads import Workload


def without_singles(workload: Workload, folder: Path) -> Workload:
    """The same traces less every page that is accessed once; the files go to ``folder``."""
    traces = tuple(_filtered(trace, folder) for trace in workload.traces)
    return Workload(workload.name, workload.choices, traces)


def _filtered(trace: TraceSource, folder: Path) -> TraceSource:
    source = materialize(trace, folder)
    name = f"{trace.name}-without-singles"
    path = (
        folder / f"{digest([trace.name, trace.seed, trace.address])[:16]}-without-singles.parquet"
    )
    _core.write_without_singles(str(source), str(path))
    return TraceSource(name, str(path), seed=trace.seed)
