"""S0, "memory thrashing of swap-enabled phones": a small NVM between memory and storage.

The study replays recorded runs with swap, file pages included, with NVM caches of many sizes
(Fig. 5), and counts how often pages leave memory. Swap off is a run of the same plan that kills and
restarts; `thrash` compares the two without a replay (Figs. 1 to 3). `nvm_cache_checks` has the
checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from pagewise.comparisons import StudyResult
from pagewise.errors import UsageError
from pagewise.grids.traces import TraceSource
from pagewise.launch_runs import inputs_of, read_runs
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies import evictions, outcome, sensitivity
from pagewise_studies import nvm_cache_checks as checks
from pagewise_studies.evictions import evictions_of
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.nvm_cache_checks import Inputs, Replayed
from pagewise_studies.repeats import Repeats, judged, repeats_of
from pagewise_studies.runs import FLASH_ONLY, CellCounts, Variant, run
from pagewise_studies.skew import of_workloads
from pagewise_studies.table import Row, Table
from pagewise_studies.thrash_phones import phones_of, series, state
from pagewise_studies.workloads import (
    GENERATED,
    ORDERS,
    SCHEDULES,
    Workload,
    scenario,
)

NAME = "nvm-cache"
TITLE = "S0: a small NVM cache between memory and storage"
SIZES_MIB = (0, 32, 64, 128, 256, 512, 1024)
"""The sizes of the NVM (spec sheet S0.5)."""
ROWS = "s0-*"
"""The folders of runs, one for each row of the matrix (docs/studies/matrix.md) that is S0's."""

CACHE = [
    Variant.of("nvm-cache", **options)
    for options in (
        {},
        {"admit_clean": "no"},
        {"clean_evictions": "inferred"},
        {"clean_evictions": "inferred", "admit_clean": "no"},
        {"on_hit": "move"},
        {"ghost": "1"},
    )
]


def study(
    recordings: Path,
    output: Path,
    *,
    seeds: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object.

    Raises UsageError if no run with swap in ``recordings`` was recorded.
    """
    folders = [path.parent for path in sorted(recordings.glob(f"{ROWS}/*/run.toml"))]
    runs = read_runs(folders, allow_invalid=allow_invalid)
    plans = repeats_of(runs)
    replayed = replayed_plans(plans, output, progress)
    if not replayed:
        raise UsageError(
            f"{recordings}: no recorded run with swap in {ROWS}/",
            path=str(recordings),
            hint="give the folder that `make recordings` writes, with --recordings",
        )
    generated = phone_scenarios(seeds)
    of_scenarios = [workload for group in generated.values() for workload in group]
    every = [*(each.workload for each in replayed), *of_scenarios]
    traces = [trace for workload in every for trace in workload.traces]
    compared = [
        rule(cache) for rule in (checks.first_eviction, checks.second_eviction) for cache in CACHE
    ]
    variants = [*dict.fromkeys([*CACHE, *compared, FLASH_ONLY])]
    cells = run(traces, variants, SIZES_MIB, output / f"{NAME}-runs.parquet", progress)
    left = {
        each.on.name: [evictions_of(str(trace.address), progress) for trace in each.workload.traces]
        for each in replayed
    }
    inputs = Inputs(
        cells=cells,
        replayed=replayed,
        generated=generated,
        skew=of_workloads(of_scenarios, output),
        evictions=left,
        sizes_mib=SIZES_MIB,
        cache=CACHE,
    )
    used = [run for each in replayed for plan in (each.plan, *each.off) for run in plan.each]
    used = list({run.name: run for run in used}.values())
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[
            *(figure_5(inputs, each) for each in replayed),
            figure_5_generated(inputs),
        ],
        verdicts=sorted(
            [
                *judged(plans, lambda some: checks.on_runs(inputs.of(some))),
                *checks.on_scenarios(inputs),
            ],
            key=lambda verdict: verdict.check.name,
        ),
        tables=[
            by_size(inputs),
            evictions.table({series(each.on): left[each.on.name] for each in replayed}),
            beside_kernel(replayed, cells),
        ],
        sensitivity=sensitivity.table(
            (NAME,),
            [each.workload for each in replayed],
            output / f"{NAME}-sensitivity-runs.parquet",
            progress,
        ),
        inputs=inputs_of(used),
        runs=used,
        arguments=f"--seeds {seeds}",
        seeds=range(seeds),
        seeded=GENERATED,
        losses={run.name: run.losses(output) for each in replayed for run in each.plan.each},
    )


def replayed_plans(
    plans: Sequence[Repeats], output: Path, progress: Progress | None
) -> list[Replayed]:
    """The plans with swap on whose repeats were recorded, each with the plans without swap of the
    same applications, budget and storage; imports their recordings into ``output``.

    Raises UsageError for a plan of which only some repeats were recorded.
    """
    by_name = {plan.pooled.name: plan for plan in plans}
    found = []
    phones = phones_of([plan.pooled for plan in plans])
    for phone in phones.each():
        pairs = list(phone.pairs())
        for on in phone.on:
            plan = by_name[on.name]
            traces = [run.recording(output, progress=progress) for run in plan.each]
            sources = tuple(
                TraceSource(f"{run.name}.parquet", trace.path)
                for run, trace in zip(plan.each, traces, strict=True)
                if trace is not None
            )
            if not sources:
                continue
            if len(sources) < len(plan.each):
                folder = plan.each[traces.index(None)].folder
                raise UsageError(
                    f"{folder}: the run has no recording, but other repeats of its plan have one",
                    path=str(folder),
                    hint="record it with `pagewise-agent launch --record`, or leave it out",
                )
            off = tuple(by_name[other.name] for mine, other in pairs if mine is on)
            found.append(Replayed(phone.memory, plan, Workload(on.name, (), sources), off))
    return found


def phone_scenarios(seeds: int) -> dict[str, list[Workload]]:
    """S0's three phones as generated scenarios with file pages, on every schedule and order."""
    return {
        name: [
            scenario("rotation", schedule, order, memory, range(seeds), apps=apps, file_events=True)
            for schedule in SCHEDULES
            for order in ORDERS
        ]
        for name, memory, apps in checks.GENERATED_PHONES
    }


SHOWN = (
    ("clean pages admitted", CACHE[0]),
    ("clean pages not admitted", CACHE[1]),
)
"""The variants of the cache in Fig. 5."""


def figure_5(inputs: Inputs, replayed: Replayed) -> Figure:
    """Fig. 5: storage I/O by size of the NVM, against swap off."""
    points = [
        mean_point(
            size,
            f"swap on + NVM, {label}",
            [io / MIB for io in checks.storage_bytes(inputs, replayed, variant, size)],
        )
        for label, variant in SHOWN
        for size in SIZES_MIB
    ]
    points += [
        mean_point(size, f"swap off, {state(off.pooled)}", [run.io_bytes / MIB for run in off.each])
        for off in replayed.off
        for size in SIZES_MIB
    ]
    return Figure(
        f"{NAME}-fig5-{replayed.on.name}",
        f"Storage I/O by size of the NVM cache, {replayed.memory} phone ({replayed.on.name})",
        "NVM, MiB",
        "storage I/O of the whole run, MiB",
        tuple(points),
        {"runs": [[run.name, run.start_ns] for run in replayed.plan.each]},
    )


def figure_5_generated(inputs: Inputs) -> Figure:
    """Fig. 5 on generated phones, which have no run with swap off."""
    points: list[Point] = [
        mean_point(
            size,
            name,
            [
                inputs.cells.counts(trace, CACHE[0], size).slow_accesses * PAGE_BYTES / MIB
                for trace in workload.traces
            ],
            [trace.seed for trace in workload.traces],
        )
        for name, workloads in inputs.generated.items()
        for workload in workloads[:1]
        for size in SIZES_MIB
    ]
    return Figure(
        "nvm-cache-fig5-scenarios",
        "Storage I/O by size of the NVM cache, generated phones (round-robin, strict order)",
        "NVM, MiB",
        "storage I/O, MiB",
        tuple(points),
        {
            "scenarios": [
                [t.scenario for w in ws for t in w.traces] for ws in inputs.generated.values()
            ]
        },
    )


def by_size(inputs: Inputs) -> Table:
    """The table of Fig. 5: what is left of the storage I/O of swap and files."""
    return Table(
        "by-size",
        "Storage I/O that is left with an NVM cache",
        "Storage I/O with an NVM cache, as a share of that without one, by the size of the NVM in "
        "MiB: mean over the runs. I/O counts the pages that swap and files read and that swap "
        "wrote. *Least* and *most*: the smallest and largest share of one run at 256 MiB. *Just "
        "requested*: a page counts as requested when it is admitted, in both caches, which then "
        "differ only in when they admit it.",
        list(_by_size(inputs)),
        shares=(*map(str, _shown(inputs)), "least", "most"),
    )


def _shown(inputs: Inputs) -> list[int]:
    """The sizes in MiB that the table has."""
    return [size for size in inputs.sizes_mib if size >= 64]


def _by_size(inputs: Inputs) -> list[Row]:
    rows: list[Row] = []
    for each in inputs.replayed:
        for label, variant in (
            *SHOWN,
            ("second eviction, just requested", checks.second_eviction(CACHE[0])),
            ("first eviction, just requested", checks.first_eviction(CACHE[0])),
        ):
            left = {
                size: checks.share_left(inputs, each, variant, size)
                for size in (*_shown(inputs), checks.FROM_MIB)
            }
            rows.append(
                {
                    "run": series(each.on),
                    "cache": label,
                    **{str(size): fmean(left[size]) for size in _shown(inputs)},
                    "least": min(left[checks.FROM_MIB]),
                    "most": max(left[checks.FROM_MIB]),
                }
            )
    return rows


def beside_kernel(replayed: Sequence[Replayed], cells: CellCounts) -> Table:
    """The table of the I/O of each replay without NVM, beside what the kernel counted."""
    return Table(
        "beside-kernel",
        "The replay without NVM beside the kernel's counters",
        "MiB of the whole run. *Replay*: every page that swap and files read, and that swap wrote. "
        "*Kernel*: requests to storage during the visits, which also write files, and read swap "
        "ahead.",
        [
            {
                "run": run.name,
                "replay": replay,
                "kernel": run.io_bytes / MIB,
                "ratio": replay / (run.io_bytes / MIB) if run.io_bytes else None,
            }
            for each in replayed
            for run, trace in zip(each.plan.each, each.workload.traces, strict=True)
            for replay in [cells.counts(trace, FLASH_ONLY, 0).slow_accesses * PAGE_BYTES / MIB]
        ],
    )
