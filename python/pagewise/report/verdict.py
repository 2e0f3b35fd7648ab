"""The box at the top: three findings with their ranges and evidence, and settings to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pagewise import answers, catalog
from pagewise.advice import stock_linux
from pagewise.advice.evidence import NOT_SWAP, OF_BLOCKS, OF_FILES, RECORD_SWAP_OF_A_PHONE
from pagewise.advice.setting import Setting
from pagewise.grids.results import SimulatedCell
from pagewise.report.cells import by_setup, label
from pagewise.report.fleet_findings import of_fleets
from pagewise.report.inputs import (
    CountedMisses,
    Inputs,
    is_of_blocks,
    is_of_swap,
    recording_name,
    taken,
)
from pagewise.report.kinds import is_of_caches, kind_of
from pagewise.report.model import Conclusion, Finding
from pagewise.report.panels import kill_replay
from pagewise.report.panels.advice import surpassing
from pagewise.report.panels.reuse import halving, lru_points
from pagewise.report.system_findings import of_system_traces
from pagewise.units import (
    PAGE_BYTES,
    format_number,
    format_range,
    format_share,
    format_size,
    format_years,
)

if TYPE_CHECKING:
    from pagewise.answers import Advice, Today

OFFLINE = ("opt",)
OF_REQUESTS = ("data-quality", "architectures", "advice", "skew")
"""Panels with evidence that a trace has block requests, the best first."""
NAMES_MAX = 3
LRU = "lru"
AS_LOW = 0.1
"""A size whose I/O time exceeds the lowest by at most this share counts as equally good."""


FINDINGS_MAX = 3
FEW = 0.01
"""A share below this is not worth a finding."""


def verdict(inputs: Inputs, shown: set[str]) -> Conclusion:
    """The findings of all results; ``shown`` are the panels that can serve as evidence.

    An advice comes first, then that block requests cannot size swap, skew, single accesses and the
    simulated cells. If one is missing, the memory that halves the misses, the policy with the
    fewest misses, or the papers' statements replace it. For caches, the policy comes first. The
    findings of replayed kills, of folders and of system traces come last.
    """
    makers = (requested, skewed, single, choice, sized, compared, halved, fewest_misses, held)
    if advice_on_swap(inputs):
        makers = (choice, sized, requested, skewed, single, compared, halved, fewest_misses, held)
    if is_of_caches(inputs):
        makers = (requested, fewest_misses, skewed, single, halved, choice, sized, compared, held)
    known = (finding for make in makers if (finding := make(inputs, shown)))
    last = (*kill_replay.verdicts(inputs), *of_fleets(inputs), *of_system_traces(inputs))
    findings = [finding for finding in (*known, *last) if finding.evidence in shown]
    return Conclusion(findings[:FINDINGS_MAX], list(all_settings(inputs)), missing(inputs))


def all_settings(inputs: Inputs) -> Iterator[Setting]:
    """The settings of each advice, which name its recording if there are several."""
    programs = [recording_name(answer["trace"]) for answer in inputs.page_sizes]
    is_named = len({*inputs.recordings(), *programs}) > 1
    for advice in inputs.advice:
        place = recording_name(advice["trace"]) if is_named else ""
        yield from pasted(advice["settings"], place, advice, advice.get("today"))
    for answer, program in zip(inputs.page_sizes, programs, strict=True):
        yield from pasted(answer["advice"]["settings"], program if is_named else "")


def missing(inputs: Inputs) -> str:
    """What would add findings to a report without any."""
    if not inputs.cells:
        return "an analysis, a sweep or an advice adds findings here"
    if any(cell["architecture"] == catalog.baseline() for cell in inputs.cells):
        return "simulate an architecture with a fast tier too, to see here what that saves"
    return (
        f"simulate {catalog.baseline()} too, which has no fast tier, to see here what a fast tier "
        "saves"
    )


def requested(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The traces that are not of swap, so they cannot size it, and what to record instead."""
    names, files = inputs.traces_of_blocks(), inputs.traces_of_files()
    panel = next((panel for panel in OF_REQUESTS if panel in shown), "")
    if not names:
        return None
    groups = {
        OF_BLOCKS: [name for name in names if name not in files],
        OF_FILES: [name for name in names if name in files],
    }
    reasons = [f"{in_words(held)}: {reason}. " for reason, held in groups.items() if held]
    text = f"{''.join(reasons)}To size swap, {RECORD_SWAP_OF_A_PHONE}."
    return Finding("no size", text, f"The evidence is {NOT_SWAP}", panel)


def in_words(names: Sequence[str]) -> str:
    """The first few names."""
    return f"{' and '.join(names[:NAMES_MAX])}{' and others' * (len(names) > NAMES_MAX)}"


def skewed(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The share of accesses that go to the busiest tenth of pages."""
    shares = {name: analysis["top_share"]["0.1"] for name, analysis in inputs.accessed().items()}
    if not shares:
        return None
    name, share = max(shares.items(), key=lambda pair: inputs.analyses[pair[0]]["accesses"])
    noun = kind_of(inputs.analyses[name]).noun
    return Finding(
        format_share(share),
        f"of accesses go to the busiest tenth of {noun} on {name}.",
        interval(shares),
        "skew",
    )


def single(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The share of pages that are used only once."""
    shares = {
        name: analysis["single_access"]["pages"] for name, analysis in inputs.accessed().items()
    }
    if not shares:
        return None
    name, share = max(shares.items(), key=lambda pair: inputs.analyses[pair[0]]["accesses"])
    if share < FEW:
        return None
    kind = kind_of(inputs.analyses[name])
    wasted = f": it is a waste {kind.waste}" if kind.waste else ""
    return Finding(
        format_share(share),
        f"of {kind.noun} are accessed exactly once on {name}{wasted}.",
        interval(shares),
        "skew",
    )


def interval(shares: dict[str, float]) -> str:
    """The range over the recordings, or a note that there is only one."""
    if len(shares) == 1:
        return "Exact count of one recording"
    low, high = format_share(min(shares.values())), format_share(max(shares.values()))
    span = low if low == high else f"{low} to {high}"
    return f"{span} over {len(shares)} recordings, exact counts"


def advice_on_swap(inputs: Inputs) -> list[Advice]:
    """The advice, except that on block requests."""
    return [each for each in inputs.advice if not is_of_blocks(each)]


def choice(inputs: Inputs, shown: set[str]) -> Finding | None:
    """What to take, from the advice or, without one, from the simulated cells."""
    if advice := advice_on_swap(inputs):
        return advised(advice[0], "advice")
    return simulated(inputs)


def advised(advice: Advice, panel: str) -> Finding:
    """The best on stock Linux with its range over the latencies, and the best of all."""
    recording = recording_name(advice["trace"])
    evidence = advice.get("evidence") or {"verdict": "enough"}
    if evidence["verdict"] != "enough":
        reason = f"{recording}: {evidence['reason']}. To get one, {evidence['remedy']}."
        return Finding("no size", reason, f"The evidence is {evidence['verdict']}", panel)
    today = taken(advice)
    if today is None:
        statement = f"No fast tier that stock Linux can use saves I/O time on {recording}."
        return Finding("no fast tier", statement, "At every simulated size", panel)
    share = today["io_share"]
    regret = today["next_cheaper"]["regret"]["typical"]
    text = (
        f"brings the I/O time of {recording} to {format_share(share['typical'])} of what "
        f"{advice['slow']['name']} takes without a fast tier; the next cheaper choice costs "
        f"{format_share(regret)} more."
    )
    return Finding(
        f"{today['architecture']}, {format_size(today['fast_tier_bytes'])}",
        text + surpassing(advice, today["architecture"]),
        f"{format_share(share['low'])} to {format_share(share['high'])} over all latencies",
        panel,
    )


def sized(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The page size of the first program, with its gain."""
    if not inputs.page_sizes:
        return None
    answer = inputs.page_sizes[0]
    advice, program = answer["advice"], recording_name(answer["trace"])
    gain = advice["gain"]
    if advice["page_bytes"] == PAGE_BYTES:
        statement = f"pages are right for {program}: no size of {advice['target']} gains enough."
        detail = f"with {format_size(answer['memory_bytes'])} and {advice['storage']}"
    else:
        statement = (
            f"pages save {program} {format_share(gain['typical'])} of the time per "
            f"reference, for {format_number(advice['footprint_factor'], 3)} times the memory."
        )
        detail = (
            f"{format_share(gain['low'])} to {format_share(gain['high'])} with 10 % more or less "
            f"memory and the range of {advice['storage']}"
        )
    return Finding(format_size(advice["page_bytes"]), statement, detail, "page-size")


def compared(inputs: Inputs, shown: set[str]) -> Finding | None:
    """How many goals of lazy unmapping its measurements reach."""
    if not inputs.lazy_benches:
        return None
    measured = [
        claim["is_reached"]
        for claim in inputs.lazy_benches[-1]["claims"]
        if claim["is_reached"] is not None
    ]
    return Finding(
        f"{sum(measured)} of {len(measured)}",
        "statements on lazy unmapping beside other allocators hold.",
        "Measured in turn; each with its 95 % interval",
        "lazy-bench",
    )


def simulated(inputs: Inputs) -> Finding | None:
    """What stock Linux can run with the least I/O time, and the best of all at that size."""
    of_swap = list(filter(is_of_swap, inputs.cells))
    found = [
        winner for setup, cells in by_setup(of_swap).items() if (winner := least(str(setup), cells))
    ]
    if not found:
        return None
    first, shares = found[0], [winner.share(winner.today) for winner in found]
    today, best = first.today, first.best
    among = "the architectures of stock Linux" if is_stock(today) else "all architectures"
    most = f"the least of {among}"
    if not first.is_lowest:
        most = f"at most {format_share(AS_LOW)} more than the best of {among}"
    text = (
        f"on {first.setup} needs {format_share(shares[0])} of the I/O time of flash-only, {most}."
    )
    if not is_stock(today):
        text += f" Stock Linux does not have it{else_run(today)}."
    elif best is not today:
        text += (
            f" At that size {label(best)} brings it to {format_share(first.share(best))}; stock "
            f"Linux does not have {label(best)}{else_run(best)}."
        )
    span = f"{format_share(min(shares))} to {format_share(max(shares))}"
    return Finding(
        f"{label(today)}, {format_size(today['fast_tier_bytes'])}",
        text,
        f"{span} for the best on {len(found)} recordings and devices"
        if len(found) > 1
        else "Exact counts at typical latencies of one recording; pagewise advise gives a range",
        "architectures",
    )


OF_KERNELS = ("victims_in_memory=drop", "slot_on_swapin=free", "on_hit=move")
"""Values of options that no block device can do (``policy::tiers``), so swapd refuses them."""


def else_run(cell: SimulatedCell) -> str:
    """How a cell of an architecture runs that stock Linux does not have, if it does."""
    chosen = label(cell).split()
    return "" if any(value in chosen for value in OF_KERNELS) else ", but swapd can run it"


def is_stock(cell: SimulatedCell) -> bool:
    """Whether stock Linux has the architecture, on a fast device or in memory."""
    return stock_linux.availability(cell["architecture"], None) is not None


@dataclass(frozen=True)
class Winner:
    """The best of stock Linux on a recording and devices, and the best of all at its size."""

    setup: str
    today: SimulatedCell
    best: SimulatedCell
    alone_s: float
    """The I/O time without a fast tier."""
    is_lowest: bool
    """Whether no larger size of those considered for ``today`` needs less I/O time."""

    def share(self, cell: SimulatedCell) -> float:
        """The I/O time of a cell, as a share of that without a fast tier."""
        return cell["io_time_s"] / self.alone_s


def least(setup: str, cells: list[SimulatedCell]) -> Winner | None:
    """The cells with the least I/O time; the best of all if stock Linux has none of the cells."""
    alone = next(
        (cell["io_time_s"] for cell in cells if cell["architecture"] == catalog.baseline()), None
    )
    contenders = [cell for cell in cells if cell["architecture"] in catalog.systems()]
    if not alone or not contenders:
        return None
    stock = [cell for cell in contenders if is_stock(cell)] or contenders
    # Of the sizes that are equally good, the smallest.
    lowest = min(cell["io_time_s"] for cell in stock)
    enough = [cell for cell in stock if cell["io_time_s"] <= lowest * (1 + AS_LOW)]
    today = min(enough, key=lambda cell: (cell["fast_tier_bytes"], cell["io_time_s"]))
    alike = [cell for cell in contenders if cell["fast_tier_bytes"] == today["fast_tier_bytes"]]
    best = min([today, *alike], key=lambda cell: cell["io_time_s"])
    return Winner(setup, today, best, alone, today["io_time_s"] <= lowest)


def halved(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The memory that halves the avoidable misses."""
    sizes = {
        name: half for name, a in inputs.accessed().items() if (half := halving(lru_points(a)))
    }
    if not sizes:
        return None
    name, size = next(iter(sizes.items()))
    kind = kind_of(inputs.analyses[name])
    alike = [half for other, half in sizes.items() if kind_of(inputs.analyses[other]) == kind]
    low, high = kind.figure(min(alike)), kind.figure(max(alike))
    return Finding(
        kind.figure(size),
        f"of memory halve the misses that memory can avoid on {name}, under LRU."
        if kind.unit == "bytes"
        else f"in a cache halve the misses that a cache can avoid on {name}, under LRU.",
        f"{low} to {high} over {len(alike)} recordings, exact counts"
        if len(alike) > 1
        else "Exact count of one recording",
        "reuse",
    )


def fewest_misses(inputs: Inputs, shown: set[str]) -> Finding | None:
    """The policy with the fewest misses at the common sizes, without policies that see ahead."""
    for result in inputs.misses:
        counted = {
            policy: counts
            for policy, counts in result["misses"].items()
            if counts and policy not in OFFLINE
        }
        shared = set.intersection(*map(set, counted.values())) if counted else set()
        ratios = {
            policy: [counts[size] / max(1, result["requests"]) for size in shared]
            for policy, counts in counted.items()
        }
        if shared:
            policy = min(ratios, key=lambda name: fmean(ratios[name]))
            low, high = min(ratios[policy]), max(ratios[policy])
            return Finding(
                policy,
                f"misses least of {len(ratios)} policies on {result['name']}: "
                f"{format_share(fmean(ratios[policy]))} of accesses on average"
                f"{beside(result, ratios, policy, shared)}.",
                f"{format_share(low)} to {format_share(high)} over the sizes, exact counts",
                "reuse",
            )
    return None


def beside(
    result: CountedMisses, ratios: dict[str, list[float]], policy: str, shared: set[str]
) -> str:
    """The miss ratios of LRU and of the offline optimum, to compare with; empty if not counted."""
    optimum = result["misses"].get(OFFLINE[0])
    parts = []
    if LRU in ratios and policy != LRU:
        parts.append(f"{LRU} {format_share(fmean(ratios[LRU]))}")
    if optimum and shared <= set(optimum):
        least = fmean(optimum[size] / max(1, result["requests"]) for size in shared)
        parts.append(f"the optimum, which knows the future, {format_share(least)}")
    return f"; {', '.join(parts)}" if parts else ""


def held(inputs: Inputs, shown: set[str]) -> Finding | None:
    """How many of the papers' statements hold."""
    rulings = [str(row["verdict"]) for study in inputs.studies for row in study["verdicts"]]
    judged = [ruling for ruling in rulings if ruling != "not measurable"]
    if not judged:
        return None
    certain, refuted = judged.count("holds"), judged.count("does not hold")
    most, unmeasured = len(judged) - refuted, len(rulings) - len(judged)
    span = f"{certain} to {most}, since some hold only with certain readings"
    return Finding(
        f"{certain} of {len(judged)}",
        "checked statements of the papers hold with every reading of what the papers leave open.",
        (span if most > certain else f"{certain} with any reading")
        + (
            f"; {unmeasured} more {'is' if unmeasured == 1 else 'are'} not measurable"
            if unmeasured
            else ""
        ),
        "papers",
    )


def pasted(
    settings: Sequence[answers.Setting],
    place: str,
    advice: Advice | None = None,
    today: Today | None = None,
) -> list[Setting]:
    """The settings of an advice, with their undo and the recording in ``place``, if any.

    The first setting sets up ``today``, so only that one gets the figures of ``today``.
    """
    titles = [f"{setting['title']}{f' (for {place})' if place else ''}" for setting in settings]
    titles[1:] = [f"Or: {title}" for title in titles[1:]]
    gains = [gained(advice, today)] if advice and today else []
    gains += [""] * len(settings)
    return [
        Setting(
            title,
            f"{setting['note'].strip()} {gain}".strip(),
            setting["apply"],
            setting["undo"],
        )
        for title, setting, gain in zip(titles, settings, gains, strict=False)
    ]


def gained(advice: Advice, today: Today) -> str:
    """The memory and the wear of ``today`` in a sentence; its note has the I/O time."""
    slow, parts, in_use = advice["slow"]["name"], [], None
    if memory := today.get("memory"):
        taken = f"takes up to {format_range(memory['taken_bytes'], format_size)} of memory"
        if of_board := memory.get("share_of_board"):
            taken += f" ({format_share(of_board['typical'])} of the board's)"
        parts.append(taken)
        in_use = memory["io_share_in_use"]
    if life := today.get("life_slow_years"):
        parts.append(f"lets {slow} last {format_range(life, format_years)}")
    if not parts:
        return ""
    sentence = f"In the replay, {today['architecture']} {' and '.join(parts)}."
    if in_use is None:
        return sentence
    share = format_range(in_use, format_share)
    return (
        f"{sentence} If all that memory was in use, I/O time becomes {share} of that without a "
        "fast tier."
    )
