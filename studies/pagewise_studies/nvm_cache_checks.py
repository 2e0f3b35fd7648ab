"""The acceptance checks of spec sheet S0, each judged under every reading of S0's open choices.

S0 leaves open how eager the killer of the swap-off phone is, in which part of the run I/O counts,
and the cache's rules for clean pages, hits and its ghost. Swap-off runs were recorded only as
totals, so their skew is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from pagewise.launch_runs import LaunchRun
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies.runs import CellCounts, Variant
from pagewise_studies.skew import Skew
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks, unmeasured
from pagewise_studies.workloads import Workload

GENERATED_PHONES = (
    ("9 apps, 1 GB", 600, 9),
    ("9 apps, 2 GB", 1500, 9),
    ("25 apps, 2 GB", 1500, 25),
)
"""S0's three phones (Fig. 3): name, memory in MiB, and number of apps."""

CHECKS = load_checks("nvm-cache")


@dataclass(frozen=True)
class Phone:
    """A phone with its recording with swap, the run of that recording, and runs without swap."""

    memory: str
    workload: Workload
    on: LaunchRun
    off: tuple[LaunchRun, ...]

    def killers(self) -> list[tuple[str, LaunchRun]]:
        """The runs without swap, each after the name of its killer."""
        return list(zip(("tight killer", "lenient killer"), self.off, strict=False))


@dataclass(frozen=True)
class Inputs:
    """The inputs of all checks."""

    cells: CellCounts
    phones: Sequence[Phone]
    generated: Mapping[str, Sequence[Workload]]
    skew: Mapping[Workload, Skew]
    sizes_mib: Sequence[int]
    cache: Sequence[Variant]
    first_eviction: Variant


def verdicts(inputs: Inputs) -> list[Verdict]:
    """The verdicts of all checks on the recordings, and of some checks on generated phones."""
    small, large = inputs.phones
    both = f"{small.workload.name}, {large.workload.name}"
    found = [
        judge(CHECKS["order"], both, _skew_order(inputs)),
        judge(CHECKS["order"], "scenarios", _skew_order_generated(inputs)),
        judge(CHECKS["skew_small"], small.workload.name, [_at_least(inputs, small.workload, 0.70)]),
        judge(
            CHECKS["skew_small"],
            "scenarios",
            _generated(inputs, 0, lambda s: s.top_share["0.1"], 0.70, 1),
        ),
        judge(CHECKS["skew_large"], large.workload.name, [_eighty(inputs, large.workload)]),
        judge(
            CHECKS["skew_large"],
            "scenarios",
            _generated(inputs, 1, lambda s: s.pages_for_80_percent, 0.20, 0.30),
        ),
        unmeasured(CHECKS["skew_off"], both),
        judge(CHECKS["ratio_small"], small.workload.name, _ratios(small, 5, 8)),
        judge(CHECKS["ratio_large"], large.workload.name, _ratios(large, 0, 1.3)),
        judge(CHECKS["hot"], small.workload.name, _without_hot(inputs, small)),
        *_launches(small, large),
        judge(CHECKS["apps"], "scenarios", _more_apps(inputs)),
        unmeasured(CHECKS["apps_launch"], "scenarios"),
    ]
    for phone in inputs.phones:
        name = phone.workload.name
        found.append(judge(CHECKS["falling"], name, _falling(inputs, [phone.workload])))
        found.append(judge(CHECKS["crossing"], name, _crossing(inputs, phone)))
        found.append(_second(inputs, name, [phone.workload]))
    every = [workload for group in inputs.generated.values() for workload in group]
    found.append(judge(CHECKS["falling"], "scenarios", _falling(inputs, every)))
    found.append(_second(inputs, "scenarios", every))
    order = list(CHECKS.values())
    return sorted(found, key=lambda verdict: order.index(verdict.check))


def storage_mib(inputs: Inputs, phone: Phone, variant: Variant, size_mib: int) -> float:
    """All storage I/O of the recorded run, less the swap I/O that the NVM absorbs."""
    trace = phone.workload.traces[0]
    without = inputs.cells.counts(trace, Variant.of("flash"), 0).slow_accesses
    with_nvm = inputs.cells.counts(trace, variant, size_mib).slow_accesses
    return (phone.on.io_bytes - (without - with_nvm) * PAGE_BYTES) / MIB


def _skew_order(inputs: Inputs) -> list[Reading]:
    small, large = (inputs.skew[phone.workload].top_share["0.1"] for phone in inputs.phones)
    return [Reading((("accesses", "swap"),), small > large, small)]


def _skew_order_generated(inputs: Inputs) -> list[Reading]:
    small, large, _ = inputs.generated.values()
    return [
        Reading(on_small.choices, share > inputs.skew[on_large].top_share["0.1"], share)
        for on_small, on_large in zip(small, large, strict=True)
        for share in [inputs.skew[on_small].top_share["0.1"]]
    ]


def _at_least(inputs: Inputs, workload: Workload, share: float) -> Reading:
    found = inputs.skew[workload].top_share["0.1"]
    return Reading((("accesses", "swap"),), found >= share, found)


def _eighty(inputs: Inputs, workload: Workload) -> Reading:
    found = inputs.skew[workload].pages_for_80_percent
    return Reading((("accesses", "swap"),), 0.20 <= found <= 0.30, found)


def _generated(
    inputs: Inputs, phone: int, figure: Callable[[Skew], float], low: float, high: float
) -> list[Reading]:
    """Readings of a figure of a generated phone, over all storage accesses, also to file pages."""
    workloads = list(inputs.generated.values())[phone]
    figures = [(workload.choices, figure(inputs.skew[workload])) for workload in workloads]
    return [Reading(choices, low <= found <= high, found) for choices, found in figures]


def _ratios(phone: Phone, low: float, high: float) -> list[Reading]:
    """Readings of I/O with swap over I/O without, by killer and counted part of the run."""
    readings = []
    for killer, off in phone.killers():
        for counted, on_io, off_io in (
            ("whole run", phone.on.io_bytes, off.io_bytes),
            ("per visit", phone.on.io_bytes_per_visit(), off.io_bytes_per_visit()),
            (
                "per visit after the first round",
                phone.on.io_bytes_per_visit(2),
                off.io_bytes_per_visit(2),
            ),
            (
                "per visit after two rounds",
                phone.on.io_bytes_per_visit(3),
                off.io_bytes_per_visit(3),
            ),
        ):
            if not on_io or not off_io:
                continue
            ratio = on_io / off_io
            choices = (("killer", killer), ("counted", counted))
            readings.append(Reading(choices, low <= ratio <= high, ratio))
    return readings


def _without_hot(inputs: Inputs, phone: Phone) -> list[Reading]:
    """Readings of the ratio that remains if the top 10 % of swapped pages cause no I/O.

    The share of the top 10 % in file I/O is not recorded, so a reading assumes either 0 or the
    share in swap I/O.
    """
    top = inputs.skew[phone.workload].top_share["0.1"]
    swap = phone.on.swap_bytes / phone.on.io_bytes
    readings = []
    for whole in _ratios(phone, 0, 0):
        for files, share in (("none", top * swap), ("the same", top)):
            left = (whole.figure or 0.0) * (1 - share)
            choices = (*whole.choices, ("share of the top 10 % in file I/O", files))
            readings.append(Reading(choices, left <= 1.6, left))
    return readings


def _launches(small: Phone, large: Phone) -> Iterator[Verdict]:
    both = f"{small.on.name}, {large.on.name}"
    first, flat = [], []
    for phone in (small, large):
        for killer, off in phone.killers():
            choices = (("phone", phone.memory), ("killer", killer))
            for summary, mean in SUMMARIES.items():
                ratio = mean(phone.on.launches(1, 1)) / mean(off.launches(1, 1))
                first.append(Reading((*choices, ("summary", summary)), 0.8 <= ratio <= 1.25, ratio))
                repeats = [mean(off.launches(number, number)) for number in off.rounds()[1:]]
                span = max(repeats) / min(repeats)
                flat.append(Reading((*choices, ("summary", summary)), span <= 1.25, span))
    yield judge(CHECKS["launch_first"], both, first)
    yield judge(CHECKS["launch_flat"], both, flat)
    for name, phone, low, high in (
        ("launch_small", small, 2.0, 3.5),
        ("launch_large", large, 0.0, 1.25),
    ):
        readings = []
        for (killer, off), (summary, mean) in itertools.product(phone.killers(), SUMMARIES.items()):
            ratio = mean(phone.on.launches(2)) / mean(off.launches(2))
            wider = stdev(phone.on.launches(2)) > stdev(off.launches(2))
            holds = low <= ratio <= high and (wider or name == "launch_large")
            readings.append(Reading((("killer", killer), ("summary", summary)), holds, ratio))
        yield judge(CHECKS[name], phone.on.name, readings)


SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "median": median}
"""How the launches of a repeat are summed up in a figure; S0 shows means."""


def _more_apps(inputs: Inputs) -> list[Reading]:
    """Readings of storage I/O per visit with 25 apps at 2 GB over that with 9 apps at 1 GB.

    The I/O with 9 apps at 2 GB must be at most half of each.
    """
    readings = []
    for small, large, crowded in zip(*inputs.generated.values(), strict=True):
        io = [_io_per_visit(inputs, workload) for workload in (small, large, crowded)]
        holds = 0.5 <= io[2] / io[0] <= 2 and io[1] <= 0.5 * min(io[0], io[2])
        readings.append(Reading(small.choices, holds, io[2] / io[0]))
    return readings


def _io_per_visit(inputs: Inputs, workload: Workload) -> float:
    trace = workload.traces[0]
    apps = int(dict(trace.scenario)["apps"])
    # Zipf schedules visit twice as often; the ratio of two phones on one schedule is unchanged.
    return inputs.cells.counts(trace, Variant.of("flash"), 0).slow_accesses / apps


def _falling(inputs: Inputs, workloads: Sequence[Workload]) -> list[Reading]:
    """Readings of the largest relative rise of I/O from a size to the next."""
    readings = []
    for workload, variant in itertools.product(workloads, inputs.cache):
        curve = [
            fmean(
                inputs.cells.counts(trace, variant, size).slow_accesses for trace in workload.traces
            )
            for size in inputs.sizes_mib
        ]
        rise = max(after / before - 1 for before, after in itertools.pairwise(curve) if before)
        choices = (("phone", workload.traces[0].name), *_cache_choices(variant))
        readings.append(Reading(choices, rise <= 0.001, rise))
    return readings


def _crossing(inputs: Inputs, phone: Phone) -> list[Reading]:
    """Readings of the I/O at 256 MiB over the I/O of swap off."""
    readings = []
    visits_on = len(phone.on.visits)
    for (killer, off), variant in itertools.product(phone.killers(), inputs.cache):
        for counted, factor in (("whole run", 1.0), ("per visit", len(off.visits) / visits_on)):
            for io, files in (
                ("all storage", 0.0),
                ("only swap", phone.on.io_bytes - phone.on.swap_bytes),
            ):
                ratio = {
                    size: (storage_mib(inputs, phone, variant, size) * MIB - files)
                    * factor
                    / off.io_bytes
                    for size in inputs.sizes_mib
                }
                above = all(value > 1 for size, value in ratio.items() if size < 128)
                below = all(value <= 1 for size, value in ratio.items() if size >= 256)
                choices = (
                    ("killer", killer),
                    ("counted", counted),
                    ("I/O of swap on", io),
                    *_cache_choices(variant),
                )
                readings.append(Reading(choices, above and below, ratio[256]))
    return readings


def _second(inputs: Inputs, data: str, workloads: Sequence[Workload]) -> Verdict:
    """The verdict on admission at the second eviction.

    Its figure is the smallest size at which first-eviction admission does no more I/O than
    second-eviction admission does at 256 MiB, over 256 MiB. If there is none, the largest size
    counts.
    """
    readings = []
    for workload in workloads:
        if inputs.skew[workload].singles["pages"] < 0.4:
            continue
        for variant in inputs.cache:
            target = _slow(inputs, workload, variant, 256)
            reached = [
                size
                for size in inputs.sizes_mib
                if _slow(inputs, workload, inputs.first_eviction, size) <= target
            ]
            size = min(reached, default=inputs.sizes_mib[-1])
            choices = (("phone", workload.traces[0].name), *_cache_choices(variant))
            readings.append(Reading(choices, size > 256, size / 256))
    if not readings:
        why = "fewer than 40 % of the pages are accessed once"
        return unmeasured(CHECKS["second"], data, why)
    return judge(CHECKS["second"], data, readings)


def _slow(inputs: Inputs, workload: Workload, variant: Variant, size_mib: int) -> float:
    return fmean(
        inputs.cells.counts(trace, variant, size_mib).slow_accesses for trace in workload.traces
    )


def _cache_choices(variant: Variant) -> Choices:
    """Every open choice of the cache, so that all readings have the same names."""
    set_by_hand = dict(variant.options)
    return tuple(
        (name, set_by_hand.get(name, default))
        for name, default in (
            ("admit_clean", "yes"),
            ("clean_evictions", "none"),
            ("ghost", "unbounded"),
            ("on_hit", "keep"),
        )
    )
