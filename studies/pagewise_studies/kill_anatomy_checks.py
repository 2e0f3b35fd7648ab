"""The acceptance checks of spec sheet S2 that kills taken apart can answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from pagewise_studies.kill_laws import Law
from pagewise_studies.kill_runs import Kill, KillRuns, seen
from pagewise_studies.verdict import Reading, Verdict, judge, load_checks

CHECKS = load_checks("kill-anatomy")
SHARE_LEAST = 0.80
ORDER_MS = (1.0, 100.0)
"""A factor of ten around the paper's 10 ms."""
EARLY = 0.10
"""Memory that may be gone before the last thread has left."""


def verdicts(runs: KillRuns, laws: Sequence[Law]) -> list[Verdict]:
    """Every check on one measurement."""
    paper = by_victim(runs.of("paper"))
    readings = {
        "share": each(paper, share),
        "last": each(paper, early),
        "delivery": growth(laws, "signal"),
        "handling": growth(laws, "threads"),
        "order": each(paper, order),
        "concurrent": list(concurrent(runs.of("together"))),
    }
    return [judge(CHECKS[name], runs.name, found) for name, found in readings.items()]


def by_victim(kills: Sequence[Kill]) -> dict[str, list[Kill]]:
    """Kills by what kind of victim they are of."""
    return {
        name: [kill for kill in kills if kill.victim == name]
        for name in dict.fromkeys(kill.victim for kill in kills)
    }


Test = Callable[[Sequence[Kill]], tuple[bool, float] | None]


def each(victims: dict[str, list[Kill]], test: Test) -> list[Reading]:
    """A reading for each kind of victim of which the kernel tells enough."""
    return [
        Reading((("victim", name),), *found)
        for name, kills in victims.items()
        if (found := test(kills)) is not None
    ]


def share(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """How much of a kill reclaim is."""
    shares = [kill.reclaim_share for kill in kills if kill.reclaim_share is not None]
    return (median(shares) >= SHARE_LEAST, median(shares)) if shares else None


def early(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """In how many kills memory fell before the last thread had left."""
    told = [kill for kill in kills if kill.curve and kill.total_us and kill.reclaim_us]
    fell = sum(fell_early(kill) for kill in told)
    return (fell == 0, fell / len(told)) if told else None


def fell_early(kill: Kill) -> bool:
    """Whether a tenth of the memory was gone before reclaim began."""
    assert kill.total_us is not None and kill.reclaim_us is not None
    begins = kill.total_us - kill.reclaim_us
    left = [size for time, size in kill.curve if time < begins]
    return bool(left) and min(left) < (1 - EARLY) * kill.curve[0][1]


def order(kills: Sequence[Kill]) -> tuple[bool, float] | None:
    """How long a kill takes, in milliseconds."""
    totals = seen(kills, "total")
    if not totals:
        return None
    typical = median(totals) / 1000
    return ORDER_MS[0] <= typical <= ORDER_MS[1], typical


def growth(laws: Sequence[Law], phase: str) -> list[Reading]:
    """Whether a phase surely grows with threads."""
    return [
        Reading((("law", f"{law.phase} against {law.against}"),), law.grows, law.slope)
        for law in laws
        if law.phase == phase and law.against == "threads"
    ]


def concurrent(kills: Sequence[Kill]) -> list[Reading]:
    """Reclaim among others, over reclaim alone: a reading for each number of others."""
    alone = seen([kill for kill in kills if kill.others == 0], "reclaim")
    among = {
        others: seen([kill for kill in kills if kill.others == others], "reclaim")
        for others in sorted({kill.others for kill in kills if kill.others})
    }
    return [
        Reading((("others", str(others)),), ratio > 1, ratio)
        for others, times in among.items()
        if alone and times
        for ratio in [median(times) / median(alone)]
    ]
