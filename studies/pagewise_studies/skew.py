"""The skew of a workload: how its accesses are spread over pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagewise import _core, questions
from pagewise.grids.traces import TraceSource, materialize
from pagewise.recording import read
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies.predict_pages import ADDRESS_BITS
from pagewise_studies.workloads import Workload

RETURNS = (2, 3)
"""The returns of a page at which hybrid swap can first hit, by its entry bit (1, 0)."""


@dataclass(frozen=True)
class Skew:
    """The skew of a trace; shares are fractions.

    ``singles`` has the single-access share by what is counted. ``top_share`` has the share of
    accesses that go to the busiest share of pages.
    """

    pages: int
    accesses: int
    singles: Mapping[str, float]
    top_share: Mapping[str, float]
    pages_for_80_percent: float
    returns: Mapping[int, float]
    """The share of the swap-ins that bring a page back for this time (2, 3) or later."""

    @property
    def multi_access_mib(self) -> float:
        """The size of S1's working set: all pages that are accessed more than once."""
        return self.pages * (1 - self.singles["pages"]) * PAGE_BYTES / MIB


def measure(trace: TraceSource, folder: Path) -> Skew:
    """The skew of a trace; a generated trace stays in ``folder``."""
    path = materialize(trace, folder)
    analysis = questions.analyze(path)
    single, single_out = analysis["single_access"], analysis["single_out"]
    singles = {
        "pages": single["pages"],
        "accesses": single["accesses"],
        "pages swapped out once": single_out and single_out["pages"],
        "swap-outs of such pages": single_out and single_out["outs"],
    }
    return Skew(
        pages=analysis["pages"],
        accesses=analysis["accesses"],
        singles={name: value for name, value in singles.items() if value is not None},
        top_share=analysis["top_share"],
        pages_for_80_percent=analysis["pages_for_80_percent"],
        returns=returns(path),
    )


def returns(path: str | Path) -> dict[int, float]:
    """The share of the swap-ins that bring a page back for the second, and for the third time or
    later; 0 without swap-ins."""
    import numpy

    trace = read(path)
    kind, space, address = (trace.column(name) for name in ("kind", "space", "address"))
    is_in = kind == _core.kinds().index("swap_in")
    pages = (space[is_in].astype(numpy.uint64) << numpy.uint64(ADDRESS_BITS)) | address[is_in]
    if not len(pages):
        return dict.fromkeys(RETURNS, 0.0)
    counts = numpy.unique(pages, return_counts=True)[1]
    return {
        number: float(numpy.maximum(counts - number + 1, 0).sum() / len(pages))
        for number in RETURNS
    }


def of_workloads(workloads: Sequence[Workload], folder: Path) -> dict[Workload, Skew]:
    """The skew of each workload, from its first trace; seeds differ by less than 1 %."""
    return {workload: measure(workload.traces[0], folder) for workload in workloads}
