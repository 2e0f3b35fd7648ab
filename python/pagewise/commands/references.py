"""Words for reference traces, shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.commands.recordings import lost
from pagewise.references import CAPTURE
from pagewise.units import format_count, format_size

if TYPE_CHECKING:
    from pagewise.measurements import CaptureResult
    from pagewise.types import (
        ImportReferences,
        Origin,
        References,
        ReferencesEnding,
        StartedProcesses,
    )


def import_summary(result: ImportReferences, output: str) -> list[tuple[str, str]]:
    """The rows that describe an import of references."""
    head = [("written", output), ("format", str(result["format"]))]
    threads = result.get("threads")
    several = [("threads", format_count(threads))] if threads is not None else []
    return [*head, *counts(result), *several, *lost(result["losses"])]


def info_summary(info: References) -> list[tuple[str, str]]:
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
    if ending and (processes := ending.get("processes")):
        rows += not_followed(origin, processes)
    return rows


def how_it_ended(ending: ReferencesEnding | CaptureResult | None, reason: str | None) -> str:
    """How a trace ends, which part of the run is missing, and how the program ended."""
    if reason and ending is not None and ending.get("signal"):
        return reason
    if reason:
        kept = "up to the last whole frame" if ending is None else "up to there"
        return f"{reason}; the trace is whole {kept}, and what came later is missing"
    if ending is not None and ending.get("exit_status") is not None:
        return f"the program ended with status {ending['exit_status']}"
    return "the trace is complete"


def counts(result: References | ImportReferences | CaptureResult) -> list[tuple[str, str]]:
    """The references by kind, and how many the filter let through."""
    return [
        ("references", format_count(result["references"])),
        ("  instructions", format_count(result["instructions"])),
        ("  reads", format_count(result["reads"])),
        ("  writes", format_count(result["writes"])),
        ("steps", f"{format_count(result['steps'])} that the filter let through"),
    ]


def bits_per_reference(info: References | CaptureResult) -> str:
    """Bits per reference on disk, and the size of the file."""
    if not info["references"] or not info["file_bytes"]:
        return "not known"
    bits = 8 * info["file_bytes"] / info["references"]
    return f"{bits:.2g}; the file has {format_size(info['file_bytes'])}"


def not_followed(origin: Origin, processes: StartedProcesses) -> list[tuple[str, str]]:
    """Threads, child processes and programs of the captured program, and whether they are kept."""
    threads = format_count(processes["threads"])
    kept = (
        "all are in the trace"
        if origin.get("follows_threads")
        else "only the first is in the trace"
    )
    rows = [("threads", threads if processes["threads"] == 1 else f"{threads}; {kept}")]
    for count, what in (
        (processes["children"], "child processes"),
        (processes["programs"], "programs in its place"),
    ):
        if count:
            rows.append((what, f"{format_count(count)}, not followed"))
    return rows
