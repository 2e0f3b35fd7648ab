"""The acceptance checks of spec sheet S0 that a replay can judge, each under every reading of S0's
open choices.

S0 leaves open how eager the killer of the swap-off phone is, in which part of the run I/O counts,
and the cache's rules for clean pages, hits and its ghost. The budget and the storage of the runs
are readings too. A figure of a plan is the mean over its repeats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pagewise.launch_runs import LaunchRun
from pagewise_studies.evictions import ALL, Evictions
from pagewise_studies.repeats import Repeats
from pagewise_studies.runs import FLASH_ONLY, CellCounts, Variant
from pagewise_studies.skew import Skew
from pagewise_studies.thrash_judge import choices_of
from pagewise_studies.thrash_phones import state
from pagewise_studies.verdict import (
    Choices,
    Reading,
    Verdict,
    judge,
    load_checks,
    span,
    unmeasured,
)
from pagewise_studies.workloads import Workload

GENERATED_PHONES = (
    ("9 apps, 1 GB", 600, 9),
    ("9 apps, 2 GB", 1500, 9),
    ("25 apps, 2 GB", 1500, 25),
)
"""S0's three phones (Fig. 3): name, memory in MiB, and number of apps."""

CHECKS = load_checks("nvm-cache")
BELOW_MIB, FROM_MIB = 128, 256
"""S0's crossover lies between these sizes."""
SINGLE_MIN = 0.4
"""The least share at which the wait for the second eviction is judged: of pages that leave memory
once in runs, of pages that are accessed once in scenarios."""


@dataclass(frozen=True)
class Replayed:
    """A plan with swap whose repeats were recorded: the phone, a trace of each repeat, and the
    plans without swap of the same applications, budget and storage."""

    memory: str
    plan: Repeats
    workload: Workload
    off: tuple[Repeats, ...]

    @property
    def on(self) -> LaunchRun:
        """The pooled run of the plan."""
        return self.plan.pooled


@dataclass(frozen=True)
class Inputs:
    """The inputs of all checks. ``skew`` is that of the generated phones; ``evictions`` has those
    of each repeat by the name of the plan."""

    cells: CellCounts
    replayed: Sequence[Replayed]
    generated: Mapping[str, Sequence[Workload]]
    skew: Mapping[Workload, Skew]
    evictions: Mapping[str, Sequence[Mapping[str, Evictions]]]
    sizes_mib: Sequence[int]
    cache: Sequence[Variant]

    def of(self, plans: Sequence[Repeats]) -> Inputs:
        """The inputs without the plans that are not among ``plans``."""
        names = {plan.pooled.name for plan in plans}
        kept = [
            replace(each, off=tuple(plan for plan in each.off if plan.pooled.name in names))
            for each in self.replayed
            if each.on.name in names
        ]
        return replace(self, replayed=kept)


def second_eviction(variant: Variant) -> Variant:
    """The cache ``variant`` with the rest of the rules of `first_eviction`: a page that is admitted
    counts as just requested (ACC-S0-7)."""
    return Variant.of(variant.architecture, **{**dict(variant.options), "admitted_time": "now"})


def first_eviction(variant: Variant) -> Variant:
    """A cache that admits a page at its first eviction, and treats clean pages as ``variant`` does
    (ACC-S0-7).

    It differs from `second_eviction` in nothing else if ``variant`` leaves a page in the cache on a
    hit: both drop the page requested longest ago, admit a page as just requested, and leave its
    place as it is if it is evicted from memory again.
    """
    kept = {name: value for name, value in variant.options if name == "clean_evictions"}
    return Variant.of(
        "hierarchical",
        admit_clean=dict(variant.options).get("admit_clean", "yes"),
        fill_on_read_miss="no",
        swapout_refreshes="no",
        **kept,
    )


def on_runs(inputs: Inputs) -> list[Verdict]:
    """The verdicts on recorded runs, in the order of their checks."""
    return [
        _judge("falling", inputs.replayed, _falling_on_runs(inputs)),
        *(_crossing(inputs, memory) for memory in ROWS_WITHOUT),
        _clean(inputs),
        _second_on_runs(inputs),
    ]


def on_scenarios(inputs: Inputs) -> list[Verdict]:
    """The verdicts on generated phones."""
    every = [workload for group in inputs.generated.values() for workload in group]
    return [
        judge(CHECKS["order"], SCENARIOS, _skew_order(inputs)),
        judge(
            CHECKS["skew_small"],
            SCENARIOS,
            _skews(inputs, 0, lambda skew: skew.top_share["0.1"], 0.70, 1),
        ),
        judge(
            CHECKS["skew_large"],
            SCENARIOS,
            _skews(inputs, 1, lambda skew: skew.pages_for_80_percent, 0.20, 0.30),
        ),
        judge(CHECKS["apps"], SCENARIOS, _more_apps(inputs)),
        judge(CHECKS["falling"], SCENARIOS, _falling(inputs, every)),
        _second(inputs, SCENARIOS, every),
    ]


SCENARIOS = "scenarios"
RECORD = "needs a recorded run with swap on (row {row} of matrix.md)"
WITHOUT = (
    "needs runs without swap of the same applications, budget and storage (row {row} of matrix.md)"
)
ROWS_WITH = {"1 GB": "s0-swap", "2 GB": "s0-2g"}
ROWS_WITHOUT = {"1 GB": "s0-kill", "2 GB": "s0-2g"}
"""The rows of the matrix with runs with and without swap, by phone."""


def storage_bytes(
    inputs: Inputs, replayed: Replayed, variant: Variant, size_mib: int
) -> list[float]:
    """The storage I/O of each repeat with an NVM, in bytes: what the kernel counted during the
    visits, times the share that the NVM leaves of the pages of swap and files."""
    shares = share_left(inputs, replayed, variant, size_mib)
    return [run.io_bytes * share for run, share in zip(replayed.plan.each, shares, strict=True)]


def share_left(inputs: Inputs, replayed: Replayed, variant: Variant, size_mib: int) -> list[float]:
    """The share of slow reads and writes that is left with an NVM, in each repeat."""
    return [
        inputs.cells.counts(trace, variant, size_mib).slow_accesses
        / max(1, inputs.cells.counts(trace, FLASH_ONLY, 0).slow_accesses)
        for trace in replayed.workload.traces
    ]


def _judge(name: str, replayed: Sequence[Replayed], readings: Sequence[Reading]) -> Verdict:
    data = ", ".join(each.on.name for each in replayed)
    return (
        judge(CHECKS[name], data, readings)
        if readings
        else unmeasured(CHECKS[name], data, RECORD.format(row=ROWS_WITH["1 GB"]))
    )


def _skew_order(inputs: Inputs) -> list[Reading]:
    small, large, _ = inputs.generated.values()
    return [
        Reading(on_small.choices, share > inputs.skew[on_large].top_share["0.1"], share)
        for on_small, on_large in zip(small, large, strict=True)
        for share in [inputs.skew[on_small].top_share["0.1"]]
    ]


def _skews(
    inputs: Inputs, phone: int, figure: Callable[[Skew], float], low: float, high: float
) -> list[Reading]:
    """Readings of a figure of a generated phone, over all storage accesses, also to file pages."""
    workloads = list(inputs.generated.values())[phone]
    figures = [(workload.choices, figure(inputs.skew[workload])) for workload in workloads]
    return [Reading(choices, low <= found <= high, found) for choices, found in figures]


def _more_apps(inputs: Inputs) -> list[Reading]:
    """Readings of storage I/O per visit with 25 apps at 2 GB over that with 9 apps at 1 GB.

    The I/O with 9 apps at 2 GB must be at most half of each.
    """
    readings = []
    for small, large, crowded in zip(*inputs.generated.values(), strict=True):
        io = [_io_per_visit(inputs, workload) for workload in (small, large, crowded)]
        holds = 0.5 <= io[2] / io[0] <= 2 and io[1] <= 0.5 * min(io[0], io[2])
        readings.append(Reading(small.choices, holds, io[2] / io[0]))
    return readings


def _io_per_visit(inputs: Inputs, workload: Workload) -> float:
    trace = workload.traces[0]
    apps = int(dict(trace.scenario)["apps"])
    # Zipf schedules visit twice as often; the ratio of two phones on one schedule is unchanged.
    return inputs.cells.counts(trace, FLASH_ONLY, 0).slow_accesses / apps


def _falling_on_runs(inputs: Inputs) -> list[Reading]:
    return [
        replace(reading, choices=(*choices_of(each.on), *reading.choices[1:]))
        for each in inputs.replayed
        for reading in _falling(inputs, [each.workload])
    ]


def _falling(inputs: Inputs, workloads: Sequence[Workload]) -> list[Reading]:
    """Readings of the largest relative rise of I/O from a size to the next, with the caches that
    can have one."""
    readings = []
    able = [variant for variant in inputs.cache if _can_rise(variant)]
    for workload, variant in itertools.product(workloads, able):
        curve = [_slow(inputs, workload, variant, size) for size in inputs.sizes_mib]
        rise = max(after / before - 1 for before, after in itertools.pairwise(curve) if before)
        choices = (("phone", workload.traces[0].name), *_cache_choices(variant))
        readings.append(Reading(choices, rise <= 0.001, rise))
    return readings


def _can_rise(variant: Variant) -> bool:
    """Whether more NVM can cause more I/O. With an unbounded ghost list and copies that stay on a
    hit, the size changes neither which pages are admitted nor their order by last request, so a
    larger cache holds every page of a smaller one, and its I/O is no higher."""
    options = dict(variant.options)
    return options.get("ghost", "unbounded") != "unbounded" or options.get("on_hit") == "move"


def _crossing(inputs: Inputs, memory: str) -> Verdict:
    """The verdict on the crossover; its figure is the I/O at 256 MiB over the I/O of swap off."""
    general = CHECKS["crossing"]
    check = replace(
        general,
        part=f"{general.part}, {memory}",
        statement=f"at {memory}, {general.statement}",
    )
    replayed = [each for each in inputs.replayed if each.memory == memory]
    compared = [(each, off) for each in replayed for off in each.off]
    runs = [*(each.on for each in replayed), *(off.pooled for _, off in compared)]
    data = ", ".join(dict.fromkeys(run.name for run in runs))
    if not compared:
        missing, rows = (WITHOUT, ROWS_WITHOUT) if replayed else (RECORD, ROWS_WITH)
        return unmeasured(check, data, missing.format(row=rows[memory]))
    readings = []
    for (each, off), variant in itertools.product(compared, inputs.cache):
        without = fmean(_io_bytes(run) for run in off.each)
        ratio = {
            size: fmean(
                _io_bytes(run) * share
                for run, share in zip(
                    each.plan.each, share_left(inputs, each, variant, size), strict=True
                )
            )
            / without
            for size in inputs.sizes_mib
        }
        above = all(value > 1 for size, value in ratio.items() if size < BELOW_MIB)
        below = all(value <= 1 for size, value in ratio.items() if size >= FROM_MIB)
        choices = (
            *choices_of(each.on),
            ("killer", state(off.pooled)),
            *_cache_choices(variant),
        )
        readings.append(Reading(choices, above and below, ratio[FROM_MIB]))
    return judge(check, data, readings)


def _io_bytes(run: LaunchRun) -> float:
    return run.io_bytes_per_visit() or 0.0


def _clean(inputs: Inputs) -> Verdict:
    """The verdict on what it changes in storage I/O to admit clean pages, at 256 MiB. A reading
    holds if I/O falls in every repeat; the figures are those of the repeats."""
    readings, changes = [], []
    for each, inferred in itertools.product(inputs.replayed, ("none", "inferred")):
        base = {} if inferred == "none" else {"clean_evictions": inferred}
        admitted = Variant.of("nvm-cache", **base)
        kept_out = Variant.of("nvm-cache", **base, admit_clean="no")
        found = [
            inputs.cells.counts(trace, admitted, FROM_MIB).slow_accesses
            / max(1, inputs.cells.counts(trace, kept_out, FROM_MIB).slow_accesses)
            - 1
            for trace in each.workload.traces
        ]
        choices: Choices = (*choices_of(each.on), ("clean_evictions", inferred))
        readings.append(Reading(choices, max(found) < 0, fmean(found)))
        changes += found
    verdict = _judge("clean", inputs.replayed, readings)
    return replace(verdict, ours=span(changes, verdict.check.unit), figures=tuple(sorted(changes)))


def _second_on_runs(inputs: Inputs) -> Verdict:
    """As `_second`, on the plans in which enough pages leave memory only once, in every repeat."""
    data = ", ".join(each.on.name for each in inputs.replayed)
    if not inputs.replayed:
        return unmeasured(CHECKS["second"], data, RECORD.format(row=ROWS_WITH["1 GB"]))
    readings = [
        replace(reading, choices=(*choices_of(each.on), *reading.choices[1:]))
        for each in inputs.replayed
        if min(_once(repeat) for repeat in inputs.evictions[each.on.name]) >= SINGLE_MIN
        for reading in _admissions(inputs, each.workload)
    ]
    if not readings:
        return unmeasured(CHECKS["second"], data, TOO_FEW_SINGLES.format(do="leave memory once"))
    return judge(CHECKS["second"], data, readings)


def _once(repeat: Mapping[str, Evictions]) -> float:
    """The share of pages that leave memory once, among those whose class is not `other`. Many of
    these belong to files that programs write and delete, and a deletion is no eviction."""
    kept = [found for name, found in repeat.items() if name not in (ALL, "other")]
    pages = sum(found.pages for found in kept)
    return sum(found.once * found.pages for found in kept) / pages if pages else 0.0


TOO_FEW_SINGLES = f"fewer than {SINGLE_MIN:.0%} of the pages {{do}}".replace("%", " %")


def _second(inputs: Inputs, data: str, workloads: Sequence[Workload]) -> Verdict:
    """The verdict on admission at the second eviction, on workloads with enough pages that are
    accessed once."""
    readings = [
        reading
        for workload in workloads
        if inputs.skew[workload].singles["pages"] >= SINGLE_MIN
        for reading in _admissions(inputs, workload)
    ]
    if not readings:
        return unmeasured(CHECKS["second"], data, TOO_FEW_SINGLES.format(do="are accessed once"))
    return judge(CHECKS["second"], data, readings)


def _admissions(inputs: Inputs, workload: Workload) -> Iterator[Reading]:
    """Readings of the smallest size at which first-eviction admission does no more I/O than
    second-eviction admission does at 256 MiB, over 256 MiB. If there is none, the largest size
    counts."""
    for variant in inputs.cache:
        if dict(variant.options).get("on_hit") == "move":
            continue  # A cache with admission at the first eviction keeps its copy.
        second, first = second_eviction(variant), first_eviction(variant)
        target = _slow(inputs, workload, second, FROM_MIB)
        reached = [
            size for size in inputs.sizes_mib if _slow(inputs, workload, first, size) <= target
        ]
        size = min(reached, default=inputs.sizes_mib[-1])
        choices = (("phone", workload.traces[0].name), *_cache_choices(variant))
        yield Reading(choices, size > FROM_MIB, size / FROM_MIB)


def _slow(inputs: Inputs, workload: Workload, variant: Variant, size_mib: int) -> float:
    return fmean(
        inputs.cells.counts(trace, variant, size_mib).slow_accesses for trace in workload.traces
    )


def _cache_choices(variant: Variant) -> Choices:
    """Every open choice of the cache, so that all readings have the same names."""
    set_by_hand = dict(variant.options)
    return tuple(
        (name, set_by_hand.get(name, default))
        for name, default in (
            ("admit_clean", "yes"),
            ("clean_evictions", "none"),
            ("ghost", "unbounded"),
            ("on_hit", "keep"),
        )
    )
