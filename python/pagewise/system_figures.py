"""The figures by which system traces are compared: of launches, kills and pressure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from pagewise.errors import UnreadableInput
from pagewise.fleet_figures import LOST, lost_of
from pagewise.system_traces import part_of
from pagewise.units import format_count

if TYPE_CHECKING:
    from pagewise.types import (
        Judged,
        TraceKill,
        TraceKills,
        TraceLaunch,
        TraceLaunches,
        TracePressure,
    )

PARTS = ("kill_wait", "direct_reclaim", "kswapd", "refault", "swapin", "cpu")
"""Parts of launches that are figures: all but the rest of the duration."""
S_PER_HOUR = 3600


def figures_of_launches(result: TraceLaunches) -> dict[str, float]:
    """How many launches there are, how long they take, and what they wait for.

    Raises UnreadableInput if the trace has neither kernel events nor launches.
    """
    found = result["launches"]
    refuse_empty(result["trace"], result["duration_s"], len(found))
    figures: dict[str, float] = {"launches": len(found), LOST: lost_of(result["losses"])}
    if not found:
        return figures
    times_s = [launch["duration_s"] for launch in found]
    figures |= {"launch.median_s": median(times_s), "launch.max_s": max(times_s)}
    if cold_s := [launch["duration_s"] for launch in found if launch["class"] == "cold"]:
        figures |= {"cold.launches": len(cold_s), "cold.median_s": median(cold_s)}
    for name in PARTS:
        held = (part_of(launch, f"{name}_s") for launch in found)
        parts_s = [part_s for part_s in held if part_s is not None]
        if len(parts_s) == len(found) and sum(times_s) > 0:
            figures[f"launch.{name}_share"] = sum(parts_s) / sum(times_s)
    read = [launch["cache_miss_bytes"] for launch in found]
    if sizes := [size_bytes for size_bytes in read if size_bytes is not None]:
        figures["launch.read_bytes"] = median(sizes)
    return figures


def cpu_times(launch: TraceLaunch) -> tuple[float | None, float | None]:
    """Seconds that all threads ran, and were ready without a CPU; None if the trace lacks it."""
    main, others = launch.get("main_thread"), launch.get("other_threads")
    if main is None or others is None:
        return None, None
    ran = (main.get("running_s"), others.get("running_s"))
    ready = (main.get("runnable_s"), others.get("runnable_s"))
    return sum_of(ran), sum_of(ready)


def sum_of(values: Sequence[float | None]) -> float | None:
    """The sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def figures_of_kills(result: TraceKills) -> dict[str, float]:
    """How many kills there are, and the shares of those that were not needed or were late.

    A trace that would not show kills has no figure of them. Raises UnreadableInput if the trace
    has neither kernel events nor kills.
    """
    found, duration_s = result["kills"], result["duration_s"]
    refuse_empty(result["trace"], duration_s, len(found))
    if not result["shows_kills"]:
        return {LOST: lost_of(result["losses"])}
    figures: dict[str, float] = {"kills": len(found), LOST: lost_of(result["losses"])}
    if duration_s:
        figures["kills.per_hour"] = len(found) * S_PER_HOUR / duration_s
    if not found:
        return figures
    known = [soon for kill in found if (soon := kill["came_back_soon"]) is not None]
    if known:
        figures["kills.came_back_share"] = sum(known) / len(known)
    for name, judged in (
        ("needless", [kill["needless"] for kill in found]),
        ("late", [kill["late"] for kill in found]),
        ("wrong_victim", [kill["wrong_victim"] for kill in found]),
    ):
        if (share := share_of(judged)) is not None:
            figures[f"kills.{name}_share"] = share
    return figures


def came_back(kills: Sequence[TraceKill]) -> str:
    """How many of these processes came back within 60 s, in words."""
    known = [soon for kill in kills if (soon := kill["came_back_soon"]) is not None]
    if len(known) == len(kills):
        return f"{format_count(sum(known))} came back within 60 s"
    known_words = f"{format_count(sum(known))} of {format_count(len(known))}"
    unknown = format_count(len(kills) - len(known))
    return f"{known_words} came back within 60 s, {unknown} unknown"


def share_of(judged: Sequence[Judged]) -> float | None:
    """Of the kills that the trace can judge, the share with a yes; None if there is none."""
    answers = [answer for each in judged if (answer := each["answer"]) is not None]
    return sum(answers) / len(answers) if answers else None


def figures_of_pressure(result: TracePressure) -> dict[str, float]:
    """How long memory was short, in sums over threads, and what was read again.

    Raises UnreadableInput if the trace has neither kernel events nor sizes of memory.
    """
    sizes = result["sizes"]
    is_known = result["least_free_bytes"] is not None
    refuse_empty(result["trace"], result["duration_s"], len(sizes) + is_known)
    figures: dict[str, float] = {
        "duration_s": result["duration_s"],
        LOST: lost_of(result["losses"]),
    }
    for name, value in (
        ("direct_reclaim_s", result["direct_reclaim_s"]),
        ("kswapd_s", result["kswapd_s"]),
        ("refault_bytes", result["refault_bytes"]),
        ("refault_wait_s", result["refault_wait_s"]),
        ("swapped_in_bytes", result["swapped_in_bytes"]),
        ("swapped_out_bytes", result["swapped_out_bytes"]),
        ("least_free_bytes", result["least_free_bytes"]),
        ("least_available_bytes", result["least_available_bytes"]),
        ("largest_process_bytes", sizes[0]["largest_bytes"] if sizes else None),
    ):
        if value is not None:
            figures[name] = value
    if result["thrashing_by"] is not None:
        figures["thrashing_s"] = sum(
            each["end_s"] - each["start_s"]
            for each in result["intervals"]
            if each["kind"] == "thrashing"
        )
    return figures


def refuse_empty(trace: str, duration_s: float, found: int) -> None:
    """Raises UnreadableInput for a trace of no length in which nothing was found."""
    if not duration_s and not found:
        raise UnreadableInput("has no events of launches, kills or memory", path=trace)
