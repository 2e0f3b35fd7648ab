"""S0, "memory thrashing of swap-enabled phones": swap on against swap off, and a small NVM cache.

The study makes Figs. 1 and 5, and Figs. 2 and 3 from the visits of our runs (`thrash` has more).
Swap off is a run of the same memory that kills and restarts. `nvm_cache_checks` has the checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pagewise.comparisons import StudyResult
from pagewise.launch_runs import LaunchRun, inputs_of, read_run, refuse_invalid
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies import nvm_cache_checks as checks
from pagewise_studies import outcome, sensitivity
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.nvm_cache_checks import Inputs, Phone
from pagewise_studies.runs import Variant, run
from pagewise_studies.skew import of_workloads
from pagewise_studies.workloads import (
    GENERATED,
    ORDERS,
    SCHEDULES,
    Workload,
    recording,
    scenario,
)

NAME = "nvm-cache"
TITLE = "S0: swap on against swap off, and a small NVM swap cache"
SIZES_MIB = (0, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536)

PHONES = (("1 GB", "phone-1g", ("kill-1g", "kill-1g-lenient")), ("2 GB", "phone-2g", ("kill-2g",)))
"""Each phone of the paper, our run with swap, and our runs without (the tight killer first)."""

CACHE = [
    Variant.of("nvm-cache", **options)
    for options in (
        {},
        {"clean_evictions": "inferred"},
        {"clean_evictions": "inferred", "admit_clean": "no"},
        {"on_hit": "move"},
        {"ghost": "1"},
    )
]
FIRST_EVICTION = Variant.of("hierarchical", fill_on_read_miss="no", swapout_refreshes="no")
"""A cache with the same LRU order that admits a page at its first eviction (ACC-S0-7)."""


def study(
    recordings: Path,
    output: Path,
    *,
    seeds: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    phones = [
        Phone(
            memory,
            recording(recordings, on, output),
            read_run(recordings / on),
            tuple(read_run(recordings / off) for off in offs),
        )
        for memory, on, offs in PHONES
    ]
    runs = [run for phone in phones for run in (phone.on, *phone.off)]
    refuse_invalid(runs, allow_invalid=allow_invalid)
    recorded = [phone.workload for phone in phones]
    generated = phone_scenarios(seeds)
    every = [*recorded, *(workload for group in generated.values() for workload in group)]
    traces = [trace for workload in every for trace in workload.traces]
    variants = [*CACHE, FIRST_EVICTION, Variant.of("flash")]
    cells = run(traces, variants, SIZES_MIB, output / f"{NAME}-runs.parquet", progress)
    inputs = Inputs(
        cells=cells,
        phones=phones,
        generated=generated,
        skew=of_workloads(every, output),
        sizes_mib=SIZES_MIB,
        cache=CACHE,
        first_eviction=FIRST_EVICTION,
    )
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[
            figure_1(inputs),
            figure_2(phones),
            figure_3(phones),
            *(figure_5(inputs, phone) for phone in phones),
            figure_5_generated(inputs),
        ],
        verdicts=checks.verdicts(inputs),
        sensitivity=sensitivity.table(
            (NAME,), recorded, output / f"{NAME}-sensitivity-runs.parquet", progress
        ),
        inputs=inputs_of(runs),
        runs=runs,
        arguments=f"--seeds {seeds}",
        seeds=range(seeds),
        seeded=GENERATED,
    )


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


def figure_1(inputs: Inputs) -> Figure:
    """Fig. 1: storage I/O with swap on and off, split at the top 10 % of swapped pages."""
    points = []
    for phone in inputs.phones:
        top = inputs.skew[phone.workload].top_share["0.1"]
        swap_mib = phone.on.swap_bytes / MIB
        other_mib = phone.on.io_bytes / MIB - swap_mib
        points += [
            Point(phone.memory, "swap on: top 10 % of swapped pages", swap_mib * top),
            Point(phone.memory, "swap on: other swapped pages", swap_mib * (1 - top)),
            Point(phone.memory, "swap on: files (split not recorded)", other_mib),
        ]
        points += [
            Point(phone.memory, f"swap off, {label} (split not recorded)", off.io_bytes / MIB)
            for label, off in phone.killers()
        ]
    return Figure(
        "nvm-cache-fig1",
        "Storage I/O of the whole run, swap on against swap off",
        "memory",
        "storage I/O, MiB",
        tuple(points),
        _config(inputs.phones),
        is_categorical=True,
    )


def figure_2(phones: list[Phone]) -> Figure:
    """Fig. 2: launch time by repeat."""
    points = [
        mean_point(number, label, recorded.launches(number, number))
        for label, recorded in _labelled(phones)
        for number in recorded.rounds()
    ]
    return Figure(
        "nvm-cache-fig2",
        "Launch time by repeat (nine applications, recorded)",
        "repeat",
        "launch time, seconds",
        tuple(points),
        _config(phones),
    )


def figure_3(phones: list[Phone]) -> Figure:
    """Fig. 3: launch time by memory, with 9 apps; the study `thrash` has 25 apps."""
    points = []
    for phone in phones:
        killers = [(f"swap off, {label}", off) for label, off in phone.killers()]
        points += [
            mean_point(f"{phone.memory}, 9 apps", label, recorded.launches(2))
            for label, recorded in [("swap on", phone.on), *killers]
        ]
    return Figure(
        "nvm-cache-fig3",
        "Launch time from the second repeat on (nine applications, recorded)",
        "phone",
        "launch time, seconds",
        tuple(points),
        _config(phones),
        is_categorical=True,
    )


def figure_5(inputs: Inputs, phone: Phone) -> Figure:
    """Fig. 5: storage I/O by size of the NVM, against swap off."""
    points = [
        Point(size, label, checks.storage_mib(inputs, phone, variant, size))
        for label, variant in (
            ("swap on + NVM", CACHE[0]),
            ("swap on + NVM, clean evictions inferred", CACHE[1]),
        )
        for size in SIZES_MIB
    ]
    points += [
        Point(size, f"swap off, {label}", off.io_bytes / MIB)
        for label, off in phone.killers()
        for size in SIZES_MIB
    ]
    return Figure(
        f"nvm-cache-fig5-{phone.workload.name}",
        f"Storage I/O by size of the NVM cache, {phone.memory} phone ({phone.workload.name})",
        "NVM, MiB",
        "storage I/O of the whole run, MiB",
        tuple(points),
        _config(inputs.phones),
    )


def figure_5_generated(inputs: Inputs) -> Figure:
    """Fig. 5 on generated phones, which have no run with swap off."""
    points = [
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


def _labelled(phones: list[Phone]) -> Iterator[tuple[str, LaunchRun]]:
    for phone in phones:
        yield f"swap on, {phone.memory}", phone.on
        for label, off in phone.killers():
            yield f"swap off, {phone.memory}, {label}", off


def _config(phones: Sequence[Phone]) -> dict[str, object]:
    return {
        "recordings": [
            [phone.memory, phone.workload.name, phone.on.name, [off.name for off in phone.off]]
            for phone in phones
        ],
        "io_bytes": [[phone.on.io_bytes, *(off.io_bytes for off in phone.off)] for phone in phones],
    }
