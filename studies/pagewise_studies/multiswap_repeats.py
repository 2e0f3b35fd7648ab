"""The main figures of S1 on each recorded plan, with their intervals over the repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pagewise_studies.compare import Changes, changes
from pagewise_studies.multiswap_checks import COPY, Inputs, acting
from pagewise_studies.repeats import estimate_of
from pagewise_studies.runs import BASE_LATENCIES, Counts, Variant
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import show
from pagewise_studies.workloads import Repeated, Workload

READING = {"entry_bit": "1", COPY: "keep"}
"""The choices of hybrid swap that the table shows, with each moment of a promotion."""
CLOCK = {"clock_reinsert": "fault", COPY: "keep"}
NOTE = (
    "Means over the repeats of a plan and, in brackets, their 95 % intervals by Student's t "
    "distribution. *Used once*: pages of the recording with a single access. The others are the "
    "change of hybrid swap with `entry_bit=1` and `flash_copy_on_promotion=keep`: of I/O time "
    "relative to hierarchical swap at 90/40 and 4/5 us, at the best size and as a mean; of flash "
    "accesses and of writes to the fast tier relative to CLOCK, as means. The sizes are those at "
    "which the fast tier of hybrid answers at least 1 % of the swap-ins, for I/O time up to the "
    "size that holds all pages with more than one access. Empty where a repeat has no such size."
)


def table(inputs: Inputs) -> Table:
    """A row for each recorded plan and moment of a promotion."""
    rows = [row for plan in inputs.recorded for row in _rows(inputs, plan)]
    return Table("repeats", "The main figures, with their spread over repeats", NOTE, rows)


def _rows(inputs: Inputs, plan: Repeated) -> Iterator[Row]:
    (clock,) = (each for each in inputs.clock if _has(each, CLOCK))
    baseline = inputs.hierarchical[0]
    for hybrid in (each for each in inputs.hybrid if _has(each, READING)):
        time, flash, writes = (
            partial(_changes, inputs, hybrid, other, measure)
            for other, measure in (
                (baseline, lambda counts: counts.io_time_s(BASE_LATENCIES)),
                (clock, lambda counts: counts.slow_accesses),
                (clock, lambda counts: counts.fast_writes),
            )
        )
        figures: Mapping[str, tuple[str, Callable[[Workload], float | None]]] = {
            "used once": ("share", lambda repeat: inputs.skew[repeat].singles["pages"]),
            "I/O time, best": ("change", _small(inputs, time, Changes.best)),
            "I/O time, mean": ("change", _small(inputs, time, Changes.mean)),
            "flash accesses": ("change", _whole(flash)),
            "fast-tier writes": ("change", _whole(writes)),
        }
        yield {
            "recordings": plan.plan.pooled.name,
            "promote_at": dict(hybrid.options)["promote_at"],
            "repeats": len(plan.each),
            **{name: _spread(plan, unit, of) for name, (unit, of) in figures.items()},
        }


def _has(variant: Variant, options: Mapping[str, str]) -> bool:
    return options.items() <= dict(variant.options).items()


def _changes(
    inputs: Inputs,
    hybrid: Variant,
    baseline: Variant,
    measure: Callable[[Counts], float],
    repeat: Workload,
) -> Changes | None:
    """The changes at the sizes at which the fast tier of hybrid answers swap-ins; None without."""
    sizes = acting(inputs, repeat, hybrid)
    return changes(inputs.cells, repeat, hybrid, baseline, measure, sizes) if sizes else None


def _small(
    inputs: Inputs, of: Callable[[Workload], Changes | None], figure: Callable[[Changes], float]
) -> Callable[[Workload], float | None]:
    def small(repeat: Workload) -> float | None:
        found = of(repeat)
        return figure(found.up_to(inputs.skew[repeat].multi_access_mib)) if found else None

    return small


def _whole(of: Callable[[Workload], Changes | None]) -> Callable[[Workload], float | None]:
    def whole(repeat: Workload) -> float | None:
        found = of(repeat)
        return found.mean() if found else None

    return whole


def _spread(plan: Repeated, unit: str, of: Callable[[Workload], float | None]) -> str:
    """The mean over the repeats with its interval; the figure itself if there is a single one."""
    figures = [figure for repeat in plan.each for figure in [of(repeat)] if figure is not None]
    if len(figures) < len(plan.each):
        return ""
    estimate = estimate_of(figures)
    if estimate is None:
        return show(figures[0], unit)
    low, high = show(estimate.low, unit), show(estimate.high, unit)
    return f"{show(estimate.figure, unit)} ({low} to {high})"
