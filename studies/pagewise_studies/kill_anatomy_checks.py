"""The acceptance checks of spec sheet S2 that need the phases of kills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from pagewise_studies.kill_laws import Law
from pagewise_studies.kill_measurement import Kill, KillMeasurement, seen
from pagewise_studies.verdict import Reading, Verdict, judge, load_checks

CHECKS = load_checks("kill-anatomy")
SHARE_LEAST = 0.80
ORDER_MS = (1.0, 100.0)
"""A factor of ten around the paper's 10 ms."""
EARLY = 0.10
"""The share of memory that may be free before the last thread exits."""


def verdicts(measured: KillMeasurement, laws: Sequence[Law]) -> list[Verdict]:
    """The verdict of each check on one measurement."""
    paper = by_victim(measured.of("paper"))
    readings = {
        "share": each(paper, share),
        "last": each(paper, early),
        "delivery": growth(laws, "signal"),
        "handling": growth(laws, "threads"),
        "order": each(paper, order),
        "concurrent": list(concurrent(measured.of("together"))),
    }
    return [judge(CHECKS[name], measured.name, found) for name, found in readings.items()]


def by_victim(kills: Sequence[Kill]) -> dict[str, list[Kill]]:
    """Kills by kind of victim."""
    return {
        name: [kill for kill in kills if kill.victim == name]
        for name in dict.fromkeys(kill.victim for kill in kills)
    }


Test = Callable[[Sequence[Kill]], tuple[bool, float] | None]


def each(victims: dict[str, list[Kill]], test: Test) -> list[Reading]:
    """A reading for each kind of victim whose kills have the data of the test."""
    return [
        Reading((("victim", name),), *found)
        for name, kills in victims.items()
        if (found := test(kills)) is not None
    ]


def share(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """The median share of reclaim in a kill."""
    shares = [kill.reclaim_share for kill in kills if kill.reclaim_share is not None]
    return (median(shares) >= SHARE_LEAST, median(shares)) if shares else None


def early(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """The share of kills in which memory fell before the last thread exited."""
    recorded = [kill for kill in kills if kill.curve and kill.total_us and kill.reclaim_us]
    fell = sum(fell_early(kill) for kill in recorded)
    return (fell == 0, fell / len(recorded)) if recorded else None


def fell_early(kill: Kill) -> bool:
    """Whether a tenth of the memory was free before reclaim began."""
    assert kill.total_us is not None and kill.reclaim_us is not None
    begins = kill.total_us - kill.reclaim_us
    left = [size for time, size in kill.curve if time < begins]
    return bool(left) and min(left) < (1 - EARLY) * kill.curve[0][1]


def order(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """The median duration of a kill in milliseconds."""
    totals = seen(kills, "total")
    if not totals:
        return None
    typical = median(totals) / 1000
    return ORDER_MS[0] <= typical <= ORDER_MS[1], typical


def growth(laws: Sequence[Law], phase: str) -> list[Reading]:
    """Whether a phase grows with the number of threads, with 95 % confidence."""
    return [
        Reading((("law", f"{law.phase} against {law.against}"),), law.grows, law.slope)
        for law in laws
        if law.phase == phase and law.against == "threads"
    ]


def concurrent(kills: Sequence[Kill]) -> list[Reading]:
    """Reclaim of victims that die together, over reclaim of a single victim.

    Each number of other victims is a reading.
    """
    single = seen([kill for kill in kills if kill.others == 0], "reclaim")
    among = {
        others: seen([kill for kill in kills if kill.others == others], "reclaim")
        for others in sorted({kill.others for kill in kills if kill.others})
    }
    return [
        Reading((("others", str(others)),), ratio > 1, ratio)
        for others, times in among.items()
        if single and times
        for ratio in [median(times) / median(single)]
    ]
