"""The acceptance checks of spec sheet S1, each judged under every reading of S1's open choices.

S1 leaves open the access bit at entry, whether the flash copy survives promotion, when a promotion
is written, whether a hierarchical tier fills on read misses, when CLOCK takes a demoted page back,
the latencies, the range of sizes in an average, and (for scenarios) memory, schedule and order.
On recordings the budget is a reading too. Each repeat is judged by itself, and a reading counts if
all repeats of the plan agree.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from pagewise.units import counted, format_count, format_percent
from pagewise_studies.compare import Changes, changes
from pagewise_studies.live_runs import FEW, RUNS_MIN
from pagewise_studies.runs import LATENCIES, CellCounts, Counts, Latencies, Variant
from pagewise_studies.skew import Skew
from pagewise_studies.verdict import (
    Choices,
    Reading,
    Verdict,
    in_order,
    judge,
    load_checks,
    unmeasured,
)
from pagewise_studies.workloads import Repeated, Workload, shortest

COPY = "flash_copy_on_promotion"
DEFAULTS = {"inserted_bit": "0", "slot_on_swapin": "keep"}
"""Choices of hybrid and CLOCK that only the recordings with the least memory vary, with their
defaults."""

GAIN_THRESHOLD = 0.001
"""A smaller change counts as neither gain nor loss."""
LEVEL = 0.05
"""The change up to which two schemes are similar at large sizes (our figure; S1 has none)."""
VANISHED = 0.02
"""A peak gain below this counts as vanished."""

HIT_SHARE_MIN = 0.01
"""With a smaller share of the swap-ins from the fast tier, hybrid's filter had no effect."""
HELD_SHARE_MAX = 0.95
"""With a larger share of the swap-ins from its fast tier, a baseline holds nearly everything."""
RETURNS_MIN = 0.01
"""The least share of swap-ins that must bring a page back often enough for a hit. With entry bit 1
a page is promoted at its first swap-in, so its second can be a hit; with entry bit 0 its third."""
HITLESS = (
    f"the fast tier of hybrid answers fewer than {format_percent(HIT_SHARE_MIN)} of the swap-ins "
    "at every size: needs a workload whose pages return more often"
)
TOO_FEW_RETURNS = (
    f"fewer than {format_percent(RETURNS_MIN)} of the swap-ins bring a page back for the "
    "{number} time: needs a longer recording, or less memory"
)
FORCED = (
    "at every size at which hybrid's fast tier answers swap-ins, the one of {baseline} holds "
    "nearly everything, and wins by construction: needs smaller sizes, or less memory"
)

DISAGREE = "the repeats disagree: needs more repeats"
"""Why a reading decides nothing that holds on some repeats of a plan only."""

CHECKS = load_checks("multiswap")
SCENARIOS = "scenarios"
NO_LAUNCHES = (
    "a recording has launch times only for the swap that it was made on; the row of the scenarios "
    "uses simulated lives"
)
SIMULATED = (
    "shape", "amount", "crossover", "flash", "flash_large", "writes", "writes_everywhere"
)  # fmt: skip
JUDGED = ("single", *SIMULATED, "cause")
"""The checks that are judged on recordings."""
AVERAGED = ("all sizes", "sizes up to the multi-access pages")
"""The sizes over which a check averages: two readings."""
AVERAGING = ("amount", "flash", "writes")
"""The checks that average over sizes."""
NO_ADVANTAGE = "there is no advantage that could disappear"


@dataclass(frozen=True)
class Inputs:
    """Counts of all variants on all workloads, and on some workloads without single-access pages.

    ``shown`` has the scenarios of the figures. ``filtered`` has each of them, and each repeat,
    without single-access pages.
    """

    cells: CellCounts
    filtered_cells: CellCounts
    recorded: Sequence[Repeated]
    generated: Sequence[Workload]
    shown: Sequence[Workload]
    filtered: Mapping[Workload, Workload]
    skew: Mapping[Workload, Skew]
    sizes_mib: Sequence[int]
    hierarchical: Sequence[Variant]
    hybrid: Sequence[Variant]
    clock: Sequence[Variant]
    launches: Sequence[Reading]
    """Readings of launches with hybrid swap against flash swap, in simulated lives."""
    rare: Sequence[Mapping[str, str]]
    """Further options of `hybrid` and `clock` on the recordings with the least memory."""
    acting: dict[tuple[Workload, Variant], list[int]] = field(default_factory=dict, repr=False)
    """The sizes of `acting` that are known already."""

    def extended(
        self, variants: Sequence[Variant], workloads: Sequence[Workload]
    ) -> list[tuple[Variant, Choices]]:
        """Every variant that ran on these workloads, with all its choices by name."""
        further: list[Mapping[str, str]] = [{}]
        repeats = {repeat for plan in shortest(self.recorded) for repeat in plan.each}
        if repeats.issuperset(workloads):
            further += self.rare
        return [
            (extended, tuple(sorted({**DEFAULTS, **dict(extended.options)}.items())))
            for variant in variants
            for extended in [variant.with_options(**more) for more in further]
        ]


def verdicts(inputs: Inputs) -> list[Verdict]:
    """The verdict of each check on the plans of each row, and on the three scenarios together."""
    found: list[Verdict] = []
    for data in dict.fromkeys(plan.data for plan in inputs.recorded):
        plans = [plan for plan in inputs.recorded if plan.data == data]
        few = FEW if any(len(plan.each) < RUNS_MIN for plan in plans) else ""
        of_plans = [_of_plan(inputs, plan) for plan in plans]
        for name in JUDGED:
            readings = [judged for of_plan in of_plans for judged in of_plan[name]]
            found.append(_judged(name, data, readings, few))
        found.append(unmeasured(CHECKS["launch"], data, NO_LAUNCHES))
    for name, readings in _readings(inputs, inputs.generated, inputs.shown).items():
        found.append(_judged(name, SCENARIOS, readings))
    found.append(judge(CHECKS["launch"], SCENARIOS, inputs.launches))
    return in_order(CHECKS, found)


Judged = tuple[Reading, str]
"""A reading, and why it is not measurable; empty if it is."""


def _readings(
    inputs: Inputs, workloads: Sequence[Workload], advantaged: Sequence[Workload]
) -> dict[str, list[Judged]]:
    """The readings of each check but that on launches; ``advantaged``: the workloads that are also
    judged without single-access pages."""
    singles = [(reading, "") for reading in _singles(inputs, workloads)]
    return {
        "single": singles,
        **_simulated(inputs, workloads),
        "cause": list(_cause(inputs, advantaged)),
    }


def _of_plan(inputs: Inputs, plan: Repeated) -> dict[str, list[Judged]]:
    """The readings of a plan, on which its repeats agree."""
    repeats = [_readings(inputs, [repeat], [repeat]) for repeat in plan.each]
    return {name: agreed([readings[name] for readings in repeats]) for name in JUDGED}


def agreed(repeats: Sequence[Sequence[Judged]]) -> list[Judged]:
    """The readings of several repeats as one list. A figure is the mean over the repeats; a reading
    that holds on some of them only, or is in some only, is not measurable."""
    by_choices: dict[Choices, list[Judged]] = {}
    for readings in repeats:
        for judged in readings:
            by_choices.setdefault(judged[0].choices, []).append(judged)
    return [_agreed(found, len(repeats)) for found in by_choices.values()]


def _agreed(found: Sequence[Judged], repeats: int) -> Judged:
    first = found[0][0]
    lacking = next((why for _, why in found if why), "")
    if not lacking and (len(found) < repeats or len({each.holds for each, _ in found}) > 1):
        lacking = DISAGREE
    if lacking:
        return Reading(first.choices, False), lacking
    figures = [each.figure for each, _ in found if each.figure is not None]
    return Reading(first.choices, first.holds, fmean(figures) if figures else None), ""


def _judged(name: str, data: str, readings: Sequence[Judged], few: str = "") -> Verdict:
    """The verdict on the measurable readings; its reason counts the others. ``few`` is why none of
    them decides anything."""
    check = CHECKS[name]
    measurable = [reading for reading, lacking in readings if not lacking]
    reasons = Counter(lacking for _, lacking in readings if lacking)
    if not readings and name == "cause":
        return unmeasured(check, data, NO_ADVANTAGE)
    if few and measurable:
        return judge(check, data, measurable, few)
    if not reasons:
        return judge(check, data, measurable)
    if not measurable:
        return unmeasured(check, data, "; ".join(why for why, _ in reasons.most_common()))
    verdict = judge(check, data, measurable)
    others = "; ".join(
        f"{counted(format_count(count), 'further reading')} left out: {why}"
        for why, count in reasons.most_common()
    )
    return replace(verdict, why=f"{verdict.why}. {others}")


def _lacking(inputs: Inputs, workloads: Sequence[Workload], hybrid: Variant) -> str:
    """Why the workloads cannot show what hybrid's filter does; empty if they can."""
    number = 3 if dict(hybrid.options).get("entry_bit") == "0" else 2
    if any(inputs.skew[workload].returns[number] < RETURNS_MIN for workload in workloads):
        return TOO_FEW_RETURNS.format(number="third" if number == 3 else "second")
    if not all(acting(inputs, workload, hybrid) for workload in workloads):
        return HITLESS
    return ""


def _hits(inputs: Inputs, workload: Workload, variant: Variant, size_mib: int) -> float:
    """The share of the swap-ins that the fast tier answers, as a mean over the seeds."""
    traces = workload.traces
    return fmean(inputs.cells.hit_share(trace, variant, size_mib) for trace in traces)


def acting(inputs: Inputs, workload: Workload, hybrid: Variant) -> list[int]:
    """The sizes at which the fast tier of hybrid answers some swap-ins. Elsewhere hybrid is flash
    swap with more writes, and says nothing about a filter."""
    key = (workload, hybrid)
    if key not in inputs.acting:
        inputs.acting[key] = [
            size
            for size in inputs.sizes_mib
            if _hits(inputs, workload, hybrid, size) >= HIT_SHARE_MIN
        ]
    return inputs.acting[key]


def _scarce(inputs: Inputs, workload: Workload, baseline: Variant) -> list[int]:
    """The sizes at which the fast tier of the baseline does not hold nearly everything. Elsewhere
    the baseline needs no slow access, and hybrid, whose first page-outs go there, always does."""
    return [
        size
        for size in inputs.sizes_mib
        if _hits(inputs, workload, baseline, size) <= HELD_SHARE_MAX
    ]


def _singles(inputs: Inputs, workloads: Sequence[Workload]) -> Iterator[Reading]:
    for choices, arranged in _by_choices(workloads):
        for unit in inputs.skew[arranged[0]].singles:
            shares = [inputs.skew[workload].singles[unit] for workload in arranged]
            holds = all(share > 0.5 for share in shares)
            yield Reading((*choices, ("counted", unit)), holds, fmean(shares))


def _by_choices(workloads: Sequence[Workload]) -> Iterator[tuple[Choices, list[Workload]]]:
    """Groups workloads that differ only in their arrangement: S1's scenarios 1-3."""
    for choices in dict.fromkeys(workload.choices for workload in workloads):
        yield choices, [workload for workload in workloads if workload.choices == choices]


def _simulated(inputs: Inputs, workloads: Sequence[Workload]) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {name: [] for name in SIMULATED}
    for choices, arranged in _by_choices(workloads):
        working_sets = [inputs.skew[workload].multi_access_mib for workload in arranged]
        hybrids = inputs.extended(inputs.hybrid, workloads)
        without_effect = {hybrid: _lacking(inputs, arranged, hybrid) for hybrid, _ in hybrids}
        for (hybrid, own), baseline, latencies in itertools.product(
            hybrids, inputs.hierarchical, LATENCIES
        ):
            lacking = without_effect[hybrid]
            read = (*choices, *own, *_silent(baseline), ("latencies", str(latencies)))
            curves = _curves(inputs, arranged, hybrid, baseline, _io_time(latencies))
            if lacking:
                _leave_out(found, read, ("shape", "crossover", "amount"), lacking)
                continue
            small = [c.up_to(size) for c, size in zip(curves, working_sets, strict=True)]
            shape = _all(read, small, lambda c: c.longest_gain(GAIN_THRESHOLD) >= 2, Changes.best)
            found["shape"].append((shape, ""))
            open_curves = _open(inputs, arranged, curves, baseline)
            if open_curves:
                crossover = _all(
                    read,
                    open_curves,
                    lambda c: c.at_largest() >= -GAIN_THRESHOLD,
                    Changes.at_largest,
                )
                found["crossover"].append((crossover, ""))
            else:
                forced = FORCED.format(baseline=baseline.architecture)
                _leave_out(found, read, ("crossover",), forced)
            for averaged, part in _ranges(curves, small):
                amount = _all(
                    (*read, averaged), part, lambda c: _within(c, (2, 10), (10, 30)), Changes.mean
                )
                found["amount"].append((amount, ""))
        clocks = inputs.extended(inputs.clock, workloads)
        for (hybrid, own), (baseline, of_clock) in itertools.product(hybrids, clocks):
            if any(dict(own)[name] != dict(of_clock)[name] for name in (COPY, *DEFAULTS)):
                continue
            lacking = without_effect[hybrid]
            read = (*choices, *own, *_silent(baseline))
            flash = _curves(inputs, arranged, hybrid, baseline, lambda c: c.slow_accesses)
            writes = _curves(inputs, arranged, hybrid, baseline, lambda c: c.fast_writes)
            if lacking:
                names = ("flash_large", "writes_everywhere", "flash", "writes")
                _leave_out(found, read, names, lacking)
                continue
            open_flash = _open(inputs, arranged, flash, baseline)
            if open_flash:
                level = _all(
                    read, open_flash, lambda c: c.at_largest() >= -LEVEL, Changes.at_largest
                )
                found["flash_large"].append((level, ""))
            else:
                forced = FORCED.format(baseline=baseline.architecture)
                _leave_out(found, read, ("flash_large",), forced)
            fewer = _all(read, writes, lambda c: max(c.values) < 0, lambda c: max(c.values))
            found["writes_everywhere"].append((fewer, ""))
            for curves, name, mean, best in (
                (flash, "flash", (3, 12), (15, 35)),
                (writes, "writes", (40, 75), (0, 100)),
            ):
                small = [c.up_to(size) for c, size in zip(curves, working_sets, strict=True)]
                for averaged, part in _ranges(curves, small):
                    amount = _all((*read, averaged), part, _within_test(mean, best), Changes.mean)
                    found[name].append((amount, ""))
    return found


def _cause(inputs: Inputs, workloads: Sequence[Workload]) -> Iterator[Judged]:
    """The readings on the cause, from workloads with an advantage that could vanish."""
    names_them = len(workloads) > 1
    for whole in workloads:
        filtered = inputs.filtered[whole]
        own = (("workload", whole.name),) if names_them else whole.choices
        working_set = inputs.skew[whole].multi_access_mib
        for hybrid, latencies in itertools.product(inputs.hybrid, LATENCIES):
            baseline, measure = inputs.hierarchical[0], _io_time(latencies)
            lacking = _lacking(inputs, [whole], hybrid)
            sizes = acting(inputs, whole, hybrid)
            read = (*own, *hybrid.options, ("latencies", str(latencies)))
            if lacking:
                yield Reading(read, False), lacking
                continue
            before, after = (
                changes(cells, workload, hybrid, baseline, measure, sizes).up_to(working_set)
                for cells, workload in ((inputs.cells, whole), (inputs.filtered_cells, filtered))
            )
            if before.best() <= -VANISHED:
                yield Reading(read, after.best() > -VANISHED, after.best()), ""


def _curves(
    inputs: Inputs,
    workloads: Sequence[Workload],
    hybrid: Variant,
    baseline: Variant,
    measure: Callable[[Counts], float],
) -> list[Changes]:
    """The changes at the sizes at which hybrid's fast tier answers swap-ins, by workload."""
    return [
        changes(inputs.cells, workload, hybrid, baseline, measure, sizes)
        for workload in workloads
        for sizes in [acting(inputs, workload, hybrid)]
    ]


def _open(
    inputs: Inputs, workloads: Sequence[Workload], curves: Sequence[Changes], baseline: Variant
) -> list[Changes]:
    """The changes at the sizes at which the baseline does not hold nearly everything; empty if a
    workload has no such size."""
    found = [
        curve.at(_scarce(inputs, workload, baseline))
        for workload, curve in zip(workloads, curves, strict=True)
    ]
    return found if all(curve.values for curve in found) else []


def _leave_out(
    found: dict[str, list[Judged]], read: Choices, names: Sequence[str], lacking: str
) -> None:
    """Adds a reading that is not measurable to these checks."""
    for name in names:
        averages = name in AVERAGING
        for more in [(("averaged over", sizes),) for sizes in AVERAGED] if averages else [()]:
            found[name].append((Reading((*read, *more), False), lacking))


def _all(
    choices: Choices,
    curves: Sequence[Changes],
    test: Callable[[Changes], bool],
    figure: Callable[[Changes], float],
) -> Reading:
    """A reading that holds if every scenario passes; its figure is the mean over the scenarios."""
    return Reading(choices, all(map(test, curves)), fmean(map(figure, curves)))


def _ranges(
    whole: list[Changes], small: list[Changes]
) -> Iterator[tuple[tuple[str, str], list[Changes]]]:
    for sizes, curves in zip(AVERAGED, (whole, small), strict=True):
        yield ("averaged over", sizes), curves


def _within(curve: Changes, mean: tuple[int, int], best: tuple[int, int]) -> bool:
    """Whether the mean and the best gain lie between these percentages."""
    return mean[0] <= -100 * curve.mean() <= mean[1] and best[0] <= -100 * curve.best() <= best[1]


def _within_test(mean: tuple[int, int], best: tuple[int, int]) -> Callable[[Changes], bool]:
    return lambda curve: _within(curve, mean, best)


def _io_time(latencies: Latencies) -> Callable[[Counts], float]:
    return lambda counts: counts.io_time_s(latencies)


def _silent(baseline: Variant) -> Choices:
    """The baseline's choices that S1 leaves open; S1 states that it evicts by CLOCK."""
    of_both = ("eviction", COPY, *DEFAULTS)
    return tuple(pair for pair in baseline.options if pair[0] not in of_both)
