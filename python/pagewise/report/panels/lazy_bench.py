"""Measurements of lazy unmapping and other allocators: page faults, resident memory, a swipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs
from pagewise.report.model import Axis, Chart, Column, Panel, Series, Table, TableCell, View

if TYPE_CHECKING:
    from pagewise.comparisons import BenchLazy, BenchRow, Interval

MEMORY = {"peak_bytes": "peak", "freed_bytes": "after the work", "idle_bytes": "idle"}
ROW_COLUMNS = (
    Column("program", "program"),
    Column("allocator", "allocator"),
    Column("traps", "traps", "count"),
    Column("cpu_s", "CPU time", "seconds"),
    Column("response_s", "response", "seconds"),
    Column("fault_share", "time in faults", "share"),
    Column("call_share", "in calls about mappings", "share"),
    *(Column(name, f"memory, {label}", "bytes") for name, label in MEMORY.items()),
)
CLAIM_COLUMNS = (
    Column("what", "what"),
    Column("target", "to reach"),
    Column("measured", "measured"),
    Column("verdict", "verdict"),
)
PRESSURE_COLUMNS = (
    Column("allocator", "allocator"),
    Column("survived", "survived", "count"),
    Column("runs", "runs", "count"),
    Column("burst_s", "time of the burst", "seconds"),
)
VERDICTS = {True: "holds", False: "does not hold", None: ""}


def panel(inputs: Inputs) -> Panel | None:
    """Charts and tables of the last comparison given; None without one."""
    if not inputs.lazy_benches:
        return None
    bench = inputs.lazy_benches[-1]
    programs = list(dict.fromkeys(row["program"] for row in bench["rows"]))
    charts = [
        Chart(
            "lazy-bench-traps",
            "Page-fault traps",
            Axis("", "text", "category"),
            Axis("traps", low=0),
            [View(program, trap_bars(rows_of(bench, program))) for program in programs],
            "bar",
            is_stacked=True,
        ),
        Chart(
            "lazy-bench-memory",
            "Resident memory",
            Axis("", "text", "category"),
            Axis("resident", "bytes", low=0),
            [View(program, memory_bars(rows_of(bench, program))) for program in programs],
            "bar",
        ),
        Chart(
            "lazy-bench-timeline",
            "One swipe, frame by frame: traps since the input event",
            Axis("time", "seconds", low=0),
            Axis("traps", low=0),
            [View("", [Series(line["allocator"], line["frames"]) for line in bench["timelines"]])],
        ),
    ]
    tables = [
        Table("lazy-bench-claims", "Goals", CLAIM_COLUMNS, claims(bench), True),
        Table("lazy-bench", "Every program and allocator", ROW_COLUMNS, rows(bench)),
        Table("lazy-bench-pressure", "Who survives the burst", PRESSURE_COLUMNS, pressure(bench)),
    ]
    return Panel(
        "lazy-bench",
        "Lazy unmapping beside other allocators",
        finding(bench),
        [chart for chart in charts if any(view.series for view in chart.views)],
        tables,
        [f"{bench['place']}; load average {bench['load']['low']:g} to {bench['load']['high']:g}."],
    )


def rows_of(bench: BenchLazy, program: str) -> list[BenchRow]:
    """The rows of a program, without runs that failed."""
    return [row for row in bench["rows"] if row["program"] == program and row["failure"] is None]


def typical(figure: Interval | None) -> float | None:
    """The median of a figure; None if it was not measured."""
    return None if figure is None else figure["typical"]


def measured(row: BenchRow) -> dict[str, float | None]:
    """The medians of a row, by the columns of the table."""
    return {
        "traps": typical(row.get("traps")),
        "cpu_s": typical(row.get("cpu_s")),
        "response_s": typical(row.get("response_s")),
        "fault_share": typical(row.get("fault_share")),
        "call_share": typical(row.get("call_share")),
        "peak_bytes": typical(row.get("peak_bytes")),
        "freed_bytes": typical(row.get("freed_bytes")),
        "idle_bytes": typical(row.get("idle_bytes")),
    }


def trap_bars(rows: Sequence[BenchRow]) -> list[Series]:
    """A bar for each allocator, in one colour for the others and another for ours."""
    kinds = (("others", False), ("pagewise", True))
    return [
        Series(
            name,
            [
                (row["allocator"], measured(row)["traps"] if row["is_ours"] is is_ours else None)
                for row in rows
            ],
        )
        for name, is_ours in kinds
    ]


def memory_bars(rows: Sequence[BenchRow]) -> list[Series]:
    """Bars side by side: at the peak, after the work, idle; only those that a run measured."""
    return [
        Series(label, [(row["allocator"], measured(row)[name]) for row in rows])
        for name, label in MEMORY.items()
        if any(measured(row)[name] is not None for row in rows)
    ]


def rows(bench: BenchLazy) -> list[Sequence[TableCell]]:
    """Medians; a cell is empty if it was not measured."""
    figures = [column.name for column in ROW_COLUMNS[2:]]
    return [
        (row["program"], row["allocator"], *(measured(row)[name] for name in figures))
        for row in bench["rows"]
    ]


def claims(bench: BenchLazy) -> list[Sequence[TableCell]]:
    """The claims with verdicts, without Markdown's marks for bold text."""
    return [
        (
            claim["what"],
            claim["target"],
            claim["measured"].replace("**", ""),
            VERDICTS[claim["is_reached"]],
        )
        for claim in bench["claims"]
    ]


def pressure(bench: BenchLazy) -> list[Sequence[TableCell]]:
    """How many runs survived the burst, and how long it took them."""
    return [
        (row["allocator"], row["survived"], row["runs"], typical(row.get("burst_s")))
        for row in bench["pressure"]
    ]


def finding(bench: BenchLazy) -> str:
    """How many claims hold."""
    measured = [claim["is_reached"] for claim in bench["claims"] if claim["is_reached"] is not None]
    return f"{sum(measured)} of {len(measured)} statements that were measured hold."
