"""What the report checks of every kind of result before panels read it.

Types and ranges come from the schemas of results. A result that departs from them was cut, edited
or made by something else, and is refused with the name of the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, cast

from pagewise import layouts
from pagewise.layouts import Schema
from pagewise.report.shape import (
    NUMBER,
    SCALAR,
    SHARE,
    TEXT,
    Maybe,
    Mismatch,
    Plain,
    Shape,
    departure,
)
from pagewise.report.shape_of import Reader

if TYPE_CHECKING:
    from pagewise.answers import PageSize
    from pagewise.comparisons import StudyResult, SweepCell, SweepTable
    from pagewise.types import Analysis, ProcessAnalysis


def _is_options(value: object) -> bool:
    try:
        options = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return False
    return isinstance(options, Mapping) and all(SCALAR.holds(given) for given in options.values())


OPTIONS = Maybe(Plain("options by name, or their JSON text", _is_options))

NEEDS = {
    **dict.fromkeys(("Process", "ProcessCounts", "Machine"), ""),
    "Analysis": "accesses pages top_share pages_for_80_percent? single_access skew_curve "
    "miss_ratio_curve reuse_distance",
    "ProcessAnalysis": "accesses pages top_share pages_for_80_percent? single_access name? pid",
    "Volume": "",
    "SwapTraffic": "outs ins never_returned",
    "DeviceReads": "readahead_share",
    "Header": "kind format events pages? has_clock has_operations has_sizes has_durations "
    "processes losses sources",
    "Misses": "requests pages misses",
    "Simulate": "architecture options fast_bytes fast_device slow_device fast slow io_time_s "
    "stall_time_s",
    "TierCounts": "reads writes",
    "Wear": "",
    "Device": "name",
    "Advice": "trace fast slow architecture candidates worth? reference? settings notes",
    "ChosenArchitecture": "name holds_in",
    "Candidate": "architecture sizes",
    "CandidateSize": "fast_tier_bytes slow_bytes fast_bytes_written io_time_s io_share",
    "AtSize": "fast_tier_bytes io_share next_cheaper stock_linux",
    "Today": "architecture by fast_tier_bytes io_share next_cheaper stock_linux",
    "Best": "architecture can_run fast_tier_bytes io_share",
    "TakenMemory": "taken_bytes",
    "EvidenceResult": "verdict reason remedy?",
    "AgainstReference": "what io_bytes fast_tier_bytes?",
    "Alone": "",
    "BoardMemory": "",
    "PageSize": "trace program assumed memory_bytes advice memories",
    "Assumed": "storage terms",
    "AdvicePageSize": "page_bytes ideal_bytes target storage regret footprint_factor gain settings "
    "notes",
    "ReplayKills": "recording memory freezes policies",
    "MemoryPoint": "time_s available_bytes",
    "Freeze": "",
    "PolicyReplay": "policy decisions reasons false_alarms missed_freezes",
    "Victim": "process name adj resident_bytes swapped_bytes",
    "RecordedKill": "time_s process is_of_kernel",
    "TraceLaunches": "trace duration_s launches",
    "TraceLaunch": "process class? start_s duration_s parts kills?",
    "TraceLaunchParts": "kill_wait_s? direct_reclaim_s? kswapd_s? refault_s? swapin_s? cpu_s? "
    "rest_s",
    "ThreadTimes": "",
    "FileReads": "",
    "TraceKills": "trace duration_s kills",
    "TraceKill": "time_s process pid adj? reason? killer free_bytes? came_back_after_s? "
    "came_back_soon? needless late wrong_victim",
    "Judged": "answer? why",
    "TracePressure": "trace duration_s intervals",
    "PressureInterval": "kind start_s end_s busy_s bytes processes",
    "PressureCause": "process pid time_s bytes",
    "Kills": "kernel lost kills",
    "Kill": "pid comm threads? rss_bytes? signal_us? threads_us? reclaim_us? unmap_us? "
    "pagetables_us? total_us? reaper_us? trigger killer? rss_curve",
    "Killer": "pid comm?",
    "Fleet": "command traces figures unreadable",
    "SweepCell": "",
    "StudyResult": "study figures verdicts",
    "StudyFigure": "name title x_label y_label is_categorical columns rows",
    "StudyVerdict": "check part data statement paper ours verdict readings holding why",
    "StudyTable": "name title note columns rows",
    "BenchLazy": "place load rows pressure timelines claims",
    "BenchRow": "program allocator is_ours failure?",
    "BenchPressure": "allocator runs survived",
    "BenchFork": "",
    "BenchClaim": "what target measured is_reached?",
}
"""The fields without which nothing can be drawn, by the type that has them; ? may be null. Others
may be absent: results of an earlier pagewise lack some."""

LET_THROUGH = ("recorder", "further_recorders", "files")
"""Fields of a header that no panel reads."""

NEEDED_OF_CELLS = {
    "architecture": "trace architecture fast_tier_bytes fast slow slow_reads slow_writes "
    "fast_reads fast_writes io_time_s",
    "policy": "trace policy frames requests pages misses",
}
"""The figures without which nothing of a simulated cell can be drawn, or of one of a policy."""

LAYOUTS = {
    **{
        name: name
        for name in ("analyze", "misses", "misses-of-traces", "simulate", "advice", "page-size")
    },
    "advice-page-size": "page-size",
    "replay-kills": "replay-kills",
    "kills": "kills",
    "launches": "launches",
    "trace-kills": "trace-kills",
    "pressure": "pressure",
    "fleet": "fleet",
    "sweep": "sweep-table",
    "study": "study",
    "bench-lazy": "bench-lazy",
}
"""The schema of each kind of result."""

KINDS = tuple(LAYOUTS)
"""What the report takes, by the middle word of a result's ``schema``."""


@cache
def shape_named(kind: str) -> Shape:
    """What a result of this kind must be."""
    found = shape_of_layout(LAYOUTS[kind])
    if kind == "analyze":
        # What else a recording says, where the report has read it itself.
        reader, held = reader_of("info")
        header = reader.definitions["Header"]
        known = reader.fields("Header", header)
        kept = {name: shape for name, shape in known.items() if name not in LET_THROUGH}
        parts = reader.fields(held["title"], held)
        found |= {"header": Maybe(kept)}
        found |= {name: Maybe(parts[name]) for name in ("gaps", "recordings")}
    if kind == "sweep":
        found |= {"cells": [cell_shape()]}
    return {**found, "name": Maybe(TEXT)}


@cache
def cell_shape(what: str | None = None) -> Shape:
    """What a cell of a sweep must be: one of an architecture, of a policy, or any."""
    reader, _ = reader_of("sweep-table")
    needed = NEEDED_OF_CELLS[what].split() if what else ()
    cell = reader.fields("SweepCell", reader.definitions["SweepCell"])
    return {
        **{
            name: shape.shape if name in needed and isinstance(shape, Maybe) else shape
            for name, shape in cell.items()
        },
        "options": OPTIONS,
    }


def shape_of_layout(name: str) -> dict[str, Shape]:
    """The shape of what has this schema."""
    reader, schema = reader_of(name)
    return reader.fields(schema["title"], schema)


def reader_of(name: str) -> tuple[Reader, Schema]:
    """The reader of a schema, and the schema."""
    schema = layouts.schema(name)
    return Reader(schema.get("$defs", {}), NEEDS), schema


def flaw(kind: str, result: Mapping[str, object]) -> Mismatch | None:
    """The first field that departs from the shape of ``kind``; None if all fit."""
    if found := departure(result, shape_named(kind)):
        return found
    match kind:
        case "analyze":
            return _analysis(cast("Analysis", result))
        case "sweep":
            return _cells(cast("SweepTable", result)["cells"])
        case "study":
            return _tables(cast("StudyResult", result))
        case "page-size" | "advice-page-size":
            return _memories(cast("PageSize", result))
    return None


def _analysis(analysis: Analysis) -> Mismatch | None:
    """The share of the busiest tenth is known, and traffic is whole."""
    parts: list[tuple[str, Analysis | ProcessAnalysis]] = [("", analysis)]
    processes = enumerate(analysis.get("processes") or [])
    parts += [(f"processes[{n}].", process) for n, process in processes]
    for place, part in parts:
        if "0.1" not in part["top_share"]:
            return Mismatch(f"{place}top_share.0.1", SHARE.words, "nothing")
    return _traffic(analysis)


def _traffic(analysis: Analysis) -> Mismatch | None:
    """Checks that steps of time have a length, and that every series has a figure for each."""
    traffic = analysis.get("traffic")
    if not traffic:
        return None
    if not traffic["step_s"]:
        return Mismatch("traffic.step_s", "a number above 0", "0")
    lengths = [len(side) for line in traffic["series"] for side in (line["reads"], line["writes"])]
    for number, length in enumerate(lengths):
        if length == 0 or length != lengths[0]:
            expected = f"{max(1, lengths[0])} counts in reads and in writes"
            return Mismatch(f"traffic.series[{number // 2}]", expected, f"a list of {length}")
    return None


def _memories(answer: PageSize) -> Mismatch | None:
    """Checks that every curve of a memory has a figure for each of its sizes."""
    for number, memory in enumerate(answer["memories"]):
        sizes = len(memory["sizes_bytes"])
        curves = {
            "translation_ns": memory["translation_ns"],
            "data_ns": memory["data_ns"],
            "first_touch_ns": memory["first_touch_ns"],
            "paper_ns": memory["paper_ns"],
            "sampled_ns": memory["sampled_ns"],
        }
        for name, figures in curves.items():
            if figures is not None and len(figures) != sizes:
                found = str(len(figures))
                return Mismatch(f"memories[{number}].{name}", f"{sizes} figures", found)
    return None


def _cells(cells: list[SweepCell]) -> Mismatch | None:
    """Checks that cells which did not fail have their figures."""
    for index, cell in enumerate(cells):
        shape = cell_shape("policy" if cell.get("policy") is not None else "architecture")
        if not cell.get("error") and (found := departure(cell, shape, f"cells[{index}]")):
            return found
    return None


def _tables(study: StudyResult) -> Mismatch | None:
    """Checks that rows have all columns, and that rows of sensitivity have the same names."""
    for number, figure in enumerate(study["figures"]):
        field, columns = f"figures[{number}]", figure["columns"]
        for name in ("x", "series", "y"):
            if name not in columns:
                return Mismatch(f"{field}.columns", f"a column {name}", ", ".join(columns)[:40])
        x: Shape = SCALAR if figure["is_categorical"] else NUMBER
        drawn: dict[str, Shape] = {"y": Maybe(NUMBER), "x": x}
        row_shape: Shape = tuple(drawn.get(name, Maybe(SCALAR)) for name in columns)
        if found := departure(figure["rows"], [row_shape], f"{field}.rows"):
            return found
    for number, table in enumerate(study.get("tables") or []):
        row_shape = tuple([Maybe(SCALAR)] * len(table["columns"]))
        if found := departure(table["rows"], [row_shape], f"tables[{number}].rows"):
            return found
    rows = study.get("sensitivity") or []
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            return Mismatch(f"sensitivity[{index}]", "the names of the first row", "others")
    return None
