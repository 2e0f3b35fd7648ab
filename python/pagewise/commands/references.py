"""Words for reference traces, shared by several commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagewise.commands.recordings import lost
from pagewise.references import CAPTURE
from pagewise.units import format_count, format_size


def import_summary(result: Mapping[str, Any], output: str) -> list[tuple[str, str]]:
    """The rows that describe an import of references."""
    head = [("written", output), ("format", str(result["format"]))]
    return [*head, *counts(result), *lost(result)]


def info_summary(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of `pagewise info` for a reference trace."""
    origin, ending = info["origin"], info["ending"]
    is_captured = origin["format"] == CAPTURE
    rows = [
        ("kind", "memory references, " + ("captured" if is_captured else "imported from a file")),
        *([] if is_captured else [("source", " ".join(origin["command"]))]),
        ("architecture", origin.get("architecture") or "not recorded"),
        *counts(info),
        ("bits per reference", bits_per_reference(info)),
        ("ending", how_it_ended(ending, info["cut"])),
    ]
    if ending and ending.get("processes"):
        rows += not_followed(origin, ending["processes"])
    return rows


def how_it_ended(ending: Mapping[str, Any] | None, reason: str | None) -> str:
    """How a trace ends, which part of the run is missing, and how the program ended."""
    if reason and ending is not None and ending.get("signal"):
        return reason
    if reason:
        kept = "up to the last whole frame" if ending is None else "up to there"
        return f"{reason}; the trace is whole {kept}, and what came later is missing"
    if ending is not None and ending.get("exit_status") is not None:
        return f"the program ended with status {ending['exit_status']}"
    return "the trace is complete"


def counts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The references by kind, and how many the filter let through."""
    return [
        ("references", format_count(result["references"])),
        ("  instructions", format_count(result["instructions"])),
        ("  reads", format_count(result["reads"])),
        ("  writes", format_count(result["writes"])),
        ("steps", f"{format_count(result['steps'])} that the filter let through"),
    ]


def bits_per_reference(info: Mapping[str, Any]) -> str:
    """Bits per reference on disk, and the size of the file."""
    if not info["references"] or not info["file_bytes"]:
        return "not known"
    bits = 8 * info["file_bytes"] / info["references"]
    return f"{bits:.2g}; the file has {format_size(info['file_bytes'])}"


def not_followed(origin: Mapping[str, Any], processes: Mapping[str, int]) -> list[tuple[str, str]]:
    """Threads, child processes and programs of the captured program, and whether they are kept."""
    threads = format_count(processes["threads"])
    kept = "all are in the trace" if origin["follows_threads"] else "only the first is in the trace"
    rows = [("threads", threads if processes["threads"] == 1 else f"{threads}; {kept}")]
    for name, what in (("children", "child processes"), ("programs", "programs in its place")):
        if processes[name]:
            rows.append((what, f"{format_count(processes[name])}, not followed"))
    return rows
