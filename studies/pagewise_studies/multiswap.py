"""S1, "multi-swap": hierarchical against hybrid (parallel) swap, Figs. 2-4.

The study replays the recordings and three generated scenarios. `multiswap_checks` has the checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pagewise.comparisons import StudyCell, StudyResult
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import inputs_of
from pagewise.recording import Progress
from pagewise_studies import multiswap_checks as checks
from pagewise_studies import multiswap_device, multiswap_repeats, outcome, sensitivity
from pagewise_studies.compare import Measure
from pagewise_studies.figure import Figure, mean_point
from pagewise_studies.launch_simulated_checks import launch_readings
from pagewise_studies.runs import (
    BASE_LATENCIES,
    CLAIRVOYANT,
    FLASH_ONLY,
    CellCounts,
    Variant,
    run,
)
from pagewise_studies.singles import without_singles
from pagewise_studies.skew import of_workloads
from pagewise_studies.workloads import (
    ARRANGEMENTS,
    GENERATED,
    MEMORIES_MIB,
    Workload,
    recorded,
    scenario,
    scenarios,
    shortest,
)

NAME = "multiswap"
ROWS = ("s1-rotation", "s1-sessions", "s1-zipf")
"""The rows of the matrix (docs/studies/matrix.md) with recordings of S1's three scenarios."""
SIZES_MIB = (32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)

HIERARCHICAL = [
    Variant.of("hierarchical", eviction="clock", fill_on_read_miss=fill) for fill in ("yes", "no")
]
HYBRID = [
    Variant.of("hybrid", entry_bit=bit, flash_copy_on_promotion=copy, promote_at=moment)
    for bit, copy, moment in itertools.product(("0", "1"), ("free", "keep"), ("fault", "swapout"))
]
CLOCK = [
    Variant.of("hybrid-clock", clock_reinsert=moment, flash_copy_on_promotion=copy)
    for moment, copy in itertools.product(("fault", "swapout"), ("free", "keep"))
]

RARE = (
    {"inserted_bit": "1"},
    {"slot_on_swapin": "free"},
    {"inserted_bit": "1", "slot_on_swapin": "free"},
)
"""Further choices that S1 leaves open. They multiply the runs and change little, so only the
recordings with the least memory run under them. This suffices to see whether a check fails there
under every reading."""

FIGURES: tuple[tuple[str, str, str, Measure], ...] = (
    ("fig2", "I/O time", "seconds", lambda counts: counts.io_time_s(BASE_LATENCIES)),
    ("fig3", "slow-tier accesses", "pages", lambda counts: counts.slow_accesses),
    ("fig4", "fast-tier writes", "pages", lambda counts: counts.fast_writes),
)


def study(
    recordings: Path,
    output: Path,
    *,
    seeds: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    plans = recorded(recordings, ROWS, output, allow_invalid=allow_invalid)
    runs = [run for plan in plans for run in plan.plan.each]
    repeats = [repeat for plan in plans for repeat in plan.each]
    generated = scenarios(range(seeds))
    variants = [*HIERARCHICAL, *HYBRID, *CLOCK, FLASH_ONLY]
    rare = [variant.with_options(**more) for variant in (*HYBRID, *CLOCK) for more in RARE]
    cells = run(
        _traces([*repeats, *generated]),
        variants,
        SIZES_MIB,
        output / f"{NAME}-runs.parquet",
        progress,
    )
    cells.add(
        run(
            _traces([repeat for plan in shortest(plans) for repeat in plan.each]),
            rare,
            SIZES_MIB,
            output / f"{NAME}-rare-runs.parquet",
            progress,
        )
    )

    shown = [
        shown_scenario(name, memory, seeds) for memory in MEMORIES_MIB for name in ARRANGEMENTS
    ]
    each = [*repeats, *shown]
    bound = run(
        _traces(each), [CLAIRVOYANT], SIZES_MIB, output / f"{NAME}-bound-runs.parquet", progress
    )
    cells.add(bound)
    filtered = {workload: without_singles(workload, output) for workload in each}
    filtered_cells = run(
        _traces([*filtered.values()]),
        [HIERARCHICAL[0], *HYBRID],
        SIZES_MIB,
        output / f"{NAME}-without-singles-runs.parquet",
        progress,
    )
    inputs = checks.Inputs(
        cells=cells,
        filtered_cells=filtered_cells,
        recorded=plans,
        generated=generated,
        shown=shown,
        filtered=filtered,
        skew=of_workloads([*each, *generated], output),
        sizes_mib=SIZES_MIB,
        hierarchical=HIERARCHICAL,
        hybrid=HYBRID,
        clock=CLOCK,
        launches=launch_readings(range(seeds), progress),
        rare=RARE,
    )
    return outcome.assemble(
        NAME,
        output,
        title="S1: hierarchical against hybrid swap",
        figures=[
            *(
                figure
                for plan in plans
                for figure in figures(cells, plan.pooled, plan.data, dict(plan.pooled.choices))
            ),
            *(figure for workload in shown for figure in figures(cells, workload)),
        ],
        verdicts=checks.verdicts(inputs),
        tables=[
            multiswap_repeats.table(inputs),
            multiswap_device.table(inputs, output / f"{NAME}-device-runs.parquet", progress),
        ],
        sensitivity=sensitivity.table(
            ("hierarchical", "hybrid-clock", "hybrid"),
            [
                *(plan.pooled for plan in shortest(plans)),
                shown_scenario("rotation", MEMORIES_MIB[-1], 1),
            ],
            output / f"{NAME}-sensitivity-runs.parquet",
            progress,
        ),
        inputs=inputs_of(runs),
        runs=runs,
        cells=[cell for workload in each for cell in counted(cells, workload)],
        arguments=f"--seeds {seeds}",
        seeds=range(seeds),
        seeded=GENERATED,
    )


def _traces(workloads: Sequence[Workload]) -> list[TraceSource]:
    return [trace for workload in workloads for trace in workload.traces]


def shown_scenario(arrangement: str, memory_mib: int, seeds: int) -> Workload:
    """The scenario that the figures show: each app runs once a round, always in the same order."""
    found = scenario(arrangement, "round-robin", "strict", memory_mib, range(seeds))
    return replace(found, name=f"{arrangement}, {memory_mib} MiB")


def counted(cells: CellCounts, workload: Workload) -> Iterator[StudyCell]:
    """Every cell that a figure of the workload shows, by trace and size."""
    variants = dict.fromkeys(variant for name, *_ in FIGURES for _, variant in _series(name))
    for trace, size, variant in itertools.product(workload.traces, SIZES_MIB, variants):
        counts = cells.counts(trace, variant, size)
        flash = cells.counts(trace, FLASH_ONLY, size).io_time_s(BASE_LATENCIES)
        yield {
            "workload": workload.name,
            "seed": trace.seed,
            "architecture": variant.architecture,
            "options": dict(variant.options),
            "fast_tier_mib": size,
            "fast_reads": counts.fast_reads,
            "fast_writes": counts.fast_writes,
            "slow_reads": counts.slow_reads,
            "slow_writes": counts.slow_writes,
            "fast_hit_share": cells.hit_share(trace, variant, size),
            "io_time_share_of_flash": counts.io_time_s(BASE_LATENCIES) / flash if flash else None,
        }


def figures(
    cells: CellCounts, workload: Workload, data: str = "", choices: Mapping[str, str] | None = None
) -> list[Figure]:
    """Figs. 2, 3 and 4 on one workload, and how much the fast tier answers; flash takes 90/40 us,
    the fast tier 4/5 us.

    Workloads of the same ``data`` share a chart, in which the reader chooses the budget among
    ``choices``.
    """
    found = []
    budget = (choices or {}).get("budget", "")

    def share(trace: TraceSource, variant: Variant, size: int) -> float:
        return 100 * cells.hit_share(trace, variant, size)

    def of(measure: Measure) -> Callable[[TraceSource, Variant, int], float]:
        return lambda trace, variant, size: float(measure(cells.counts(trace, variant, size)))

    measures = [(name, what, unit, of(measure)) for name, what, unit, measure in FIGURES]
    for name, what, unit, value in [*measures, ("hits", "swap-ins from the fast tier", "%", share)]:
        series = _series(name)
        points = [
            mean_point(
                size,
                label,
                [value(trace, variant, size) for trace in workload.traces],
                [trace.seed for trace in workload.traces],
            )
            for label, variant in series
            for size in SIZES_MIB
        ]
        found.append(
            Figure(
                name=f"{NAME}-{name}-{file_name(workload.name)}",
                title=f"{what} on {workload.name}",
                x_label="fast tier, MiB",
                y_label=f"{what}, {unit}",
                points=tuple(points),
                config={
                    "figure": name,
                    "traces": [cells.sha256(trace) for trace in workload.traces],
                    "series": [[variant.architecture, variant.options] for _, variant in series],
                    "latencies": str(BASE_LATENCIES),
                },
                chart=f"{what} on {data}" if budget else "",
                view=budget,
            )
        )
    return found


def _series(name: str) -> list[tuple[str, Variant]]:
    """The series of a figure: the paper's baseline, and the four readings of its proposal."""
    hybrid = [
        (f"hybrid, entry bit {bit}, copy {copy}", _hybrid(bit, copy))
        for bit, copy in itertools.product(("0", "1"), ("keep", "free"))
    ]
    flash = ("flash only", FLASH_ONLY)
    if name == "fig2":
        # The counts of the bound are no bounds of counts.
        bound = ("clairvoyant bound", CLAIRVOYANT)
        return [("hierarchical, clock", HIERARCHICAL[0]), *hybrid, flash, bound]
    if name == "hits":
        return [("hierarchical, clock", HIERARCHICAL[0]), *hybrid, flash]
    clock = [
        (
            f"hybrid-clock, copy {copy}",
            Variant.of("hybrid-clock", clock_reinsert="fault", flash_copy_on_promotion=copy),
        )
        for copy in ("keep", "free")
    ]
    return [*clock, *hybrid, flash]


def file_name(workload: str) -> str:
    """The name of a workload as part of a file's name."""
    return workload.replace(", ", "-").replace(" ", "")


def _hybrid(bit: str, copy: str) -> Variant:
    return Variant.of("hybrid", entry_bit=bit, flash_copy_on_promotion=copy, promote_at="fault")
