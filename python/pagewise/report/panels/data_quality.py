"""What the recordings hold, lack and lost, and so how far to trust the rest of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pagewise.report.inputs import Inputs, recording_name
from pagewise.report.kinds import nouns
from pagewise.report.model import Column, Panel, Table, TableCell
from pagewise.units import format_count, format_seconds, format_share

if TYPE_CHECKING:
    from pagewise.types import Gap, Header

COLUMNS = (
    Column("recording", "recording"),
    Column("kind", "kind"),
    Column("events", "events", "count"),
    Column("pages", "pages", "count"),
    Column("processes", "processes", "count"),
    Column("zeros", "swap-outs of pages of zeros", "count"),
    Column("lost", "lost records", "count"),
    Column("idle", "idle gaps"),
    Column("absent", "not recorded"),
)
ZEROS = "pages of zeros"
"""The start of the line in which an analysis says that pages of zeros are not marked."""
LOSSES = (
    Column("recording", "recording"),
    Column("what", "what"),
    Column("count", "count", "count"),
)


IDLE = (Column("recording", "recording"), Column("idle", "idle gaps"))


def panel(inputs: Inputs) -> Panel | None:
    """A table of the recordings, and a table of what each lost.

    A further table has the idle gaps of recordings that only advice names.
    """
    advised = idle_of_advice(inputs)
    if not inputs.headers:
        if not advised:
            return None
        return Panel(
            "data-quality",
            "Data quality",
            "The advice leaves out the time in which nothing was recorded.",
            tables=[Table("idle", "Idle gaps", IDLE, advised, is_open=True)],
        )
    rows = [row(name, header, inputs) for name, header in inputs.headers.items()]
    losses = [
        (name, loss["what"], loss["count"])
        for name, header in inputs.headers.items()
        for loss in header["losses"]
    ]
    noun = nouns(inputs)
    columns = [replace(each, label=noun) if each.name == "pages" else each for each in COLUMNS]
    tables = [Table("recordings", "Recordings", columns, rows, is_open=True)]
    if losses:
        tables.append(Table("losses", "What was lost or skipped", LOSSES, losses))
    if advised:
        tables.append(Table("idle", "Idle gaps of other recordings", IDLE, advised))
    return Panel("data-quality", "Data quality", finding(inputs), tables=tables)


def row(name: str, header: Header, inputs: Inputs) -> list[TableCell]:
    """A recording as a row of the table."""
    columns = (
        ("time", header["has_clock"]),
        ("reads apart from writes", header["has_operations"]),
        ("sizes", header["has_sizes"]),
        ("fault times", header["has_durations"]),
    )
    analysis = inputs.analyses[name]
    absent = [what for what, is_recorded in columns if not is_recorded]
    if any(what.startswith(ZEROS) for what in analysis.get("not_recorded") or ()):
        absent.append(f"{ZEROS} (no device writes or reads them since Linux 6.12)")
    pages, zeros = header["pages"], analysis.get("zero_pages")
    is_read_as_swap = header["kind"] == "swap" and analysis.get("is_of_swap") is False
    kind = "block, read as swap" if is_read_as_swap else header["kind"]
    return [
        name,
        f"{kind} ({header['format']})",
        header["events"],
        pages if pages is not None else analysis["pages"],
        len(header["processes"]),
        zeros["outs"] if zeros else None,
        lost(header),
        idle(analysis.get("gaps") or [], analysis.get("recordings") or 1),
        ", ".join(absent) or "nothing",
    ]


def idle_of_advice(inputs: Inputs) -> list[tuple[TableCell, ...]]:
    """The idle gaps of recordings that only advice names, without recordings that have none."""
    found = {
        recording_name(advice["trace"]): advice["evidence"].get("gaps") or []
        for advice in inputs.advice
        if advice.get("evidence")
    }
    return [
        (name, idle(gaps)) for name, gaps in found.items() if gaps and name not in inputs.headers
    ]


def idle(gaps: Sequence[Gap], count: int = 1) -> str:
    """The number and length of idle gaps, and how many recordings the recording joins."""
    if not gaps:
        return "none"
    seconds = sum(gap["to_s"] - gap["from_s"] for gap in gaps)
    text = f"{format_count(len(gaps))}, {format_seconds(seconds)}"
    return text if count < 2 else f"{text}; {format_count(count)} recordings"


def lost(header: Header) -> int:
    """How many records were lost or unreadable."""
    return sum(loss["count"] for loss in header["losses"])


def finding(inputs: Inputs) -> str:
    """How much of all records is used."""
    events = sum(header["events"] for header in inputs.headers.values())
    missing = sum(lost(header) for header in inputs.headers.values())
    if missing == 0:
        return f"Nothing was lost: all {format_count(events)} recorded events are used."
    share = format_share(missing / (events + missing))
    return (
        f"{format_count(missing)} records, {share} of all, were lost or could not be read; "
        f"{format_count(events)} events are used."
    )
