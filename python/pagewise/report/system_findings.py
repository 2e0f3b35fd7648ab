"""Findings of system traces for the box at the top: a slow launch, kills, files read again."""

from __future__ import annotations

from collections.abc import Iterator

from pagewise.report.inputs import Inputs
from pagewise.report.model import Finding
from pagewise.system_figures import came_back
from pagewise.units import format_count, format_counted, format_seconds, format_size

PANEL = "system-trace"
"""The panel with the evidence."""


def of_system_traces(inputs: Inputs) -> Iterator[Finding]:
    """The slowest launch, the kills, and the bytes of files read again, as far as each is known."""
    launches = [each for found in inputs.launches.values() for each in found["launches"]]
    if launches:
        slowest = max(launches, key=lambda launch: launch["duration_s"])
        quickest = format_seconds(min(launch["duration_s"] for launch in launches))
        yield Finding(
            format_seconds(slowest["duration_s"]),
            f"is the slowest launch, of {slowest['process']}.",
            f"The quickest of {format_launches(len(launches))} took {quickest}",
            PANEL,
        )
    kills = [each for found in inputs.trace_kills.values() for each in found["kills"]]
    if kills:
        yield Finding(
            format_counted(len(kills), "kill"),
            f"in all; {came_back(kills)}.",
            "Each is judged in the table of kills",
            PANEL,
        )
    known = [each.get("refault_bytes") for each in inputs.pressure.values()]
    again = sum(each for each in known if each is not None)
    if again:
        yield Finding(
            format_size(again),
            "of files were read again after they had left memory.",
            "The page cache had no room for them",
            PANEL,
        )


def format_launches(count: int) -> str:
    """A number of launches: ``1 launch``, ``12 launches``."""
    return f"{format_count(count)} launch{'' if count == 1 else 'es'}"
