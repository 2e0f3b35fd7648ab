"""The shapes of results: the fields of each kind of result that panels rely on, and no others.

The outputs of the commands have more fields. A result that departs from its shape was cut, edited
or made by another program; the report refuses it and names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pagewise.report.shape import (
    COUNT,
    DIGITS,
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


def _is_options(value: Any) -> bool:
    try:
        options = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return False
    return isinstance(options, Mapping) and all(SCALAR.holds(given) for given in options.values())


OrNull = partial(Maybe, is_needed=True)
OPTIONS = Plain("options by name, or their JSON text", _is_options)
HISTOGRAM = [(COUNT, COUNT)]
CURVE = [(POSITIVE, SHARE)]
SPREAD = {"low": NUMBER, "typical": NUMBER, "high": NUMBER}
LOSSES = [{"what": TEXT, "count": COUNT}]

_SHARES = {
    "accesses": COUNT,
    "pages": COUNT,
    "top_share": {
        "0.1": SHARE,
        **{share: Maybe(SHARE) for share in ("0.01", "0.05", "0.25", "0.5")},
    },
    "pages_for_80_percent": OrNull(SHARE),
    "single_access": {"pages": SHARE, "accesses": SHARE},
}
_VOLUME = Maybe({"top_10_percent_bytes": COUNT, "rest_bytes": COUNT})
_FAULTS = {"count": COUNT, "sum_ns": COUNT, "distribution_ns": HISTOGRAM}

HEADER = {
    "kind": TEXT,
    "format": TEXT,
    "events": COUNT,
    "pages": OrNull(COUNT),
    **dict.fromkeys(("has_clock", "has_operations", "has_sizes", "has_durations"), FLAG),
    "processes": [{}],
    "losses": LOSSES,
    "sources": [(TEXT, TEXT)],
    "start_ns": Maybe(NUMBER),
    "shortage": Maybe(
        {
            "is_of_cgroup": FLAG,
            "stalls": [{"time_ns": NUMBER, "some_us": COUNT, "full_us": COUNT}],
            "kills": [{"time_ns": NUMBER, "pid": COUNT, "name": TEXT, "is_of_kernel": FLAG}],
            "kills_left_out": COUNT,
        }
    ),
}
ANALYZE = {
    **_SHARES,
    "name": Maybe(TEXT),
    "kind": Maybe(TEXT),
    "trace": Maybe(TEXT),
    "skew_curve": [(SHARE, SHARE)],
    "miss_ratio_curve": CURVE,
    "reuse_distance": HISTOGRAM,
    "volume": Maybe({"swap": _VOLUME, "block": _VOLUME}),
    "single_out": Maybe({"pages": SHARE, "outs": SHARE}),
    "swap": Maybe(
        {
            "outs": COUNT,
            "ins": COUNT,
            "never_returned": {"pages": SHARE, "outs": SHARE},
            "device_reads": Maybe({"readahead_share": SHARE}),
        }
    ),
    "reaccess_interval_ns": Maybe(HISTOGRAM),
    "fault_time": Maybe({"device": _FAULTS, "cached": _FAULTS}),
    "processes": Maybe([{**_SHARES, "name": OrNull(TEXT), "pid": COUNT}]),
    "traffic": Maybe(
        {
            "step_s": POSITIVE,
            "series": [{"name": TEXT, "processes": COUNT, "reads": [COUNT], "writes": [COUNT]}],
        }
    ),
    "header": Maybe(HEADER),
    "gaps": Maybe([{"from_s": NUMBER, "to_s": NUMBER}]),
    "recordings": Maybe(COUNT),
    "page_bytes": Maybe(COUNT),
    "losses": Maybe(LOSSES),
    "zero_pages": Maybe({"outs": COUNT, "ins": COUNT}),
    "not_recorded": Maybe([TEXT]),
}
MISSES = {
    "name": Maybe(TEXT),
    "trace": Maybe(TEXT),
    "requests": COUNT,
    "pages": COUNT,
    "misses": Keyed(Keyed(COUNT, name=DIGITS)),
    "losses": Maybe(LOSSES),
}
_COUNTS = {"reads": COUNT, "writes": COUNT}
SIMULATE = {
    "name": Maybe(TEXT),
    "trace": Maybe(TEXT),
    "architecture": TEXT,
    "options": Keyed(SCALAR),
    "fast_bytes": COUNT,
    "fast_device": TEXT,
    "slow_device": TEXT,
    "fast": _COUNTS,
    "slow": _COUNTS,
    "io_time_s": POSITIVE,
    "stall_time_s": POSITIVE,
    "wear": Maybe({"fast": Maybe(POSITIVE), "slow": Maybe(POSITIVE)}),
}
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
_SHARE_AT_SIZE = {"fast_tier_bytes": COUNT, "io_share": SPREAD}
_AT_SIZE = {
    "fast_tier_bytes": COUNT,
    "io_share": SPREAD,
    "next_cheaper": {"fast_tier_bytes": COUNT, "regret": SPREAD},
    "stock_linux": {"architecture": TEXT, "regret": SPREAD},
    "life_slow_years": Maybe(SPREAD),
    "memory": Maybe({"taken_bytes": SPREAD, "share_of_board": Maybe(SPREAD)}),
}
ADVICE = {
    "trace": TEXT,
    "fast": {"name": TEXT},
    "slow": {"name": TEXT},
    "architecture": {"name": TEXT, "holds_in": {"combinations": COUNT, "of": COUNT}},
    "candidates": [
        {
            "architecture": TEXT,
            "sizes": [
                {
                    **dict.fromkeys(("fast_tier_bytes", "slow_bytes", "fast_bytes_written"), COUNT),
                    "io_time_s": POSITIVE,
                    "io_share": POSITIVE,
                }
            ],
        }
    ],
    "worth": OrNull(_AT_SIZE),
    "losses": Maybe(LOSSES),
    "today": Maybe({"architecture": TEXT, "by": TEXT, **_AT_SIZE}),
    "best": Maybe({"architecture": TEXT, "can_run": FLAG, **_SHARE_AT_SIZE}),
    "evidence": Maybe({"verdict": TEXT, "reason": TEXT, "remedy": OrNull(TEXT)}),
    "warnings": Maybe([TEXT]),
    "reference": OrNull({"what": TEXT, "io_bytes": COUNT, "fast_tier_bytes": OrNull(COUNT)}),
    "settings": [dict.fromkeys(("title", "note", "apply", "undo"), TEXT)],
    "notes": [TEXT],
}

DENOMINATOR = Plain("memory or cpu", lambda value: value in ("memory", "cpu"))

PAGE_SIZE = {
    "trace": TEXT,
    "program": {
        "references": COUNT,
        "steps": COUNT,
        "footprint_bytes": COUNT,
        "footprint_factors": Keyed(POSITIVE, name=DIGITS),
    },
    "assumed": {
        "storage": TEXT,
        "terms": {
            "references": DENOMINATOR,
            "cold": TEXT,
            "tlb_levels": COUNT,
            "readahead_bytes": COUNT,
        },
    },
    "memory_bytes": COUNT,
    "advice": {
        **dict.fromkeys(("page_bytes", "ideal_bytes"), COUNT),
        **dict.fromkeys(("target", "storage"), TEXT),
        **dict.fromkeys(("regret", "footprint_factor"), NUMBER),
        "gain": SPREAD,
        "settings": [dict.fromkeys(("title", "note", "apply", "undo"), TEXT)],
        "notes": [TEXT],
    },
    "memories": [
        {
            "memory_bytes": COUNT,
            "share": POSITIVE,
            "sizes_bytes": [COUNT],
            "translation_ns": [POSITIVE],
            "data_ns": [POSITIVE],
            "paper_ns": OrNull([POSITIVE]),
            "sampled_ns": OrNull([POSITIVE]),
        }
    ],
}

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

_CANDIDATE = {
    **dict.fromkeys(("process", "resident_bytes", "swapped_bytes"), COUNT),
    "name": TEXT,
    "adj": NUMBER,
}
REPLAY_KILLS = {
    "recording": TEXT,
    "memory": [{"time_s": POSITIVE, "available_bytes": COUNT}],
    "freezes": [{}],
    "policies": [
        {
            "policy": TEXT,
            "decisions": [
                {
                    "time_s": POSITIVE,
                    "available_bytes": COUNT,
                    **dict.fromkeys(("why", "judgement"), TEXT),
                    "victims": [_CANDIDATE],
                    "spared": [_CANDIDATE],
                }
            ],
            "reasons": [{**dict.fromkeys(("from_s", "to_s"), POSITIVE), "why": TEXT}],
            **dict.fromkeys(("false_alarms", "missed_freezes"), COUNT),
        }
    ],
}
KILLS = {
    "kernel": TEXT,
    "lost": COUNT,
    "kills": [
        {
            "pid": COUNT,
            "comm": TEXT,
            **dict.fromkeys(("threads", "rss_bytes"), OrNull(COUNT)),
            **dict.fromkeys(
                ("signal_us", "threads_us", "reclaim_us", "unmap_us", "pagetables_us"),
                OrNull(NUMBER),
            ),
            **dict.fromkeys(("total_us", "reaper_us"), OrNull(NUMBER)),
            "trigger": TEXT,
            "killer": OrNull({"pid": COUNT, "comm": OrNull(TEXT)}),
            "rss_curve": [(NUMBER, COUNT)],
        }
    ],
}

SHAPES: Mapping[str, Shape] = {
    "analyze": ANALYZE,
    "misses": MISSES,
    "misses-of-traces": {"traces": [MISSES]},
    "simulate": SIMULATE,
    "sweep": SWEEP,
    "study": STUDY,
    "advice": ADVICE,
    "page-size": PAGE_SIZE,
    "advice-page-size": PAGE_SIZE,
    "bench-lazy": BENCH_LAZY,
    "replay-kills": REPLAY_KILLS,
    "kills": KILLS,
}
"""Shapes by the middle word of a result's ``schema``."""


def flaw(kind: str, result: Mapping[str, Any]) -> Mismatch | None:
    """The first field that departs from the shape of ``kind``; None if all fit."""
    found = departure(result, SHAPES[kind])
    further = {"analyze": _traffic, "sweep": _sweep, "study": _tables}
    further |= dict.fromkeys(("page-size", "advice-page-size"), _memories)
    return found or (further[kind](result) if kind in further else None)


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
