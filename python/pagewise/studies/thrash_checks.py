"""The checks ACC-S0-1 to 5 on launch runs, each under every reading of what S0 leaves unsaid.

Unsaid are how eager the killer of the phone without swap is (each run without swap is a reading),
over which part of the run I/O is counted, whether a launch time is a mean or a median, and for the
skew whether accesses to swap or to all storage count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from pagewise.studies.launch_runs import LaunchRun
from pagewise.studies.thrash_causes import io_cause, launch_cause, skew_cause
from pagewise.studies.thrash_phones import SWAP_OFF, SWAP_ON, Phones, series
from pagewise.studies.thrash_storage import MAPPINGS, Accesses, Storage
from pagewise.studies.verdict import (
    FAILS,
    NEEDS,
    Reading,
    Verdict,
    judge,
    load_checks,
    unmeasured,
)
from pagewise.studies.visits import spread

CHECKS = load_checks("thrash")
RECORD = "needs the runs recorded: `pagewise-agent launch --record`"
BLOCK = "needs all storage I/O recorded: recording.pgr in the run's folder"

SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "median": median}
"""How launches become one figure; S0 shows means."""
COUNTED = {"whole run": 1, "after the first round": 2, "after two rounds": 3}
"""From which round on I/O is counted, per visit."""


@dataclass(frozen=True)
class Inputs:
    """The runs by phone, and what their recordings say by the name of the run."""

    phones: Phones
    storage: Mapping[str, Storage]


def verdicts(inputs: Inputs) -> list[Verdict]:
    """Every check, in the order of the sheet."""
    found = [*_skew(inputs), *_volume(inputs), *_launches(inputs.phones), *_more(inputs.phones)]
    order = list(CHECKS.values())
    return sorted(found, key=lambda verdict: order.index(verdict.check))


def _verdict(
    name: str, readings: Sequence[Reading], missing: str, data: Iterable[str], cause: str = ""
) -> Verdict:
    """The verdict, with the cause as it was seen where the check does not hold everywhere."""
    on = ", ".join(dict.fromkeys(data))
    if not readings:
        return unmeasured(CHECKS[name], on, missing)
    verdict = judge(CHECKS[name], on, readings)
    if cause and verdict.verdict in (FAILS, NEEDS):
        return replace(verdict, why=f"{verdict.why}. Seen here: {cause}")
    return verdict


def _skew(inputs: Inputs) -> Iterator[Verdict]:
    small, large, crowded = inputs.phones.each()
    swap_runs, off = [*small.on, *large.on], [*small.off, *large.off, *crowded.off]

    def cause(runs: Iterable[LaunchRun]) -> str:
        return skew_cause(runs, inputs.storage)

    missing = small.missing() or large.missing() or RECORD
    order = [
        Reading((("accesses", kind), *_runs(one, two)), here > there, here)
        for one, two in itertools.product(small.on, large.on)
        for kind, here, there in _both(inputs, one, two)
    ]
    yield _verdict("order", order, missing, _names(swap_runs), cause(swap_runs))
    order_off = [
        Reading(_runs(on, without), here > there, there)
        for on, without in large.pairs()
        for kind, here, there in _both(inputs, on, without)
        if kind == "all storage"
    ]
    runs = [*large.on, *large.off]
    yield _verdict("order_off", order_off, large.missing() or BLOCK, _names(runs), cause(runs))
    strong = [
        Reading((("accesses", kind), ("swap on", series(run))), share >= 0.70, share)
        for run in small.on
        for kind, share in _figures(inputs, run, Storage.top_10)
    ]
    yield _verdict("skew_small", strong, missing, _names(small.on), cause(small.on))
    quarter = [
        Reading((("accesses", kind), ("swap on", series(run))), 0.20 <= share <= 0.30, share)
        for run in large.on
        for kind, share in _figures(inputs, run, Storage.pages_for_80)
    ]
    yield _verdict("skew_large", quarter, missing, _names(large.on), cause(large.on))
    half = [
        Reading((("swap off", series(run)),), 0.45 <= share <= 0.55, share)
        for run in off
        for share in _pages_for_80(inputs, run)
    ]
    missing_off = f"needs a run in mode {SWAP_OFF}" if not off else BLOCK
    yield _verdict("skew_off", half, missing_off, _names(off), cause(off))
    same = [
        Reading((("1 GB", series(one)), ("2 GB", series(two))), abs(here - there) <= 0.05, gap)
        for one, two in itertools.product(small.off, large.off)
        for here, there in itertools.product(_pages_for_80(inputs, one), _pages_for_80(inputs, two))
        for gap in [here - there]
    ]
    runs = [*small.off, *large.off]
    missing_off = f"needs runs in mode {SWAP_OFF} at both memory sizes, recorded whole"
    yield _verdict("skew_same", same, missing_off, _names(runs), cause(runs))


def _volume(inputs: Inputs) -> Iterator[Verdict]:
    small, large, _ = inputs.phones.each()
    for name, phone, low, high in (
        ("ratio_small", small, 5.0, 8.0),
        ("ratio_large", large, 0.0, 1.3),
    ):
        readings = [
            Reading(choices, low <= ratio <= high, ratio)
            for on, off in phone.pairs()
            for choices, ratio in _ratios(on, off)
        ]
        runs = _names([*phone.on, *phone.off])
        yield _verdict(name, readings, phone.missing(), runs, io_cause(phone))
    left = [
        Reading(choices, ratio * (1 - top) <= 1.6, ratio * (1 - top))
        for on, off in small.pairs()
        for top in [inputs.storage[on.name].top_10("all storage")]
        if top is not None
        for choices, ratio in _ratios(on, off)
    ]
    runs = _names([*small.on, *small.off])
    yield _verdict("hot", left, small.missing() or BLOCK, runs, io_cause(small))


def _launches(phones: Phones) -> Iterator[Verdict]:
    small, large, crowded = phones.each()
    first = [
        Reading((*_runs(on, off), ("summary", summary)), 0.8 <= ratio <= 1.25, ratio)
        for phone in (small, large)
        for on, off in phone.pairs()
        for summary, ratio in _launch_ratios(on.launches(1, 1), off.launches(1, 1))
    ]
    runs = [run for phone in (small, large) for run in (*phone.on, *phone.off)]
    missing = small.missing() or large.missing()
    yield _verdict("launch_first", first, missing, _names(runs), launch_cause(runs, 1, 1))
    off_runs = [run for phone in (small, large, crowded) for run in phone.off]
    flat = [
        Reading((("swap off", series(run)), ("summary", summary)), span <= 1.25, span)
        for run in off_runs
        for summary, mean in SUMMARIES.items()
        for rounds in [[mean(run.launches(n, n)) for n in run.rounds() if n > 1]]
        if len(rounds) > 1
        for span in [max(rounds) / min(rounds)]
    ]
    missing = f"needs a run in mode {SWAP_OFF} of three rounds or more"
    yield _verdict("launch_flat", flat, missing, _names(off_runs), launch_cause(off_runs, 2))
    for name, phone, low, high in (
        ("launch_small", small, 2.0, 3.5),
        ("launch_large", large, 0.0, 1.25),
    ):
        readings = [
            Reading((*_runs(on, off), ("summary", summary)), holds, ratio)
            for on, off in phone.pairs()
            for summary, ratio in _launch_ratios(on.launches(2), off.launches(2))
            for wider in [spread(on.launches(2))[1] > spread(off.launches(2))[1]]
            for holds in [low <= ratio <= high and (wider or name == "launch_large")]
        ]
        runs = [*phone.on, *phone.off]
        yield _verdict(name, readings, phone.missing(), _names(runs), launch_cause(runs, 2))


def _more(phones: Phones) -> Iterator[Verdict]:
    small, large, crowded = phones.each()
    back = [
        Reading(
            (("9 at 1 GB", series(one)), ("9 at 2 GB", series(two)), ("25", series(three)), chosen),
            0.5 <= as_small <= 2 and three_s >= 2 * two_s,
            as_small,
        )
        for one, two, three in itertools.product(small.on, large.on, crowded.on)
        for summary, mean in SUMMARIES.items()
        if one.launches(2) and two.launches(2) and three.launches(2)
        for chosen in [("summary", summary)]
        for one_s, two_s, three_s in [[mean(run.launches(2)) for run in (one, two, three)]]
        for as_small in [three_s / one_s]
    ]
    runs = [*small.on, *large.on, *crowded.on]
    lacking = next((phone for phone in phones.each() if not phone.on), small)
    missing = f"needs a run of {lacking.wanted} in mode {SWAP_ON}"
    yield _verdict("apps_on", back, missing, _names(runs), launch_cause(runs, 2))
    flat = [
        Reading(
            (("9 apps", series(few)), ("25 apps", series(many)), ("summary", summary)),
            0.8 <= ratio <= 1.25,
            ratio,
        )
        for many, few in itertools.product(crowded.off, large.off)
        for summary, ratio in _launch_ratios(many.launches(2), few.launches(2))
    ]
    runs = [*large.off, *crowded.off]
    lacking = large if not large.off else crowded
    missing = f"needs a run of {lacking.wanted} in mode {SWAP_OFF}"
    yield _verdict("apps_off", flat, missing, _names(runs), launch_cause(runs, 2))


def _names(runs: Iterable[LaunchRun]) -> list[str]:
    return [run.name for run in runs]


def _runs(on: LaunchRun, other: LaunchRun) -> tuple[tuple[str, str], ...]:
    """The two runs of a reading as its choices."""
    second = "swap off" if other.mode == SWAP_OFF else "at 2 GB"
    return (("swap on", series(on)), (second, series(other)))


def _ratios(on: LaunchRun, off: LaunchRun) -> Iterator[tuple[tuple[tuple[str, str], ...], float]]:
    """I/O per visit with swap over that without, by the part of the run that is counted."""
    for counted, first in COUNTED.items():
        above, below = on.io_bytes_per_visit(first), off.io_bytes_per_visit(first)
        if above is not None and below:
            yield (*_runs(on, off), ("counted", counted)), above / below


def _launch_ratios(above: Sequence[float], below: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The ratio of two sets of launches by how they are summed up; nothing if one is empty."""
    if above and below:
        for summary, mean in SUMMARIES.items():
            yield summary, mean(above) / mean(below)


def _figures(
    inputs: Inputs, run: LaunchRun, figure: Callable[[Storage, Accesses], float | None]
) -> Iterator[tuple[Accesses, float]]:
    for kind in MAPPINGS:
        value = figure(inputs.storage[run.name], kind)
        if value is not None:
            yield kind, value


def _both(
    inputs: Inputs, one: LaunchRun, two: LaunchRun
) -> Iterator[tuple[Accesses, float, float]]:
    """The share of the top 10 % in two runs, where both have it."""
    there = dict(_figures(inputs, two, Storage.top_10))
    for kind, here in _figures(inputs, one, Storage.top_10):
        if kind in there:
            yield kind, here, there[kind]


def _pages_for_80(inputs: Inputs, run: LaunchRun) -> list[float]:
    """Over all storage, since a run without swap has no other; empty where it was not recorded."""
    share = inputs.storage[run.name].pages_for_80("all storage")
    return [] if share is None else [share]
