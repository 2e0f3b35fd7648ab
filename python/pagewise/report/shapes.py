"""What the report checks of every kind of result before panels read it.

Types and ranges come from the schemas of results. A result that departs from them was cut, edited
or made by something else, and is refused with the name of the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from pagewise import layouts
from pagewise.report.shape import (
    COUNT,
    FLAG,
    NUMBER,
    POSITIVE,
    SCALAR,
    SHARE,
    TEXT,
    Keyed,
    Maybe,
    Mismatch,
    Plain,
    Shape,
    departure,
)
from pagewise.report.shape_of import Reader


def _is_options(value: Any) -> bool:
    try:
        options = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return False
    return isinstance(options, Mapping) and all(SCALAR.holds(given) for given in options.values())


OrNull = partial(Maybe, is_needed=True)
OPTIONS = Plain("options by name, or their JSON text", _is_options)
CELL = {
    **dict.fromkeys(("trace", "architecture", "fast", "slow"), TEXT),
    **dict.fromkeys(("fast_tier_bytes", "slow_reads", "slow_writes"), COUNT),
    **dict.fromkeys(("fast_reads", "fast_writes"), COUNT),
    "options": Maybe(OPTIONS),
    "io_time_s": POSITIVE,
    "stall_time_s": Maybe(POSITIVE),
    "wear_fast": Maybe(POSITIVE),
    "wear_slow": Maybe(POSITIVE),
    "seed": Maybe(COUNT),
}
POLICY_CELL = {
    **dict.fromkeys(("trace", "policy"), TEXT),
    **dict.fromkeys(("frames", "requests", "pages", "misses"), COUNT),
    "options": Maybe(OPTIONS),
    "seed": Maybe(COUNT),
}
SWEEP = {"cells": [{"error": Maybe(TEXT)}]}
STUDY = {
    "study": TEXT,
    "title": Maybe(TEXT),
    "figures": [
        {
            **dict.fromkeys(("name", "title", "x_label", "y_label"), TEXT),
            "is_categorical": FLAG,
            **dict.fromkeys(("is_stacked", "is_joined", "has_log_y"), Maybe(FLAG)),
            **dict.fromkeys(("chart", "view", "group"), Maybe(TEXT)),
            "columns": [TEXT],
            "rows": [[Maybe(SCALAR)]],
        }
    ],
    "verdicts": [
        {
            **dict.fromkeys(("check", "part", "why", "verdict"), OrNull(SCALAR)),
            **dict.fromkeys(("data", "statement", "paper", "ours"), OrNull(SCALAR)),
            "needs": Maybe(Keyed(SCALAR)),
            "readings": COUNT,
            "holding": COUNT,
        }
    ],
    "tables": Maybe(
        [
            {
                **dict.fromkeys(("name", "title", "note"), TEXT),
                "columns": [TEXT],
                "shares": Maybe([TEXT]),
                "rows": [[OrNull(SCALAR)]],
            }
        ]
    ),
    "sensitivity": Maybe([Keyed(Maybe(SCALAR))]),
}
SPREAD = {"low": NUMBER, "typical": NUMBER, "high": NUMBER}
SPREAD_OR_NULL = Maybe(SPREAD)
BENCH_LAZY = {
    "place": TEXT,
    "load": {"low": NUMBER, "high": NUMBER},
    "rows": [
        {
            **dict.fromkeys(("program", "allocator"), TEXT),
            "is_ours": FLAG,
            "failure": OrNull(TEXT),
            **dict.fromkeys(
                ("traps", "cpu_s", "response_s", "fault_share", "call_share"),
                SPREAD_OR_NULL,
            ),
            **dict.fromkeys(("peak_bytes", "freed_bytes", "idle_bytes"), SPREAD_OR_NULL),
        }
    ],
    "pressure": [{"allocator": TEXT, "runs": COUNT, "survived": COUNT, "burst_s": SPREAD_OR_NULL}],
    "timelines": [{"allocator": TEXT, "frames": [(POSITIVE, COUNT)]}],
    "claims": [
        {
            **dict.fromkeys(("what", "target", "measured"), TEXT),
            "is_reached": OrNull(FLAG),
        }
    ],
}

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
    "RecordedKill": "",
    "Kills": "kernel lost kills",
    "Kill": "pid comm threads? rss_bytes? signal_us? threads_us? reclaim_us? unmap_us? "
    "pagetables_us? total_us? reaper_us? trigger killer? rss_curve",
    "Killer": "pid comm?",
}
"""The fields without which nothing can be drawn, by the type that has them; ? may be null. Others
may be absent: results of an earlier pagewise lack some."""

LET_THROUGH = ("recorder", "files")
"""Fields of a header that no panel reads."""

BY_HAND: Mapping[str, Shape] = {
    "sweep": SWEEP,
    "study": STUDY,
    "bench-lazy": BENCH_LAZY,
}
"""Results whose definition is not in Rust, nor in `pagewise.answers`."""

LAYOUTS = {
    **{
        name: name
        for name in ("analyze", "misses", "misses-of-traces", "simulate", "advice", "page-size")
    },
    "advice-page-size": "page-size",
    "replay-kills": "replay-kills",
    "kills": "kills",
}
"""The schema of each kind of result."""

KINDS = (*LAYOUTS, *BY_HAND)
"""What the report takes, by the middle word of a result's ``schema``."""


@cache
def shape_named(kind: str) -> Shape:
    """What a result of this kind must be."""
    if kind in BY_HAND:
        return BY_HAND[kind]
    found = shape_of_layout(LAYOUTS[kind])
    if kind == "analyze":
        # What else a recording says, where the report has read it itself.
        held = shape_of_layout("info")
        header = {name: one for name, one in held["header"].items() if name not in LET_THROUGH}
        found |= {"header": Maybe(header)}
        found |= {name: Maybe(held[name]) for name in ("gaps", "recordings")}
    return {**found, "name": Maybe(TEXT)}


def shape_of_layout(name: str) -> dict[str, Shape]:
    """The shape of what has this schema."""
    schema = layouts.schema(name)
    reader = Reader(schema.get("$defs", {}), NEEDS)
    shape: dict[str, Shape] = reader.fields(schema["title"], schema)
    return shape


def flaw(kind: str, result: Mapping[str, Any]) -> Mismatch | None:
    """The first field that departs from the shape of ``kind``; None if all fit."""
    found = departure(result, shape_named(kind))
    further = {"analyze": _analysis, "sweep": _sweep, "study": _tables}
    further |= dict.fromkeys(("page-size", "advice-page-size"), _memories)
    return found or (further[kind](result) if kind in further else None)


def _analysis(analysis: Mapping[str, Any]) -> Mismatch | None:
    """The share of the busiest tenth is known, and traffic is whole."""
    parts = [("", analysis)]
    parts += [(f"processes[{n}].", one) for n, one in enumerate(analysis.get("processes") or [])]
    for place, part in parts:
        if "0.1" not in part["top_share"]:
            return Mismatch(f"{place}top_share.0.1", SHARE.words, "nothing")
    return _traffic(analysis)


def _traffic(analysis: Mapping[str, Any]) -> Mismatch | None:
    """Checks that steps of time have a length, and that every series has a figure for each."""
    traffic = analysis.get("traffic") or {"step_s": 1, "series": []}
    if not traffic["step_s"]:
        return Mismatch("traffic.step_s", "a number above 0", "0")
    lengths = [len(one[side]) for one in traffic["series"] for side in ("reads", "writes")]
    for number, length in enumerate(lengths):
        if length == 0 or length != lengths[0]:
            expected = f"{max(1, lengths[0])} counts in reads and in writes"
            return Mismatch(f"traffic.series[{number // 2}]", expected, f"a list of {length}")
    return None


def _sweep(sweep: Mapping[str, Any]) -> Mismatch | None:
    return _cells(sweep["cells"])


def _memories(answer: Mapping[str, Any]) -> Mismatch | None:
    """Checks that every curve of a memory has a figure for each of its sizes."""
    for number, memory in enumerate(answer["memories"]):
        sizes = len(memory["sizes_bytes"])
        for name in ("translation_ns", "data_ns", "paper_ns", "sampled_ns"):
            if memory[name] is not None and len(memory[name]) != sizes:
                found = str(len(memory[name]))
                return Mismatch(f"memories[{number}].{name}", f"{sizes} figures", found)
    return None


def _cells(cells: list[Mapping[str, Any]]) -> Mismatch | None:
    """Checks that cells which failed have a reason and no figures."""
    for index, cell in enumerate(cells):
        shape = POLICY_CELL if cell.get("policy") is not None else CELL
        if not cell.get("error") and (found := departure(cell, shape, f"cells[{index}]")):
            return found
    return None


def _tables(study: Mapping[str, Any]) -> Mismatch | None:
    """Checks that rows have all columns, and that rows of sensitivity have the same names."""
    for number, figure in enumerate(study["figures"]):
        field, columns = f"figures[{number}]", figure["columns"]
        for name in ("x", "series", "y"):
            if name not in columns:
                return Mismatch(f"{field}.columns", f"a column {name}", ", ".join(columns)[:40])
        drawn = {"y": Maybe(NUMBER), "x": SCALAR if figure["is_categorical"] else NUMBER}
        row_shape = tuple(drawn.get(name, Maybe(SCALAR)) for name in columns)
        if found := departure(figure["rows"], [row_shape], f"{field}.rows"):
            return found
    for number, table in enumerate(study.get("tables") or []):
        row_shape = tuple(Maybe(SCALAR) for _ in table["columns"])
        if found := departure(table["rows"], [row_shape], f"tables[{number}].rows"):
            return found
    rows = study.get("sensitivity") or []
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            return Mismatch(f"sensitivity[{index}]", "the names of the first row", "others")
    return None
