"""The acceptance checks of spec sheet S3 that a replay can answer, over programs and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagewise.allocations import BASELINE, OURS
from pagewise_studies.lazy_unmap_model import POOLS, Program
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks, unmeasured

CHECKS = load_checks("lazy-unmap")
FEWEST, MOST = 0.30, 0.60
"""Faults that a pool saves in a mix as a browser's (ACC-S3-1)."""
LOOP = 0.90
"""Faults that it saves where nothing else is done than to allocate and to free."""
TIME_LEAST, TIME_MOST = 0.02, 0.10
MORE_MOST = 0.05
"""Our reading of "baseline + epsilon": a share of the baseline's peak."""
UNTIMED = (
    "no recording here says how long its program took and how often it faulted: all were killed"
)
LIBRARY = "this needs running programs: the tests of the preload library (tests/live) check it"


def verdicts(programs: Sequence[Program]) -> list[Verdict]:
    """Every check on the programs together."""
    data = ", ".join(one.name for one in programs)
    timed = [one for one in programs if one.is_timed]
    found = {
        "mix": _each(timed, _mix),
        "loop": _each(programs, _loop),
        "never_more": _each(programs, _never_more),
        "response": _each(timed, _response),
        "identity": _each(timed, _identity),
        "pool_first": list(_pool_first(programs)),
        "kills": list(_kills(programs)),
        "idle": _each(programs, _idle),
        "peak": _each(programs, _peak),
    }
    judged = [
        judge(CHECKS[name], data, readings) if readings else unmeasured(CHECKS[name], data, UNTIMED)
        for name, readings in found.items()
    ]
    return [
        *judged,
        *(unmeasured(CHECKS[name], data, LIBRARY) for name in ("traps", "unmodified")),
    ]


def _each(
    programs: Sequence[Program], test: Callable[[Program, str], tuple[bool, float]]
) -> list[Reading]:
    return [
        Reading((("program", one.name), ("pool", pool)), *test(one, pool))
        for one in programs
        for pool in POOLS
    ]


def _mix(one: Program, pool: str) -> tuple[bool, float]:
    saved = one.reduction(pool)
    return FEWEST <= saved <= MOST, saved


def _loop(one: Program, pool: str) -> tuple[bool, float]:
    saved = one.reduction_of_large(pool)
    return saved >= LOOP, saved


def _never_more(one: Program, pool: str) -> tuple[bool, float]:
    ratio = one.replays[pool].faults / one.baseline.faults
    return ratio <= 1, ratio


def _response(one: Program, pool: str) -> tuple[bool, float]:
    saved = one.saving(pool)
    return TIME_LEAST <= saved <= TIME_MOST, saved


def _identity(one: Program, pool: str) -> tuple[bool, float]:
    bound = one.reduction(pool) * one.fault_share
    saved = one.saving(pool)
    return saved <= bound * (1 + 1e-9), bound - saved


def _pool_first(programs: Sequence[Program]) -> list[Reading]:
    return [
        Reading(
            _choices(one, pool, share, hears),
            replay.counts["pages_pooled_at_kill"] == 0,
            float(replay.counts["pages_pooled_at_kill"]),
        )
        for one in programs
        for (pool, share, hears), replay in one.budgets.items()
        if pool in POOLS
    ]


def _kills(programs: Sequence[Program]) -> list[Reading]:
    return [
        Reading(
            _choices(one, pool, share, hears),
            replay.counts["kills"] <= baseline,
            float(replay.counts["kills"] - baseline),
        )
        for one in programs
        for (pool, share, hears), replay in one.budgets.items()
        if pool in POOLS
        for baseline in [one.budgets[BASELINE, share, False].counts["kills"]]
    ]


def _choices(one: Program, pool: str, share: float, hears: bool) -> Choices:
    """A pool in the kernel needs to hear of nothing."""
    heard = "heard in time" if hears else "not heard" if pool == OURS else "the kernel's own"
    return (("program", one.name), ("pool", pool), ("memory", f"{share:g}x"), ("pressure", heard))


def _idle(one: Program, pool: str) -> tuple[bool, float]:
    base = one.baseline.one
    more = one.replays[pool].one["pages_resident_idle"] - base["pages_resident_idle"]
    share = more / base["pages_resident_max"]
    return share <= MORE_MOST, share


def _peak(one: Program, pool: str) -> tuple[bool, float]:
    ratio = one.replays[pool].one["pages_resident_max"] / one.baseline.one["pages_resident_max"]
    return ratio <= 1 + MORE_MOST, ratio
