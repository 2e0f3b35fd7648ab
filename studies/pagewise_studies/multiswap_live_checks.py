"""The checks of S1 and of this project on live runs. Pairs of runs are the readings.

Of the runs with the same seed, the first run of a policy is compared with the first of another, the
second with the second, and so on, by their start. Latencies are also a choice that S1 leaves open.
Options of a policy with which no fast tier served 1 % of the reads are left out if others did.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pagewise.launch_runs import LaunchRun
from pagewise.units import MIB, PAGE_BYTES, format_percent, format_size
from pagewise_studies.compare import Changes
from pagewise_studies.live_runs import FEW, RUNS_MIN, faster_than_phones, ruled
from pagewise_studies.multiswap_checks import CHECKS as OF_PAPER
from pagewise_studies.multiswap_checks import GAIN_THRESHOLD, HIT_SHARE_MIN, LEVEL
from pagewise_studies.runs import LATENCIES, Counts, Latencies
from pagewise_studies.tiers import Live, TierRun
from pagewise_studies.verdict import (
    Check,
    Choices,
    Reading,
    Verdict,
    in_order,
    load_checks,
    unmeasured,
)

OURS = load_checks("multiswap-live")
CHECKS: Mapping[str, Check] = OF_PAPER | OURS
HYBRID, HIERARCHICAL, CLOCK, FLASH = "hybrid", "hierarchical", "hybrid-clock", "flash"
ADAPTIVE = "adaptive"
UNANSWERED = "no launch after the first round was answered"
SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "median": median}


@dataclass(frozen=True)
class Pair:
    """Two policies at the same sizes of the fast tier, ascending, a run of each per size."""

    ours: tuple[TierRun, ...]
    baseline: tuple[TierRun, ...]

    @property
    def choices(self) -> Choices:
        """The runs by policy."""
        return tuple(
            (runs[0].policy, " ".join(tier.run.name for tier in runs))
            for runs in (self.ours, self.baseline)
        )

    def changes(self, measure: Callable[[Counts], float]) -> Changes:
        """The change of a measure by size."""
        sizes = tuple(tier.fast_bytes // MIB for tier in self.ours)
        both = [
            (measure(ours.counts), measure(baseline.counts))
            for ours, baseline in zip(self.ours, self.baseline, strict=True)
        ]
        return Changes(sizes, tuple(a / b - 1 if b else float(a > 0) for a, b in both))


def pairs(live: Live, ours: str, baseline: str) -> list[Pair]:
    """The pairs of these policies with the same seed; each size that both have is in every pair."""
    found: dict[tuple[str, int, object], list[TierRun]] = {}
    for policy in (ours, baseline):
        for tier in exercised(live, policy):
            found.setdefault((policy, tier.fast_bytes, seed(tier.run)), []).append(tier)
    of_ours, of_baseline = (
        {key[1] for key in found if key[0] == each} for each in (ours, baseline)
    )
    sizes = sorted(of_ours & of_baseline)

    def runs(policy: str, number: int, of_seed: object) -> tuple[TierRun, ...]:
        return tuple(found[policy, size, of_seed][number] for size in sizes)

    return [
        Pair(runs(ours, number, of_seed), runs(baseline, number, of_seed))
        for of_seed in dict.fromkeys(key[2] for key in found)
        for number in range(
            min(
                (
                    len(found.get((policy, size, of_seed), ()))
                    for policy in (ours, baseline)
                    for size in sizes
                ),
                default=0,
            )
        )
    ]


def seed(run: LaunchRun) -> object:
    """The seed of the visits; runs are compared with those that have the same."""
    return run.plan.get("seed")


def missing(live: Live, ours: str, baseline: str, *, sizes: int = 1, whole: bool = False) -> str:
    """What a verdict on these policies lacks; empty if nothing.

    ``sizes`` is the least number of sizes of the fast tier; ``whole``: the largest must hold every
    page.
    """
    for policy in (ours, baseline):
        if not live.of(policy):
            return f"needs runs with the policy {policy}"
    found = pairs(live, ours, baseline)
    if not found:
        return f"needs runs of {ours} and {baseline} with the same size of the fast tier"
    runs = [tier for pair in found for tier in (*pair.ours, *pair.baseline)]
    largest = found[0].ours[-1].fast_bytes
    if len(found[0].ours) < sizes:
        return (
            f"needs {ours} and {baseline} at {sizes} sizes of the fast tier or more; the only size "
            f"of both is {format_size(largest)}"
        )
    if idle := _idle(runs):
        return idle
    used = [tier.used_pages_max for tier in runs if tier.used_pages_max is not None]
    if whole and len(used) < len(runs):
        return "needs runs with tiers.record = true, to see how many pages were in swap"
    if whole and largest < (most := max(used) * PAGE_BYTES):
        return (
            f"needs a fast tier that holds all pages in swap, up to {format_size(most)} in these "
            f"runs; the largest of both policies has {format_size(largest)}"
        )
    return FEW if len(found) < RUNS_MIN else ""


def exercised(live: Live, policy: str) -> list[TierRun]:
    """The runs with this policy, without variants whose fast tier served under 1 % of the reads in
    every run; all if there is no other variant."""
    runs = live.of(policy)
    used = {tier.kind for tier in runs if fast_hit_share(tier.counts) >= HIT_SHARE_MIN}
    return [tier for tier in runs if tier.kind in used] or runs


def _idle(runs: Sequence[TierRun]) -> str:
    """Names a run whose fast tier served under 1 % of the reads; empty if there is none."""
    for tier in runs:
        if (share := fast_hit_share(tier.counts)) < HIT_SHARE_MIN:
            return (
                f"the fast tier of {tier.run.name} served {format_percent(share)} of the reads, so "
                "it shows no difference"
            )
    return ""


def fast_hit_share(counts: Counts) -> float:
    """The share of all reads that the fast tier served; 0 without reads."""
    return counts.fast_reads / max(1, counts.fast_reads + counts.slow_reads)


def verdicts(live: Live) -> list[Verdict]:
    """The verdict of each check that runs can carry, those of S1 first."""
    return in_order(CHECKS, [*_paper(live), *_launches(live), *_ours(live)])


def _data(live: Live, *policies: str) -> str:
    """The runs with these policies, or every run if a policy has none."""
    found = [exercised(live, policy) for policy in policies]
    runs = [tier.run for of in found for tier in of] if all(found) else live.runs
    return ", ".join(run.name for run in runs)


def _paper(live: Live) -> Iterator[Verdict]:
    hierarchical, clock = (pairs(live, HYBRID, other) for other in (HIERARCHICAL, CLOCK))
    timed = [
        ((*pair.choices, ("latencies", str(latencies))), pair.changes(_io_time(latencies)))
        for pair in hierarchical
        for latencies in LATENCIES
    ]
    slow = [(pair.choices, pair.changes(lambda counts: counts.slow_accesses)) for pair in clock]
    writes = [(pair.choices, pair.changes(lambda counts: counts.fast_writes)) for pair in clock]
    for name, baseline, curves, sizes, whole, holds, figure in (
        ("shape", HIERARCHICAL, timed, 2, False, _gains, Changes.best),
        ("amount", HIERARCHICAL, timed, 2, False, _within((2, 10), (10, 30)), Changes.mean),
        ("crossover", HIERARCHICAL, timed, 2, True, _is_level(GAIN_THRESHOLD), Changes.at_largest),
        ("flash", CLOCK, slow, 2, False, _within((3, 12), (15, 35)), Changes.mean),
        ("flash_large", CLOCK, slow, 2, True, _is_level(LEVEL), Changes.at_largest),
        ("writes", CLOCK, writes, 2, False, _within((40, 75), (0, 100)), Changes.mean),
        ("writes_everywhere", CLOCK, writes, 2, False, _falls, _worst),
    ):
        data = _data(live, HYBRID, baseline)
        why = missing(live, HYBRID, baseline, sizes=sizes, whole=whole)
        readings = [Reading(choices, holds(curve), figure(curve)) for choices, curve in curves]
        yield ruled(CHECKS[name], data, readings, why)


def _io_time(latencies: Latencies) -> Callable[[Counts], float]:
    return lambda counts: counts.io_time_s(latencies)


def _gains(curve: Changes) -> bool:
    return curve.longest_gain(GAIN_THRESHOLD) >= 2


def _falls(curve: Changes) -> bool:
    return max(curve.values) < 0


def _worst(curve: Changes) -> float:
    return max(curve.values)


def _is_level(threshold: float) -> Callable[[Changes], bool]:
    return lambda curve: curve.at_largest() >= -threshold


def _within(mean: tuple[int, int], best: tuple[int, int]) -> Callable[[Changes], bool]:
    return lambda curve: (
        mean[0] <= -100 * curve.mean() <= mean[1] and best[0] <= -100 * curve.best() <= best[1]
    )


def _launches(live: Live) -> Iterator[Verdict]:
    flash = [tier.run for tier in live.of(FLASH)]
    faster = faster_than_phones(live.tiers[0].run)
    for name, policy, other, absent, most in (
        ("launch", HYBRID, flash, f"the policy {FLASH}", 0.6),
        ("adaptive_flash", ADAPTIVE, flash, f"the policy {FLASH}", 0.6),
        ("no_swap", HYBRID, live.kills, 'mode = "kill" or "minfree"', 1.5),
    ):
        check = CHECKS[name]
        tiers = exercised(live, policy)
        judged = [tier.run for tier in tiers]
        lacking = f"the policy {policy}" if not judged else "" if other else absent
        why = f"needs runs with {lacking}" if lacking else faster
        why = why or (FEW if min(len(judged), len(other)) < RUNS_MIN else "")
        data = ", ".join(run.name for run in ((*judged, *other) if not lacking else live.runs))
        readings = [
            Reading(choices, ratio <= most, ratio - 1 if check.unit == "change" else ratio)
            for ours, baseline in itertools.product(judged, other)
            if seed(ours) == seed(baseline) and ours.launches(2) and baseline.launches(2)
            for summary, mean in SUMMARIES.items()
            for ratio in [mean(ours.launches(2)) / mean(baseline.launches(2))]
            for choices in [(("ours", ours.name), ("other", baseline.name), ("summary", summary))]
        ]
        unanswered = "" if readings else UNANSWERED
        yield ruled(check, data, readings, why or unanswered or _idle(tiers))
    yield _adaptive_launch(live, faster)


def _adaptive_launch(live: Live, faster: str) -> Verdict:
    check = CHECKS["adaptive_launch"]
    by_kind: dict[str, list[TierRun]] = {}
    for tier in live.tiers:
        by_kind.setdefault(tier.kind, []).append(tier)
    launched = {
        kind: times
        for kind, tiers in by_kind.items()
        for times in [[second for tier in tiers for second in tier.run.launches(2)]]
        if times
    }
    ours = launched.pop(ADAPTIVE, None)
    data = ", ".join(tier.run.name for tier in live.tiers)
    if not ours or not launched:
        why = f"needs runs with {ADAPTIVE} and other policies, with launches after the first round"
        return unmeasured(check, data, why)
    is_single = min(map(len, by_kind.values())) < RUNS_MIN
    readings = [
        Reading((("summary", summary),), ratio <= 1.05, ratio)
        for summary, mean in SUMMARIES.items()
        for ratio in [mean(ours) / min(mean(times) for times in launched.values())]
    ]
    return ruled(check, data, readings, faster or (FEW if is_single else ""))


def _ours(live: Live) -> Iterator[Verdict]:
    yield _moves(live)
    yield _predicted(live)
    measures: tuple[tuple[str, str, Callable[[Counts], float], float], ...] = (
        ("adaptive", ADAPTIVE, lambda counts: counts.slow_accesses, 0.92),
        ("hybrid", HYBRID, lambda counts: counts.fast_writes, 0.5),
    )
    for name, ours, measure, most in measures:
        data = _data(live, ours, HIERARCHICAL)
        readings = [
            Reading((*pair.choices, ("fast tier, MiB", str(size))), ratio <= most, ratio)
            for pair in pairs(live, ours, HIERARCHICAL)
            for curve in [pair.changes(measure)]
            for size, change in zip(curve.sizes_mib, curve.values, strict=True)
            for ratio in [1 + change]
        ]
        yield ruled(CHECKS[name], data, readings, missing(live, ours, HIERARCHICAL))


def _moves(live: Live) -> Verdict:
    readings = [
        Reading(
            (("run", tier.run.name),), again["identical"], differing / max(1, again["done_moves"])
        )
        for tier in live.tiers
        for again in [tier.again]
        if again
        for differing in [again["differing_moves"] + again["open_moves"]]
    ]
    names = ", ".join(tier.run.name for tier in live.tiers)
    return ruled(
        CHECKS["moves"], names, readings, "" if readings else "needs runs with tiers.record = true"
    )


def _predicted(live: Live) -> Verdict:
    names = ", ".join(run.name for run in (*(tier.run for tier in live.tiers), *live.recorded))
    readings = [
        Reading((("run", tier.run.name), ("recorded", recorded)), abs(change) <= 0.1, change)
        for tier in live.tiers
        for recorded, counts in (tier.predicted or {}).items()
        if counts.slow_accesses
        for change in [tier.counts.slow_accesses / counts.slow_accesses - 1]
    ]
    idle = [tier.run.name for tier in live.tiers if not tier.counts.fast_reads]
    lacking = "" if readings else "needs a recorded run on a swap file (launch --record)"
    if idle and not lacking:
        lacking = f"the fast tier of {idle[0]} served no read, so any policy predicts the same"
    if min(Counter(tier.label for tier in live.tiers).values()) < RUNS_MIN and not lacking:
        lacking = FEW
    return ruled(CHECKS["predicted"], names, readings, lacking)
