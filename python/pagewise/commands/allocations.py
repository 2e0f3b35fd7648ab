"""Wording for recordings of allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.commands.recordings import lost, pairs
from pagewise.units import format_count, format_seconds, format_share, format_size

if TYPE_CHECKING:
    from pagewise.types import Allocations

NANOSECONDS = 1e9


def info_summary(info: Allocations) -> list[tuple[str, str]]:
    """The rows of `pagewise info` for a recording of allocations."""
    blocks = info["allocated"] + info["mapped"]
    named = [f"{name} ({format_count(count)})" for name, count in pairs(info["processes"][:8])]
    rows = [
        ("kind", "allocations from 64 KiB on, and anonymous mappings"),
        *([] if info["command"] else [("command", "not recorded")]),
        ("duration", format_seconds(info["duration_ns"] / NANOSECONDS)),
        (
            "processes",
            f"{format_count(info['processes_all'])}; blocks: {', '.join(named) or 'none'}",
        ),
        (
            "blocks",
            f"{format_count(blocks)} with {format_size(info['bytes'])}: "
            f"{format_count(info['allocated'])} by malloc, {format_count(info['mapped'])} by mmap",
        ),
        ("  must read as zero", format_count(info["zeroed"])),
        ("  resized", format_count(info["resized"])),
        ("  in the heap", f"{format_count(info['in_heap'])}, where others may have touched before"),
        *sizes(info),
        ("pages touched", touched(info)),
        ("most held at a time", format_size(info["live_bytes_max"])),
        (
            "smaller allocations",
            f"{format_count(info['small_calls'])} with {format_size(info['small_bytes'])}",
        ),
        *used(info),
    ]
    if info["is_cut"]:
        rows.append(("cut", "the recording stops before its end; what came later is missing"))
    return rows + lost(info["losses"])


UNKNOWN = "unknown: the end of a process was not recorded, as when it is killed"


def touched(info: Allocations) -> str:
    """Pages touched, and their share of all pages of the blocks."""
    pages = info["pages_touched"]
    if pages is None:
        return "unknown for some blocks"
    share = pages / info["pages"] if info["pages"] else None
    return f"{format_count(pages)} ({format_share(share)} of the pages given)"


def used(info: Allocations) -> list[tuple[str, str]]:
    """Time and faults of all processes."""
    processor_ns, system_ns = info["processor_ns"], info["system_ns"]
    faults = info["minor_faults"]
    if processor_ns is None or system_ns is None or faults is None:
        return [("time on processors", UNKNOWN), ("minor faults", UNKNOWN)]
    seconds = (format_seconds(ns / NANOSECONDS) for ns in (processor_ns, system_ns))
    return [
        ("time on processors", "{}, {} of it in the kernel".format(*seconds)),
        ("minor faults", f"{format_count(faults)}, in all memory"),
    ]


def sizes(info: Allocations) -> list[tuple[str, str]]:
    """Blocks by size."""
    rows = []
    ends = [bucket["below_bytes"] for bucket in info["sizes"]]
    for from_bytes, bucket in zip([None, *ends], info["sizes"], strict=False):
        low = from_bytes and format_size(from_bytes)
        high = bucket["below_bytes"] and format_size(bucket["below_bytes"])
        name = f"{low} to {high}" if low and high else f"below {high}" if high else f"from {low}"
        blocks, size = format_count(bucket["blocks"]), format_size(bucket["bytes"])
        rows.append((f"  {name}", f"{blocks} with {size}"))
    return rows
