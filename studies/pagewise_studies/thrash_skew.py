"""ACC-S0-1 on launch runs: how strongly accesses concentrate on few pages.

S0 counts all accesses to storage. If a recording has them, accesses to swap, and accesses to pages
of swap and files, are readings too. Without swap, the only reading is all storage.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from pagewise.launch_runs import LaunchRun
from pagewise_studies.thrash_causes import skew_cause
from pagewise_studies.thrash_judge import (
    Inputs,
    choices_of,
    compared,
    compared_phones,
    first_reason,
    verdict,
)
from pagewise_studies.thrash_phones import state
from pagewise_studies.thrash_storage import WAYS, Counted, SkewOfAccesses, Storage
from pagewise_studies.verdict import Reading, Verdict

RECORD = "needs the runs recorded: `pagewise-agent launch --record`"
FILES = "needs pages of files recorded: `pagewise-agent launch --record`"
BLOCK = "needs block requests recorded: `pagewise-agent launch --record`"

LIBRARIES = ("shared_library", "service")
"""The classes of pages that S0 found to be hot."""


def skew_verdicts(inputs: Inputs) -> Iterator[Verdict]:
    """The verdicts on the parts of the check."""
    yield from _order(inputs)
    yield from _with_swap(inputs)
    yield _hot_data(inputs)
    yield from _without_swap(inputs)


def _order(inputs: Inputs) -> Iterator[Verdict]:
    small, large, _ = inputs.phones.each()
    runs = [*small.on, *large.on]
    readings = [
        Reading((("accesses", counted), *compared_phones(small_run, large_run)), here > there, here)
        for small_run, large_run in itertools.product(small.on, large.on)
        for counted, here, there in _both(inputs, small_run, large_run)
    ]
    missing = first_reason(phone.missing(off=False) for phone in (small, large)) or RECORD
    yield verdict("order", readings, runs, missing, _cause(inputs, runs))
    runs = [*large.on, *large.off]
    readings = [
        Reading(compared(on, off), here > there, there)
        for on, off in large.pairs()
        for counted, here, there in _both(inputs, on, off)
        if counted == "all storage"
    ]
    yield verdict("order_off", readings, runs, large.missing() or BLOCK, _cause(inputs, runs))


def _with_swap(inputs: Inputs) -> Iterator[Verdict]:
    for name, phone, figure, low, high in (
        ("skew_small", inputs.phones.small, Storage.top_10, 0.70, 1.0),
        ("skew_large", inputs.phones.large, Storage.pages_for_80, 0.20, 0.30),
    ):
        readings = [
            Reading((("accesses", counted), *choices_of(run)), low <= share <= high, share)
            for run in phone.on
            for counted, share in _shares(inputs, run, figure)
        ]
        missing = phone.missing(off=False) or RECORD
        yield verdict(name, readings, phone.on, missing, _cause(inputs, phone.on))


def _hot_data(inputs: Inputs) -> Verdict:
    """The verdict on what S0 found the busiest pages to be."""
    phone = inputs.phones.small
    readings = [
        Reading(choices_of(run), share > 0.5, share)
        for run in phone.on
        for analysis in [inputs.storage[run.name].analyses.get("swap and files")]
        if analysis
        for share in [_libraries(analysis)]
    ]
    missing = phone.missing(off=False) or FILES
    return verdict("hot_data", readings, phone.on, missing, _cause(inputs, phone.on))


def _libraries(analysis: SkewOfAccesses) -> float:
    """The share of the busiest pages that are libraries and services by the path of their file."""
    classes = analysis["top_10_percent_classes"] or {}
    return sum(
        row["pages"] for name, row in classes.items() if name.removesuffix("_shared") in LIBRARIES
    )


def _without_swap(inputs: Inputs) -> Iterator[Verdict]:
    small, large, crowded = inputs.phones.each()

    def pages(run: LaunchRun) -> list[float]:
        share = inputs.storage[run.name].pages_for_80("all storage")
        return [] if share is None else [share]

    runs = [*small.off, *large.off, *crowded.off]
    readings = [
        Reading((*choices_of(run), ("killer", state(run))), 0.45 <= share <= 0.55, share)
        for run in runs
        for share in pages(run)
    ]
    missing = "" if runs else small.missing(on=False)
    yield verdict("skew_off", readings, runs, missing or BLOCK, _cause(inputs, runs))
    runs = [*small.off, *large.off]
    readings = [
        Reading(compared_phones(small_run, large_run), abs(apart) <= 0.05, apart)
        for small_run, large_run in itertools.product(small.off, large.off)
        for here, there in itertools.product(pages(small_run), pages(large_run))
        for apart in [here - there]
    ]
    missing = first_reason(phone.missing(on=False) for phone in (small, large)) or BLOCK
    yield verdict("skew_same", readings, runs, missing, _cause(inputs, runs))


def _cause(inputs: Inputs, runs: Iterable[LaunchRun]) -> str:
    return skew_cause(runs, inputs.storage)


def _shares(
    inputs: Inputs, run: LaunchRun, figure: Callable[[Storage, Counted], float | None]
) -> Iterator[tuple[Counted, float]]:
    """The figure by what is counted, for the accesses that were recorded."""
    for counted in WAYS:
        share = figure(inputs.storage[run.name], counted)
        if share is not None:
            yield counted, share


def _both(
    inputs: Inputs, first: LaunchRun, second: LaunchRun
) -> Iterator[tuple[Counted, float, float]]:
    """The share of the top 10 % in two runs, for the accesses that both recorded."""
    there = dict(_shares(inputs, second, Storage.top_10))
    for counted, here in _shares(inputs, first, Storage.top_10):
        if counted in there:
            yield counted, here, there[counted]
