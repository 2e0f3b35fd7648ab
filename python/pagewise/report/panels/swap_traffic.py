"""What leaves for swap, what returns, and how long faults wait, for recordings of swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs, ReadAnalysis
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, TableCell, View
from pagewise.report.thin import cumulative
from pagewise.units import format_share

if TYPE_CHECKING:
    from pagewise.types import SwapTraffic

NANOSECONDS = 1e9
COLUMNS = (
    Column("recording", "recording"),
    Column("outs", "swap-outs", "count"),
    Column("ins", "swap-ins", "count"),
    Column("single_out_pages", "out once, of pages", "share"),
    Column("never_returned_pages", "never back, of pages", "share"),
    Column("never_returned_outs", "never read again, of swap-outs", "share"),
    Column("readahead_share", "readahead, of device reads", "share"),
    Column("fault_time_s", "time in faults that read the device", "seconds"),
)


def panel(inputs: Inputs) -> Panel | None:
    """Distributions of fault times and of re-access intervals."""
    analyses = {
        name: (analysis, swap)
        for name, analysis in inputs.accessed().items()
        if (swap := analysis.get("swap")) and analysis.get("is_of_swap") is not False
    }
    if not analyses:
        return None
    found = {name: analysis for name, (analysis, _) in analyses.items()}
    charts = [*fault_chart(found), *interval_chart(found)]
    rows = [row(name, analysis, swap) for name, (analysis, swap) in analyses.items()]
    tables = [Table("swap-traffic", "Pages out and in", COLUMNS, rows, is_open=True)]
    return Panel(
        "swap-traffic",
        "Swap traffic",
        finding({name: swap for name, (_, swap) in analyses.items()}),
        charts,
        tables,
    )


def row(name: str, analysis: ReadAnalysis, swap: SwapTraffic) -> list[TableCell]:
    """A recording as a row of the table."""
    single = analysis.get("single_out")
    reads, faults = swap.get("device_reads"), analysis.get("fault_time")
    return [
        name,
        swap["outs"],
        swap["ins"],
        single["pages"] if single else None,
        swap["never_returned"]["pages"],
        swap["never_returned"]["outs"],
        reads["readahead_share"] if reads else None,
        faults["device"]["sum_ns"] / NANOSECONDS if faults else None,
    ]


def fault_chart(analyses: dict[str, ReadAnalysis]) -> list[Chart]:
    """Share of faults that took at most a time; None if no recording has durations."""
    series = [
        Series(f"{name}, {label}", cumulative(durations["distribution_ns"], 1 / NANOSECONDS))
        for name, analysis in analyses.items()
        if (faults := analysis.get("fault_time"))
        for label, durations in (
            ("from the device", faults["device"]),
            ("from the swap cache", faults["cached"]),
        )
        if durations["count"]
    ]
    return chart("fault-time", "Faults that took at most this long", "faults", series)


def interval_chart(analyses: dict[str, ReadAnalysis]) -> list[Chart]:
    """Share of re-accesses within a time; None if no recording has a clock."""
    series = [
        Series(name, cumulative(intervals, 1 / NANOSECONDS))
        for name, analysis in analyses.items()
        if (intervals := analysis.get("reaccess_interval_ns"))
    ]
    return chart("reaccess-interval", "Pages used again within this time", "re-accesses", series)


def chart(identifier: str, title: str, what: str, series: list[Series]) -> list[Chart]:
    """A cumulative distribution over time; None without series."""
    if not series:
        return []
    y = Axis(f"share of {what}", "share", low=0, high=1)
    view = [View("all recordings", series)]
    return [Chart(identifier, title, Axis("time", "seconds", "log"), y, view)]


def finding(traffic: dict[str, SwapTraffic]) -> str:
    """The share of pages that never returned."""
    parts = [
        f"On {name}, {format_share(swap['never_returned']['pages'])} of the pages that "
        "left never came back"
        for name, swap in list(traffic.items())[:3]
    ]
    return ". ".join(parts) + "."
