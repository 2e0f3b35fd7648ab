"""The figures by which recordings are compared: their values, their units and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagewise.errors import UnreadableInput
from pagewise.units import (
    format_count,
    format_figure,
    format_seconds,
    format_share,
    format_size,
)

if TYPE_CHECKING:
    from pagewise.types import Analysis, Events, Loss, Misses, Simulate

Figures: TypeAlias = Mapping[str, float]
"""Figures of one recording by name."""
Unit: TypeAlias = Literal["count", "bytes", "share", "seconds"]

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
    "sample.io_time_error": "error of the I/O time, +/-",
    "fast.reads": "pages read from the fast tier",
    "fast.writes": "pages written to the fast tier",
    "slow.reads": "pages read from the slow tier",
    "slow.writes": "pages written to the slow tier",
    "slow.life_days": "days of life of the slow device",
    "slow_writes_share": "pages written to slow, of flash-only",
    "io_time_s": "I/O time",
    "io_time_share": "I/O time, of flash-only",
    "stall_time_s": "stall time",
    "queue_time_s": "queue time",
    "launches": "finished launches",
    "launch.median_s": "median launch",
    "launch.max_s": "slowest launch",
    "cold.launches": "cold launches",
    "cold.median_s": "median cold launch",
    "launch.kill_wait_share": "waits for kills, of launches",
    "launch.direct_reclaim_share": "direct reclaim, of launches",
    "launch.kswapd_share": "kswapd, of launches",
    "launch.refault_share": "waits for I/O, of launches",
    "launch.swapin_share": "swap-ins, of launches",
    "launch.cpu_share": "processor time, of launches",
    "launch.read_bytes": "read for the median launch",
    "kills": "kills",
    "kills.per_hour": "kills per hour",
    "kills.came_back_share": "came back within 60 s, of kills",
    "kills.needless_share": "needless, of judged kills",
    "kills.late_share": "late, of judged kills",
    "kills.wrong_victim_share": "wrong victim, of judged kills",
    "direct_reclaim_s": "direct reclaim",
    "kswapd_s": "kswapd",
    "refault_bytes": "read again",
    "refault_wait_s": "waits for pages read again",
    "thrashing_s": "thrashing",
    "swapped_in_bytes": "swapped in",
    "swapped_out_bytes": "swapped out",
    "least_free_bytes": "least free memory",
    "least_available_bytes": "least available memory",
    "largest_process_bytes": "largest process",
}
"""What tables call a figure. docs/analyses.md#many-recordings explains each."""
RATIOS = {"miss_ratio": "misses", "hit_ratio": "hits"}
"""Names of ratios of a policy with a number of frames, and what they are shares of."""
OF_CELLS = {"io_time_s": "I/O time", "slow_writes": "pages written to slow"}
"""Figures of the cells of a sweep that simulate an architecture, each followed by the cell."""
SHARE_OF_PAGES = "percent="
"""What precedes a share of the pages, in percent, in the name of a ratio."""
OFFLINE = ("opt",)
"""Policies that know the future."""
SHARES = (
    *("write_share", "top_share.", "pages_for_80_percent", "single_access.", "reaccess_share"),
    *(
        "swap.never_returned.",
        "sample.error",
        "sample.io_time_error",
        *(f"{name}." for name in RATIOS),
    ),
)
"""How the names of figures begin that are shares."""
SAMPLE_ERROR_MAX = 0.05
"""Miss ratios of a sample that may be farther off are rarely of use."""
OF_SAMPLES = "sample."
"""How the names of figures begin that are about the sample and not about the recording."""
ERRORS = {"sample.error": "miss ratios", "sample.io_time_error": "I/O times"}
"""Figures that say how far estimates may be off, and of what."""
LOST = "beside.lost"
"""The name under which lost records come with the figures of a recording, without being one."""


def unit_of(name: str) -> Unit:
    """The unit of a figure."""
    if name.endswith("_s") or name.startswith("io_time_s."):
        return "seconds"
    if name.endswith("_bytes"):
        return "bytes"
    return "share" if name.startswith(SHARES) or name.endswith("_share") else "count"


def in_words(name: str) -> str:
    """What tables call a figure; its name if there are no words for it."""
    if ratio := ratio_of(name):
        policy, frames = ratio
        room = f"{frames} frames" if frames.isdecimal() else f"frames for {frames}"
        return f"{RATIOS[name.partition('.')[0]]} of {policy}, {room}"
    figure, _, cell = name.partition(".")
    if cell and figure in OF_CELLS:
        return f"{OF_CELLS[figure]} of {cell}"
    return WORDS.get(name, name)


def ratio_of(name: str) -> tuple[str, str] | None:
    """The policy and the frames of a ratio of misses or hits; None for another figure.

    Instead of frames, a sweep may have a share of the pages of each trace, after `SHARE_OF_PAGES`.
    """
    kind, _, rest = name.partition(".")
    if kind not in RATIOS:
        return None
    policy, mark, percent = rest.rpartition(f".{SHARE_OF_PAGES}")
    if mark:
        return policy, f"{percent} % of pages"
    policy, _, frames = rest.rpartition(".")
    return (policy, frames) if frames.isdecimal() else None


def best_policies(recordings: Sequence[Figures]) -> dict[str, dict[str, int]]:
    """In how many recordings each policy misses least, by frames and policy.

    Policies that miss equally often count each. Policies that know the future are left out, and so
    are sizes of memory with a single policy.
    """
    counts: dict[str, dict[str, int]] = {}
    for figures in recordings:
        missed: dict[str, dict[str, float]] = {}
        for name, value in figures.items():
            if (ratio := ratio_of(name)) and ratio[0] not in OFFLINE:
                sign = -1 if name.startswith("hit_") else 1
                missed.setdefault(ratio[1], {})[ratio[0]] = sign * value
        for frames, ratios in missed.items():
            if len(ratios) < 2:
                continue
            for policy, value in ratios.items():
                row = counts.setdefault(frames, {})
                row[policy] = row.get(policy, 0) + (value == min(ratios.values()))
    return counts


def telling(medians: Sequence[Figures]) -> list[str]:
    """The names of figures, those first by which groups with these medians differ most.

    Shares differ by their difference, other figures by their ratio. Figures of samples tell nothing
    about groups and are left out.
    """

    def difference(name: str) -> float:
        values = [each[name] for each in medians if name in each]
        if unit_of(name) == "share":
            return max(values) - min(values)
        least = max(min(values), 1e-9)
        return 1 - least / max(max(values), least)

    names = dict.fromkeys(name for each in medians for name in each)
    shown = (name for name in names if not name.startswith(OF_SAMPLES))
    return sorted(shown, key=lambda name: -difference(name))


def written(name: str, value: float) -> str:
    """A figure in its unit."""
    match unit_of(name):
        case "seconds":
            return format_seconds(value)
        case "share":
            return format_share(value)
        case "bytes":
            return format_size(round(value))
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
        LOST: lost_of(result["losses"]),
    }
    if swap := result.get("swap"):
        figures["swap.pages_in_swap_max"] = swap["pages_in_swap_max"]
        figures["swap.never_returned.pages"] = swap["never_returned"]["pages"]
    if sample := result.get("sample"):
        widths = (width for _, width in sample["error"]["miss_ratio_curve"])
        figures |= of_sample(sample["pages"], widths)
    return figures


def figures_of_misses(result: Misses, *, is_hits: bool = False) -> dict[str, float]:
    """Requests and pages, and the ratio of misses or hits of each policy with each number of
    frames. Raises UnreadableInput without accesses."""
    if not result["requests"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    figures: dict[str, float] = {
        "requests": result["requests"],
        "pages": result["pages"],
        LOST: lost_of(result["losses"]),
    }
    for policy, counts in result["misses"].items():
        for frames, count in counts.items():
            missed = count / result["requests"]
            name = "hit_ratio" if is_hits else "miss_ratio"
            figures[f"{name}.{policy}.{frames}"] = 1 - missed if is_hits else missed
    if sample := result.get("sample"):
        widths = (width for each in sample["error"].values() for width in each.values())
        figures |= of_sample(sample["pages"], widths)
    return figures


def figures_of_simulation(
    result: Simulate, flash_only: Simulate, life_days: float | None
) -> dict[str, float]:
    """What an architecture costs, also as a share of what ``flash_only`` costs.

    ``life_days``: until the rated writes of the slow device are used up; None if unknown. Raises
    UnreadableInput without accesses.
    """
    if not flash_only["slow"]["reads"] and not flash_only["slow"]["writes"]:
        raise UnreadableInput("has no accesses", path=result["trace"])
    fast, slow = result["fast"], result["slow"]
    figures: dict[str, float] = {
        "slow.reads": slow["reads"],
        "slow.writes": slow["writes"],
        "io_time_s": result["io_time_s"],
        "stall_time_s": result["stall_time_s"],
        LOST: lost_of(result["losses"]),
    }
    if result["fast_bytes"]:
        figures |= {"fast.reads": fast["reads"], "fast.writes": fast["writes"]}
    if (queue_time_s := result.get("queue_time_s")) is not None:
        figures["queue_time_s"] = queue_time_s
    if flash_only["io_time_s"]:
        figures["io_time_share"] = result["io_time_s"] / flash_only["io_time_s"]
    if written_alone := flash_only["slow"]["writes"]:
        figures["slow_writes_share"] = slow["writes"] / written_alone
    if life_days is not None:
        figures["slow.life_days"] = life_days
    if sample := result.get("sample"):
        figures["sample.pages"] = sample["pages"]
        if result["io_time_s"]:
            error_s = sample["error"]["io_time_s"]
            figures["sample.io_time_error"] = error_s / result["io_time_s"]
    return figures


def lost_of(losses: Sequence[Loss]) -> int:
    """How many records a recording or its import did not keep."""
    return sum(loss["count"] for loss in losses)


def of_sample(pages: int, widths: Iterator[float]) -> dict[str, float]:
    """The size of a sample, and half of the widest confidence interval of its miss ratios."""
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
