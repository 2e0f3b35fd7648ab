"""The figures by which recordings are compared: their values, their units and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from pagewise.errors import UnreadableInput
from pagewise.types import Analysis, Events, Misses
from pagewise.units import format_count, format_figure, format_seconds, format_share

Figures: TypeAlias = Mapping[str, float]
"""Figures of one recording by name."""
Unit: TypeAlias = Literal["count", "share", "seconds"]

WORDS = {
    "events": "events",
    "accesses": "accesses",
    "requests": "requests",
    "pages": "pages",
    "processes": "processes",
    "lost": "lost records",
    "duration_s": "duration",
    "write_share": "writes, of accesses",
    "top_share.0.1": "accesses to busiest tenth",
    "pages_for_80_percent": "pages for 80 % of accesses",
    "single_access.pages": "pages accessed once",
    "reaccess_share": "re-accesses, of accesses",
    "swap.pages_in_swap_max": "most pages in swap",
    "swap.never_returned.pages": "pages that never came back",
    "sample.pages": "pages in the sample",
    "sample.error": "error of miss ratios, +/-",
}
"""What tables call a figure. docs/analyses.md#many-recordings explains each."""
RATIOS = {"miss_ratio": "misses", "hit_ratio": "hits"}
"""Names of ratios of a policy with a number of frames, and what they are shares of."""
OFFLINE = ("opt",)
"""Policies that know the future."""
SHARES = (
    *("write_share", "top_share.", "pages_for_80_percent", "single_access.", "reaccess_share"),
    *("swap.never_returned.", "sample.error", *(f"{name}." for name in RATIOS)),
)
"""How the names of figures begin that are shares."""
SAMPLE_ERROR_MAX = 0.05
"""Miss ratios of a sample that may be farther off are rarely of use."""


def unit_of(name: str) -> Unit:
    """The unit of a figure."""
    if name.endswith("_s"):
        return "seconds"
    return "share" if name.startswith(SHARES) else "count"


def in_words(name: str) -> str:
    """What tables call a figure; its name if there are no words for it."""
    if ratio := ratio_of(name):
        policy, frames = ratio
        return f"{RATIOS[name.partition('.')[0]]} of {policy}, {frames} frames"
    return WORDS.get(name, name)


def ratio_of(name: str) -> tuple[str, str] | None:
    """The policy and the frames of a ratio of misses or hits; None for another figure."""
    kind, _, rest = name.partition(".")
    policy, _, frames = rest.rpartition(".")
    return (policy, frames) if kind in RATIOS and frames.isdecimal() else None


def best_policies(recordings: Sequence[Figures]) -> dict[str, dict[str, int]]:
    """In how many recordings each policy misses least, by frames and policy.

    Policies that miss equally often count each. Policies that know the future are left out.
    """
    counts: dict[str, dict[str, int]] = {}
    for figures in recordings:
        missed: dict[str, dict[str, float]] = {}
        for name, value in figures.items():
            if (ratio := ratio_of(name)) and ratio[0] not in OFFLINE:
                sign = -1 if name.startswith("hit_") else 1
                missed.setdefault(ratio[1], {})[ratio[0]] = sign * value
        for frames, ratios in missed.items():
            for policy, value in ratios.items():
                row = counts.setdefault(frames, {})
                row[policy] = row.get(policy, 0) + (value == min(ratios.values()))
    return counts


def written(name: str, value: float) -> str:
    """A figure in its unit."""
    match unit_of(name):
        case "seconds":
            return format_seconds(value)
        case "share":
            return format_share(value)
        case _:
            return format_figure(value) if value < 100 else format_count(round(value))


def figures_of_analysis(result: Analysis) -> dict[str, float]:
    """The figures of an analysis. Raises UnreadableInput without accesses."""
    if not result["accesses"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    figures: dict[str, float] = {
        "accesses": result["accesses"],
        "pages": result["pages"],
        "write_share": result["writes"] / result["accesses"],
        "top_share.0.1": result["top_share"]["0.1"],
        "pages_for_80_percent": result["pages_for_80_percent"],
        "single_access.pages": result["single_access"]["pages"],
        "reaccess_share": result["reaccess_share"],
    }
    if swap := result.get("swap"):
        figures["swap.pages_in_swap_max"] = swap["pages_in_swap_max"]
        figures["swap.never_returned.pages"] = swap["never_returned"]["pages"]
    if sample := result.get("sample"):
        widths = (width for _, width in sample["error"]["miss_ratio_curve"])
        figures |= of_sample(result["trace"], sample["pages"], widths)
    return figures


def figures_of_misses(result: Misses, *, is_hits: bool = False) -> dict[str, float]:
    """Requests and pages, and the ratio of misses or hits of each policy with each number of
    frames. Raises UnreadableInput without accesses."""
    if not result["requests"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    figures: dict[str, float] = {"requests": result["requests"], "pages": result["pages"]}
    for policy, counts in result["misses"].items():
        for frames, count in counts.items():
            missed = count / result["requests"]
            name = "hit_ratio" if is_hits else "miss_ratio"
            figures[f"{name}.{policy}.{frames}"] = 1 - missed if is_hits else missed
    if sample := result.get("sample"):
        widths = (width for each in sample["error"].values() for width in each.values())
        figures |= of_sample(result["trace"], sample["pages"], widths)
    return figures


def of_sample(trace: str, pages: int, widths: Iterator[float]) -> dict[str, float]:
    """The size of a sample, and half of the widest confidence interval of its miss ratios.

    Raises UnreadableInput for an empty sample, which estimates nothing.
    """
    if not pages:
        raise UnreadableInput("has no page in the sample", path=trace)
    return {"sample.pages": pages, "sample.error": max(widths, default=0.0)}


def figures_of_info(result: Events) -> dict[str, float]:
    """How much a recording holds and lost."""
    header = result["header"]
    figures: dict[str, float] = {
        "events": header["events"],
        "accesses": result["accesses"],
        "processes": len(header["processes"]),
        "lost": result["lost"],
    }
    if header["pages"] is not None:
        figures["pages"] = header["pages"]
    if result["duration_s"] is not None:
        figures["duration_s"] = result["duration_s"]
    return figures
