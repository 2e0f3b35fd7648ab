"""The checks ACC-S0-1 to 5 on launch runs, each under every reading of S0's open choices.

S0 leaves open how eager the killer of the phone without swap is (each run without swap is a
reading), in which part of the run I/O counts, whether a launch time is a mean or a median, and, for
the skew, which accesses count (`thrash_skew`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median

from pagewise.launch_runs import LaunchRun
from pagewise_studies.figure import spread
from pagewise_studies.live_runs import emulated_files
from pagewise_studies.thrash_causes import io_cause, launch_cause
from pagewise_studies.thrash_judge import (
    CHECKS,
    Inputs,
    choices_of,
    compared,
    first_reason,
    verdict,
)
from pagewise_studies.thrash_phones import Phone, Phones, series, state
from pagewise_studies.thrash_skew import BLOCK, skew_verdicts
from pagewise_studies.verdict import Choices, Reading, Verdict

SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "median": median}
"""How launches are summed up in a figure; S0 shows means."""
COUNTED = {"whole run": 1, "after the first round": 2, "after two rounds": 3}
"""The first round in which I/O counts; the figure is per visit."""
UNANSWERED = "no launch of the rounds that count was answered in one of the runs"
ELSEWHERE = "needs runs of all these phones on the same storage, with answered launches"


def verdicts(inputs: Inputs) -> list[Verdict]:
    """The verdict of each check, in the order of the sheet."""
    phones = inputs.phones
    found = [
        *skew_verdicts(inputs),
        *_volume(inputs),
        _first_launches(phones),
        _flat(phones),
        _later_launches("launch_small", phones.small, 2.0, 3.5, is_wider=True),
        _later_launches("launch_large", phones.large, 0.0, 1.25, is_wider=False),
        _more_with_swap(phones),
        _more_without(phones),
    ]
    order = list(CHECKS.values())
    return sorted(found, key=lambda row: order.index(row.check))


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
        runs = [*phone.on, *phone.off]
        yield verdict(name, readings, runs, phone.missing(), io_cause(phone))
    left = [
        Reading(choices, ratio * (1 - top) <= 1.6, ratio * (1 - top))
        for on, off in small.pairs()
        for top in [inputs.storage[on.name].top_10("all storage")]
        if top is not None
        for choices, ratio in _ratios(on, off)
    ]
    missing = small.missing() or BLOCK
    yield verdict("hot", left, [*small.on, *small.off], missing, io_cause(small))


def _ratios(on: LaunchRun, off: LaunchRun) -> Iterator[tuple[Choices, float]]:
    """I/O per visit with swap over I/O per visit without, by the counted part of the run."""
    for counted, first in COUNTED.items():
        above, below = on.io_bytes_per_visit(first), off.io_bytes_per_visit(first)
        if above is not None and below:
            yield (*compared(on, off), ("counted", counted)), above / below


def _first_launches(phones: Phones) -> Verdict:
    both = (phones.small, phones.large)
    readings = [
        Reading((*compared(on, off), ("summary", summary)), 0.8 <= ratio <= 1.25, ratio)
        for phone in both
        for on, off in phone.pairs()
        for summary, ratio in _launch_ratios(on.launches(1, 1), off.launches(1, 1))
    ]
    runs = [run for phone in both for run in (*phone.on, *phone.off)]
    missing = first_reason(phone.missing() for phone in both) or UNANSWERED
    return verdict("launch_first", readings, runs, missing, launch_cause(runs, 1, 1))


def _flat(phones: Phones) -> Verdict:
    runs = [run for phone in phones.each() for run in phone.off]
    readings = [
        Reading(
            (*choices_of(run), ("killer", state(run)), ("summary", summary)), span <= 1.25, span
        )
        for run in runs
        for summary, mean in SUMMARIES.items()
        for rounds in [[mean(run.launches(n, n)) for n in run.rounds() if n > 1]]
        if len(rounds) > 1
        for span in [max(rounds) / min(rounds)]
    ]
    missing = "" if runs else phones.small.missing(on=False)
    missing = missing or "needs answered launches in three rounds or more without swap"
    return verdict("launch_flat", readings, runs, missing, launch_cause(runs, 2))


def _later_launches(name: str, phone: Phone, low: float, high: float, *, is_wider: bool) -> Verdict:
    """Whether the ratio is within the bounds and, if ``is_wider``, the deviation is larger too."""
    readings = [
        Reading((*compared(on, off), ("summary", summary)), holds, ratio)
        for on, off in phone.pairs()
        for above, below in [(on.launches(2), off.launches(2))]
        for summary, ratio in _launch_ratios(above, below)
        for wider in [spread(above)[1] > spread(below)[1]]
        for holds in [low <= ratio <= high and (wider or not is_wider)]
    ]
    runs = [*phone.on, *phone.off]
    return verdict(name, readings, runs, phone.missing() or UNANSWERED, launch_cause(runs, 2))


def _more_with_swap(phones: Phones) -> Verdict:
    small, large, crowded = phones.each()
    readings = []
    for small_run, large_run, crowded_run in itertools.product(small.on, large.on, crowded.on):
        if not (small_run.launches(2) and large_run.launches(2) and crowded_run.launches(2)):
            continue
        if len({emulated_files(run) for run in (small_run, large_run, crowded_run)}) > 1:
            continue
        for summary, mean in SUMMARIES.items():
            few_small, few, many = (
                mean(run.launches(2)) for run in (small_run, large_run, crowded_run)
            )
            holds = 0.5 <= many / few_small <= 2 and many >= 2 * few
            choices = (
                ("9 at 1 GB", series(small_run)),
                ("9 at 2 GB", series(large_run)),
                ("25 at 2 GB", series(crowded_run)),
                ("summary", summary),
            )
            readings.append(Reading(choices, holds, many / few_small))
    runs = [*small.on, *large.on, *crowded.on]
    missing = first_reason(phone.missing(off=False) for phone in phones.each()) or ELSEWHERE
    return verdict("apps_on", readings, runs, missing, launch_cause(runs, 2))


def _more_without(phones: Phones) -> Verdict:
    large, crowded = phones.large, phones.crowded
    readings = []
    for few, many in itertools.product(large.off, crowded.off):
        if emulated_files(few) != emulated_files(many):
            continue
        for summary, ratio in _launch_ratios(many.launches(2), few.launches(2)):
            choices = (("9 apps", series(few)), ("25 apps", series(many)), ("summary", summary))
            readings.append(Reading(choices, 0.8 <= ratio <= 1.25, ratio))
    runs = [*large.off, *crowded.off]
    missing = first_reason(phone.missing(on=False) for phone in (large, crowded)) or ELSEWHERE
    return verdict("apps_off", readings, runs, missing, launch_cause(runs, 2))


def _launch_ratios(above: Sequence[float], below: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The ratio of two sets of launches, by summary; nothing if a set is empty."""
    if above and below:
        for summary, mean in SUMMARIES.items():
            yield summary, mean(above) / mean(below)
