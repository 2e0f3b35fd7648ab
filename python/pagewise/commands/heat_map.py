"""The accesses that DAMON found as text: a row for addresses, a column for a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from pagewise.terminal import Part, Verbatim
from pagewise.units import format_count, format_seconds

if TYPE_CHECKING:
    from pagewise.types import HeatRange, RegionHeat

ROWS_SHOWN = 16
"""How many rows a screen shows, or one for each target if there are more; --json has all."""
LEVELS = ".:-=+*#%@"
"""Characters from no access to the most; a blank is an address that no region covered then."""


def heat_map(heat: RegionHeat) -> list[Part]:
    """The map, with its scale."""
    ranges = heat["ranges"]
    most = max(
        (value for row in ranges for value in row["accesses"] if value is not None), default=0
    )
    bins = max((len(row["accesses"]) for row in ranges), default=0)
    start_s, end_s = heat["start_s"], heat["start_s"] + bins * heat["bin_s"]
    title = (
        f"Accesses in {format_count(heat['regions'])} regions of DAMON, from "
        f"{format_seconds(start_s)} to {format_seconds(end_s)}: `.` none, `@` {most:.3g} samples "
        "an interval"
    )
    targets = {row["target"] for row in ranges}
    lines: list[Part] = ["", title]
    target = None
    for rows in grouped(ranges):
        if len(targets) > 1 and rows[0]["target"] != target:
            target = rows[0]["target"]
            lines.append(f"target {target}")
        text = "".join(levels(rows, most))
        lines.append(Verbatim(f"{rows[0]['first']:>12} {text}".rstrip()))
    return lines


def grouped(ranges: Sequence[HeatRange]) -> list[list[HeatRange]]:
    """The ranges of each line. A line spans a gap in the addresses only if there are many gaps."""
    runs: list[list[HeatRange]] = []
    for row in ranges:
        last = runs[-1][-1] if runs else None
        if last and last["target"] == row["target"] and are_adjacent(last, row):
            runs[-1].append(row)
        else:
            runs.append([row])
    if len(runs) > ROWS_SHOWN:
        by_target = groupby(ranges, key=lambda row: row["target"])
        runs = [list(rows) for _, rows in by_target]
    longest = max((len(run) for run in runs), default=1)
    for size in range(1, longest + 1):
        if sum(-(-len(run) // size) for run in runs) <= ROWS_SHOWN:
            break
    return [run[place : place + size] for run in runs for place in range(0, len(run), size)]


def are_adjacent(before: HeatRange, after: HeatRange) -> bool:
    """Whether no address is between the two."""
    return int(before["last"], 16) + 1 == int(after["first"], 16)


def levels(rows: Sequence[HeatRange], most: float) -> Iterator[str]:
    """A character for each bin of time: the mean of the rows."""
    for column in zip(*(row["accesses"] for row in rows), strict=True):
        known = [value for value in column if value is not None]
        if not known:
            yield " "
            continue
        mean = sum(known) / len(known)
        # Any access shows, however rare.
        place = 0 if mean == 0 else max(1, round(mean / most * (len(LEVELS) - 1)))
        yield LEVELS[place]
