"""The acceptance checks of spec sheet S2 that need the phases of kills.

A figure is the mean over the repeats of a measurement. It decides a check if its whole 95 %
interval, that of the repeats, lies on one side of the bound; a single repeat decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from pagewise_studies.kill_laws import Law
from pagewise_studies.kill_measurement import Kill, KillMeasurement, KillRepeat, seen
from pagewise_studies.live_runs import RUNS_MIN
from pagewise_studies.verdict import (
    Check,
    Choices,
    Estimate,
    Reading,
    Verdict,
    judge,
    load_checks,
    show,
)

CHECKS = load_checks("kill-anatomy")
SHARE_LEAST = 0.80
ORDER_MS = (1.0, 100.0)
"""A factor of ten around the paper's 10 ms."""
EARLY = 0.10
"""The share of memory that may be free before the last thread exits."""
SAME = 1.10
"""A reclaim that is longer by less than this factor counts as equally long."""
FEW = f"needs {RUNS_MIN} repeats or more, to see how much repeats differ by themselves"

Figure = Callable[[KillRepeat], float | None]
Decision = Callable[[Estimate], bool | None]
"""Whether a figure meets its bound; None if its interval contains the bound."""


def verdicts(measured: KillMeasurement, laws: Sequence[Law]) -> list[Verdict]:
    """The verdict of each check on one measurement."""
    share = of_victims(measured, share_of_reclaim)
    early = of_victims(measured, early_share)
    order = of_victims(measured, duration_ms)
    return [
        verdict("share", measured, share, at_least(SHARE_LEAST)),
        verdict("last", measured, early, lambda found: found.figure == 0),
        verdict("delivery", measured, of_laws(laws, "signal"), grows),
        verdict("handling", measured, of_laws(laws, "threads"), grows),
        verdict("order", measured, order, between(*ORDER_MS)),
        verdict("concurrent", measured, list(together(measured)), lengthens),
    ]


Estimates = Sequence[tuple[Choices, float, Estimate | None]]
"""For each reading its choices, its figure, and that figure with the interval of the repeats."""


def verdict(name: str, measured: KillMeasurement, found: Estimates, decide: Decision) -> Verdict:
    """The verdict on a check; each kind of victim, or each law, is a reading."""
    check = CHECKS[name]
    decided = [
        (choices, figure, estimate, None if estimate is None else decide(estimate))
        for choices, figure, estimate in found
    ]
    open_ones = [
        interval(check, choices, estimate)
        for choices, _, estimate, holds in decided
        if holds is None and estimate is not None
    ]
    lacking = FEW if any(estimate is None for *_, estimate in found) else undecided(open_ones)
    readings = [Reading(choices, bool(holds), figure) for choices, figure, _, holds in decided]
    ruled = judge(check, measured.name, readings, lacking)
    (first, *more) = found or [((), 0.0, None)]
    if first[2] is None or more:
        return ruled
    return replace(ruled, ours=f"{ruled.ours} ({ends(check, first[2])})")


def interval(check: Check, choices: Choices, estimate: Estimate) -> str:
    """The interval of a figure, with the choices of its reading."""
    under = ", ".join(f"{name}: {value}" for name, value in choices)
    return f"{ends(check, estimate)} ({under})"


def undecided(intervals: Sequence[str]) -> str:
    """Why the figures with these intervals decide nothing; empty if there are none."""
    if not intervals:
        return ""
    return (
        "needs more repeats, since the 95 % interval of the repeats contains the bound: "
        + ", ".join(intervals)
    )


def ends(check: Check, estimate: Estimate) -> str:
    """The ends of an interval as text."""
    low, high = (show(end, check.unit) for end in (estimate.low, estimate.high))
    return f"{low.removesuffix(f' {check.unit}')} to {high}"


def at_least(bound: float) -> Decision:
    """Whether a figure is at least ``bound``."""
    return between(bound, float("inf"))


def between(least: float, most: float) -> Decision:
    """Whether a figure is within two bounds."""

    def decide(estimate: Estimate) -> bool | None:
        if least <= estimate.low and estimate.high <= most:
            return True
        return False if estimate.high < least or estimate.low > most else None

    return decide


def grows(estimate: Estimate) -> bool | None:
    """Whether a slope is above 0."""
    if estimate.low > 0:
        return True
    return False if estimate.high <= 0 else None


def lengthens(estimate: Estimate) -> bool | None:
    """Whether a ratio is above 1; it is not if a tenth more is outside its interval."""
    if estimate.low > 1:
        return True
    return False if estimate.high < SAME else None


def by_victim(kills: Iterable[Kill]) -> dict[str, list[Kill]]:
    """Kills by kind of victim."""
    sorted_out: dict[str, list[Kill]] = {}
    for kill in kills:
        sorted_out.setdefault(kill.victim, []).append(kill)
    return sorted_out


def of_victims(
    measured: KillMeasurement, figure: Callable[[Sequence[Kill]], float | None]
) -> Estimates:
    """A figure of S2's victims: a reading for each kind of victim that has it."""
    return [
        reading
        for name in by_victim(measured.of("paper"))
        for reading in reading_of(measured, (("victim", name),), partial(of_victim, figure, name))
    ]


def of_victim(
    figure: Callable[[Sequence[Kill]], float | None], victim: str, repeat: KillRepeat
) -> float | None:
    """A figure of the kills of one kind of S2's victims, in one repeat."""
    return figure([kill for kill in repeat.of("paper") if kill.victim == victim])


def reading_of(measured: KillMeasurement, choices: Choices, figure: Figure) -> Estimates:
    """One reading, or none if no repeat has the figure."""
    values = [value for value in map(figure, measured.repeats) if value is not None]
    if not values:
        return []
    estimate = measured.estimate(figure)
    return [(choices, values[0] if estimate is None else estimate.figure, estimate)]


def share_of_reclaim(kills: Sequence[Kill]) -> float | None:
    """The median share of reclaim in a kill."""
    shares = [kill.reclaim_share for kill in kills if kill.reclaim_share is not None]
    return median(shares) if shares else None


def early_share(kills: Sequence[Kill]) -> float | None:
    """The share of kills in which memory fell before the last thread exited."""
    recorded = [kill for kill in kills if kill.curve and kill.total_us and kill.reclaim_us]
    return sum(map(fell_early, recorded)) / len(recorded) if recorded else None


def fell_early(kill: Kill) -> bool:
    """Whether a tenth of the memory was free before reclaim began."""
    assert kill.total_us is not None and kill.reclaim_us is not None
    begins = kill.total_us - kill.reclaim_us
    left = [size for time, size in kill.curve if time < begins]
    return bool(left) and min(left) < (1 - EARLY) * kill.curve[0][1]


def duration_ms(kills: Sequence[Kill]) -> float | None:
    """The median duration of a kill in milliseconds."""
    totals = seen(kills, "total")
    return median(totals) / 1000 if totals else None


def of_laws(laws: Sequence[Law], phase: str) -> Estimates:
    """The growth of a phase with the number of threads, in microseconds per thread."""
    return [
        ((("law", f"{law.phase} against {law.against}"),), law.slope, law.estimate)
        for law in laws
        if law.phase == phase and law.against == "threads"
    ]


def together(measured: KillMeasurement) -> Iterable[tuple[Choices, float, Estimate | None]]:
    """Reclaim of victims that die together, over reclaim of a single victim.

    Each number of other victims is a reading.
    """
    for others in sorted({kill.others for kill in measured.of("together") if kill.others}):
        crowd = "more than processors" if others >= measured.processors else "a processor for each"
        choices = (("dying processes", crowd), ("others", str(others)))
        yield from reading_of(measured, choices, partial(longer_by, others))


def longer_by(others: int, repeat: KillRepeat) -> float | None:
    """The median reclaim among ``others`` that die at once, over that of a single victim."""
    kills = repeat.of("together")
    single = seen([kill for kill in kills if kill.others == 0], "reclaim")
    among = seen([kill for kill in kills if kill.others == others], "reclaim")
    return median(among) / median(single) if single and among else None
