"""Accesses by time and address, for the busiest processes or devices and for captured programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pagewise.report.heat import HeatRow, address_axis, heat_series
from pagewise.report.inputs import Inputs, recording_name
from pagewise.report.model import Axis, Chart, Column, Panel, Table, View
from pagewise.units import format_share

if TYPE_CHECKING:
    from pagewise.types import AccessHeat, HeatSpace

MAPS_MAX = 4
"""Maps of all recordings together, at least one each; the table has all address spaces."""
COLUMNS = (
    Column("recording", "recording"),
    Column("space", "process, device or program"),
    Column("accesses", "accesses", "count"),
    Column("ranges", "ranges", "count"),
    Column("range_bytes", "length of a range", "bytes"),
)


def panel(inputs: Inputs) -> Panel | None:
    """Maps of the busiest address spaces of each recording; None if no result has one."""
    heats = [(name, heat) for name, heat in heats_of(inputs) if busiest(heat)]
    if not heats:
        return None
    each = max(1, MAPS_MAX // len(heats))
    charts = [
        chart(f"access-map-{number}", place, name, heat, space)
        for number, (name, heat) in enumerate(heats)
        for place, space in enumerate(busiest(heat)[:each])
    ]
    rows = [
        (name, space["name"], space["accesses"], len(space["ranges"]), space["range_bytes"])
        for name, heat in heats
        for space in busiest(heat)
    ]
    table = Table("access-map", "Address spaces with the most accesses", COLUMNS, rows)
    finding = " ".join(sentence(name, busiest(heat)[0]) for name, heat in heats)
    notes = [note for name, heat in heats for note in left_out(name, heat)]
    return Panel("access-map", "Accesses by time and address", finding, charts, [table], notes)


def heats_of(inputs: Inputs) -> Iterator[tuple[str, AccessHeat]]:
    """The maps of recordings and of captured programs, by name."""
    for name, analysis in inputs.analyses.items():
        if heat := analysis.get("heat"):
            yield name, heat
    for answer in inputs.page_sizes:
        if heat := answer.get("heat"):
            yield recording_name(answer["trace"]), heat


def busiest(heat: AccessHeat) -> list[HeatSpace]:
    """The address spaces with accesses, those with the most first."""
    return [space for space in heat["spaces"] if space["ranges"]]


def chart(group: str, place: int, name: str, heat: AccessHeat, space: HeatSpace) -> Chart:
    """The map of an address space; those of a recording share their axis of time."""
    rows = [HeatRow(row["first"], row["last"], row["accesses"]) for row in space["ranges"]]
    length = heat["bin_s"] or heat["bin_accesses"] or 1
    end = length * len(rows[0].accesses)
    if heat["bin_s"]:
        x = Axis("time", "seconds", low=0, high=end)
    else:
        x = Axis("accesses so far", "count", low=0, high=end)
    return Chart(
        f"{group}-{place}",
        f"Accesses of {space['name']} on {name}, by first address of a range",
        x,
        address_axis(rows),
        [View(name, heat_series(rows, 0, length, "accesses"))],
        "scatter",
        group=group,
        cell=(length, 1),
    )


def sentence(name: str, space: HeatSpace) -> str:
    """How unevenly the accesses of the busiest address space fall on its addresses."""
    ranges = sorted((sum(row["accesses"]) for row in space["ranges"]), reverse=True)
    share = sum(ranges[: -(-len(ranges) // 10)]) / max(1, sum(ranges))
    return (
        f"On {name}, {space['name']} has the most accesses, and a tenth of its ranges of addresses "
        f"has {format_share(share)} of them."
    )


def left_out(name: str, heat: AccessHeat) -> Iterator[str]:
    """A note on the accesses that no map has."""
    if heat["left_out"]:
        shown = sum(space["accesses"] for space in heat["spaces"])
        share = heat["left_out"] / (shown + heat["left_out"])
        yield (
            f"{name}: {format_share(share)} of the accesses are to other address spaces, or to "
            "pages of files, whose addresses have no common order."
        )
