"""The acceptance checks of spec sheet S3 that a replay can answer, over programs and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagewise.allocations import BASELINE, OURS
from pagewise_studies.lazy_unmap_model import POOLS, Program
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks, unmeasured

CHECKS = load_checks("lazy-unmap")
FEWEST, MOST = 0.30, 0.60
"""The range of faults that a pool saves in a mix such as a browser's (ACC-S3-1)."""
LOOP = 0.90
"""The share of faults that a pool saves in a loop that only allocates and frees."""
TIME_LEAST, TIME_MOST = 0.02, 0.10
MORE_MOST = 0.05
"""Our reading of the paper's "baseline + epsilon", as a share of the baseline's peak."""
UNTIMED = (
    "no recording here says how long its program took and how often it faulted: all were killed"
)
LIBRARY = "this needs running programs: the tests of the preload library (tests/live) check it"


def verdicts(programs: Sequence[Program]) -> list[Verdict]:
    """The verdict of each check on all programs together."""
    data = ", ".join(program.name for program in programs)
    timed = [program for program in programs if program.is_timed]
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
        Reading((("program", program.name), ("pool", pool)), *test(program, pool))
        for program in programs
        for pool in POOLS
    ]


def _mix(program: Program, pool: str) -> tuple[bool, float]:
    saved = program.reduction(pool)
    return FEWEST <= saved <= MOST, saved


def _loop(program: Program, pool: str) -> tuple[bool, float]:
    saved = program.reduction_of_large(pool)
    return saved >= LOOP, saved


def _never_more(program: Program, pool: str) -> tuple[bool, float]:
    ratio = program.replays[pool].faults / program.baseline.faults
    return ratio <= 1, ratio


def _response(program: Program, pool: str) -> tuple[bool, float]:
    saved = program.saving(pool)
    return TIME_LEAST <= saved <= TIME_MOST, saved


def _identity(program: Program, pool: str) -> tuple[bool, float]:
    bound = program.reduction(pool) * program.fault_share
    saved = program.saving(pool)
    return saved <= bound * (1 + 1e-9), bound - saved


def _pool_first(programs: Sequence[Program]) -> list[Reading]:
    return [
        Reading(
            _choices(program, pool, share, is_notified),
            replay.counts["pages_pooled_at_kill"] == 0,
            float(replay.counts["pages_pooled_at_kill"]),
        )
        for program in programs
        for (pool, share, is_notified), replay in program.budgets.items()
        if pool in POOLS
    ]


def _kills(programs: Sequence[Program]) -> list[Reading]:
    return [
        Reading(
            _choices(program, pool, share, is_notified),
            replay.counts["kills"] <= baseline,
            float(replay.counts["kills"] - baseline),
        )
        for program in programs
        for (pool, share, is_notified), replay in program.budgets.items()
        if pool in POOLS
        for baseline in [program.budgets[BASELINE, share, False].counts["kills"]]
    ]


def _choices(program: Program, pool: str, share: float, is_notified: bool) -> Choices:
    """The choices of a reading. A pool in the kernel needs no notice of memory pressure."""
    heard = "heard in time" if is_notified else "not heard" if pool == OURS else "the kernel's own"
    return (
        ("program", program.name),
        ("pool", pool),
        ("memory", f"{share:g}x"),
        ("pressure", heard),
    )


def _idle(program: Program, pool: str) -> tuple[bool, float]:
    base = program.baseline.outcome
    more = program.replays[pool].outcome["pages_resident_idle"] - base["pages_resident_idle"]
    share = more / base["pages_resident_max"]
    return share <= MORE_MOST, share


def _peak(program: Program, pool: str) -> tuple[bool, float]:
    ratio = (
        program.replays[pool].outcome["pages_resident_max"]
        / program.baseline.outcome["pages_resident_max"]
    )
    return ratio <= 1 + MORE_MOST, ratio
