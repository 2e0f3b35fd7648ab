"""Findings of many recordings for the box at the top: how many are unlike the others."""

from __future__ import annotations

from collections.abc import Iterator

from pagewise.fleet import Fleet, outlying, why_none_unlike
from pagewise.report.inputs import Inputs
from pagewise.report.model import Finding
from pagewise.units import format_count, format_counted

PANEL = "fleet"
"""The panel with the evidence."""


def of_fleets(inputs: Inputs) -> Iterator[Finding]:
    """For each result of a folder the number of outliers, and the farthest; nothing for recordings
    that were not compared."""
    for fleet in inputs.fleets:
        far = outlying(fleet.get("recordings") or [])
        if not far and why_none_unlike(fleet):
            continue
        count = format_counted(fleet["traces"], "recording")
        statement = f"of {count} are unlike the others in `{fleet['command']}`"
        if far:
            statement += f", the farthest {far[0]['trace']}"
        yield Finding(
            format_count(len(far)),
            f"{statement}.",
            f"More than 3.5 standard deviations from the median{of_groups(fleet)}",
            PANEL,
        )


def of_groups(fleet: Fleet) -> str:
    """Which median that is, if there are groups."""
    groups = fleet.get("groups")
    return " of their group" if groups and groups["found"] else ""
