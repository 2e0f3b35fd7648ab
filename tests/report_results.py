"""Small made-up results of every kind that the report accepts, with hostile names."""

from typing import Any

EVIL = "</script><img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(1)"
MIB = 1 << 20
SIZES_MIB = (0, 64, 128, 256, 512, 1024)
ARCHITECTURES = ("flash", "hierarchical", "nvm-cache", "priority", "adaptive")


def shares(skew: float) -> dict[str, Any]:
    return {
        "top_share": {
            share: float(share) ** skew for share in ("0.01", "0.05", "0.1", "0.25", "0.5")
        },
        "pages_for_80_percent": 0.8 ** (1 / skew),
        "single_access": {"pages": 0.4, "accesses": 0.1},
    }


def analysis(name: str, skew: float) -> dict[str, Any]:
    return {
        "schema": "pagewise.analyze/1",
        "name": name,
        "kind": "swap",
        "accesses": 1000,
        "pages": 300,
        "writes": 500,
        **shares(skew),
        "skew_curve": [[step / 100, (step / 100) ** skew] for step in range(1, 101)],
        "miss_ratio_curve": [[2**power, 1 - power / 12] for power in range(9)],
        "reuse_distance": [[2**power, 10 * power] for power in range(9)],
        "volume": {"swap": {"top_10_percent_bytes": 2**20, "rest_bytes": 2**22}, "block": None},
        "single_out": {"pages": 0.7, "outs": 0.4},
        "swap": {
            "outs": 600,
            "ins": 400,
            "never_returned": {"pages": 0.4, "outs": 0.3},
            "device_reads": {"demand": 300, "readahead": 100, "readahead_share": 0.25},
        },
        "reaccess_interval_ns": [[2**power, power] for power in range(20, 36)],
        "fault_time": {
            "device": {"count": 10, "sum_ns": 10**9, "distribution_ns": [[10**5, 9], [10**7, 1]]},
            "cached": {"count": 0, "sum_ns": 0, "distribution_ns": []},
        },
        "processes": [
            {"name": EVIL, "pid": 1, "accesses": 600, "pages": 200, **shares(skew)},
            {"name": FORMULA, "pid": 2, "accesses": 400, "pages": 100, **shares(skew)},
        ],
        "traffic": {
            "step_s": 0.5,
            "series": [
                {"name": EVIL, "processes": 2, "reads": [0, 100, 50], "writes": [300, 0, 150]},
                {"name": "others", "processes": 3, "reads": [50, 50, 150], "writes": [0, 100, 50]},
            ],
        },
        "heat": {
            "bin_s": 0.5,
            "bin_accesses": None,
            "left_out": 3,
            "spaces": [
                {
                    "name": EVIL,
                    "accesses": 600,
                    "range_bytes": 8192,
                    "ranges": [
                        {"first": "4000", "last": "5fff", "accesses": [300, 100, 50]},
                        {"first": "8000", "last": "9fff", "accesses": [0, 0, 150]},
                    ],
                }
            ],
        },
        "header": {
            "kind": "swap",
            "format": "events",
            "events": 1000,
            "pages": 300,
            "has_clock": True,
            "has_operations": True,
            "has_sizes": False,
            "has_durations": False,
            "processes": [{"pid": 1, "name": EVIL}, {"pid": 2, "name": FORMULA}],
            "devices": [],
            "losses": [{"what": "lines that could not be read", "count": 3}],
            "sources": [["ab" * 32, f"{name}.csv"]],
            "start_ns": 10 * 10**9,
            "shortage": shortage(),
        },
    }


def shortage() -> dict[str, Any]:
    """Sums of stalls, starting half a second before the first event, and two kills."""
    sums = ((9.5, 0, 0), (10.0, 100_000, 0), (11.0, 600_000, 250_000), (12.0, 600_000, 250_000))
    kills = ((10.25, 7, EVIL, True), (11.0, 8, "", False))
    return {
        "is_of_cgroup": False,
        "stalls": [
            {"time_ns": round(at_s * 1e9), "some_us": some_us, "full_us": full_us}
            for at_s, some_us, full_us in sums
        ],
        "kills": [
            {"time_ns": round(at_s * 1e9), "pid": pid, "name": name, "is_of_kernel": is_of_kernel}
            for at_s, pid, name, is_of_kernel in kills
        ],
        "kills_left_out": 3,
    }


def cell(trace: str, architecture: str, size_mib: int) -> dict[str, Any]:
    gain = 1 - ARCHITECTURES.index(architecture) * size_mib / 8192
    return {
        "trace": trace,
        "architecture": architecture,
        "options": "{}",
        "fast_tier_bytes": size_mib * 2**20,
        "fast": "4/5us",
        "slow": "90/40us",
        "slow_reads": int(7000 * gain),
        "slow_writes": int(6000 * gain),
        "fast_reads": 10 * size_mib,
        "fast_writes": 5 * size_mib,
        "io_time_s": 100 * gain,
        "stall_time_s": 50 * gain,
        "wear_fast": 1e-6 * size_mib,
        "wear_slow": 1e-5 * gain,
        "seed": None,
        "error": None,
    }


def lazy_study() -> dict[str, Any]:
    """A study of lazy unmapping with two programs and two allocators."""
    columns = ["x", "series", "y", "std", "n", "seed", "config_hash"]
    allocators = (("no-pool", 1.0), ("lazy", 0.25))

    def figure(name: str, rows: list[list[Any]], view: str = "") -> dict[str, Any]:
        return {
            "name": f"lazy-unmap-{name}",
            "title": name,
            "x_label": "",
            "y_label": "",
            "is_categorical": not view,
            "view": view,
            "columns": columns,
            "rows": [[*row, 0, 1, "", "ab"] for row in rows],
        }

    programs = ("swipe", EVIL)
    faults = [[program, *allocator] for program in programs for allocator in allocators]
    memory = [[at, name, at * share] for name, share in allocators for at in (0.0, 1.5, 3.0)]
    return {
        **study(),
        "study": "lazy-unmap",
        "figures": [
            figure("faults", faults),
            *(figure(f"resident-{program}", memory, program) for program in programs),
        ],
        "sensitivity": [],
    }


def launch_study() -> dict[str, Any]:
    """Launches split into parts: an app that waits for its pages, and an app that never waits."""
    parts = (("own time", 1.0, 2.0), ("swap-ins", 3.0, 0.0), (EVIL, 0.5, 0.0))
    rows = [
        [bar, part, seconds[index], 0, 1, "", "ab"]
        for index, bar in enumerate(("swap on", EVIL))
        for part, *seconds in parts
    ]
    figure = {
        "name": "launch-simulated-parts",
        "title": "Launch time by what it was spent on",
        "x_label": "",
        "y_label": "launch time, seconds",
        "is_categorical": True,
        "is_stacked": True,
        "columns": ["x", "series", "y", "std", "n", "seed", "config_hash"],
        "rows": rows,
    }
    return {**study(), "study": "launch-simulated", "figures": [figure], "sensitivity": []}


def relaunch_study() -> dict[str, Any]:
    """Launches of two applications, before and after."""
    return {
        **study(),
        "study": "relaunch",
        "figures": [
            figure(
                "relaunch-launch",
                [
                    (EVIL, "without", 1.0),
                    ("b", "without", 2.0),
                    (EVIL, "with", 2.0),
                    ("b", "with", 1.0),
                ],
                is_categorical=True,
            )
        ],
        "sensitivity": [],
    }


def tiers_study() -> dict[str, Any]:
    """A run on a swap area of two tiers, whose fast tier answered no read."""
    moments = [(0.5, EVIL, 3.0), (0.0, EVIL, 1.0), (0.5, "fast tier", 2.0), (0.0, "fast tier", 1.0)]
    return {
        **study(),
        "study": "multiswap-live",
        "figures": [
            figure(
                "multiswap-live-wait",
                [("50 %", f"{EVIL}, slow tier", 90.0), ("99 %", f"{EVIL}, slow tier", 900.0)],
                is_categorical=True,
            ),
            figure("multiswap-live-occupancy-1", moments, view=EVIL),
        ],
        "sensitivity": [],
    }


def figure(name: str, points: list[tuple[float | str, str, float]], **more: Any) -> dict[str, Any]:
    """A figure of a study with these points: x, series, y."""
    return {
        "name": name,
        "title": name,
        "x_label": "",
        "y_label": "",
        "is_categorical": False,
        "is_stacked": False,
        "columns": ["x", "series", "y", "std", "n", "seed", "config_hash"],
        "rows": [[*point, 0, 1, "", "ab"] for point in points],
        **more,
    }


def study() -> dict[str, Any]:
    columns = ["x", "series", "y", "std", "n", "seed", "config_hash"]
    return {
        "schema": "pagewise.study/1",
        "study": "multiswap",
        "title": "S1: two tiers",
        "figures": [
            {
                "name": "fig2",
                "title": "Flash accesses",
                "x_label": "fast tier, MiB",
                "y_label": "of flash alone",
                "is_categorical": False,
                "columns": columns,
                "rows": [
                    [size, series, 1 - size / rank, 0.1, 3, "0-2", "ab"]
                    for rank, series in ((2048, "hybrid"), (4096, "paper"))
                    for size in SIZES_MIB
                ],
            },
            {
                "name": "fig1",
                "title": "I/O",
                "x_label": "",
                "y_label": "GiB",
                "is_categorical": True,
                "columns": columns,
                "rows": [
                    ["1 GB", "swap on", 6.0, 0, 1, "", "ab"],
                    ["1 GB", EVIL, 2.0, 0, 1, "", "ab"],
                ],
            },
            *(
                {
                    "name": f"times-{view}",
                    "title": f"Times of {view}",
                    "x_label": "page size",
                    "y_label": "ns",
                    "is_categorical": True,
                    "is_joined": True,
                    "has_log_y": True,
                    "chart": "Times",
                    "view": view,
                    "group": "times",
                    "columns": columns,
                    "rows": [
                        [size, EVIL, y, 0, 1, "", "ab"] for size, y in (("4K", 9), ("8K", 1e6))
                    ],
                }
                for view in ("game", EVIL)
            ),
        ],
        "verdicts": [
            {
                "check": "ACC-S1-1",
                "part": str(part),
                "data": EVIL,
                "statement": "less than hierarchical",
                "paper": "6 % less",
                "ours": "7 % less",
                "verdict": verdict,
                "needs": {"entry_bit": "1"} if verdict == "needs a reading" else {},
                "readings": 4,
                "holding": 2,
                "why": EVIL,
            }
            for part, verdict in enumerate(("holds", "does not hold", "needs a reading"))
        ],
        "tables": [
            {
                "name": "launches",
                "title": "Launch times",
                "note": f"{EVIL} *Mean*: of all `visits`.",
                "columns": ["run", "mean, s", "cold", FORMULA],
                "shares": ["cold"],
                "rows": [[EVIL, 1.5, 0.476, None], ["kill", 2, None, FORMULA]],
            }
        ],
        "sensitivity": [{"option": "entry_bit", "value": "1", "io_time": -0.05}],
    }


def spread(typical: float) -> dict[str, float]:
    return {"low": typical * 0.9, "typical": typical, "high": typical * 1.1}


def advice() -> dict[str, Any]:
    regret = {"architecture": "priority", "regret": spread(0.07)}
    return {
        "schema": "pagewise.advice/1",
        "trace": EVIL,
        "fast": {"name": "zram-lz4"},
        "slow": {"name": "ufs-3.1"},
        "architecture": {"name": "adaptive", "holds_in": {"combinations": 8, "of": 9}},
        "candidates": [
            {
                "architecture": name,
                "sizes": [
                    {
                        "fast_tier_bytes": size * 2**20,
                        "io_time_s": 100.0 - size / rank,
                        "io_share": 1 - size / rank / 100,
                        "slow_bytes": 2**30,
                        "fast_bytes_written": size * 2**20,
                    }
                    for size in SIZES_MIB
                ],
            }
            for rank, name in ((20, "adaptive"), (40, "priority"))
        ],
        "worth": {
            "fast_tier_bytes": 2**28,
            "io_share": spread(0.67),
            "next_cheaper": {
                "architecture": "priority",
                "fast_tier_bytes": 2**27,
                "regret": spread(0.12),
            },
            "stock_linux": regret,
        },
        "reference": {"what": EVIL, "io_bytes": 2**31, "fast_tier_bytes": None},
        "settings": [{"title": EVIL, "note": "as root", "apply": "swapon /dev/FAST", "undo": EVIL}],
        "notes": [EVIL],
    }


def page_size() -> dict[str, Any]:
    """A program best at 64 KiB, at two memories; the smaller has too few sizes for a fit."""
    sizes = [4096 << step for step in range(5)]

    def memory(share: float, count: int) -> dict[str, Any]:
        data = [60 + 2000 / size * 4096 for size in sizes[:count]]
        return {
            "memory_bytes": round(share * 2**24),
            "share": share,
            "sizes_bytes": sizes[:count],
            "translation_ns": [10.0 / (step + 1) for step in range(count)],
            "data_ns": data,
            "first_touch_ns": [each - 60 for each in data],
            "paper_ns": [each * 1.1 for each in data] if count > 4 else None,
            "sampled_ns": [each * 1.01 for each in data] if count > 4 else None,
        }

    return {
        "schema": "pagewise.page-size/1",
        "trace": f"{EVIL}.pwf",
        "program": {
            "references": 10**9,
            "steps": 10**7,
            "footprint_bytes": 2**24,
            "footprint_factors": {str(size): 1 + size / 2**18 for size in sizes},
        },
        "assumed": {
            "storage": "ufs-3.1",
            "terms": {
                "references": "memory",
                "cold": "file-only",
                "tlb_levels": 2,
                "readahead_bytes": 0,
            },
        },
        "memory_bytes": round(0.8 * 2**24),
        "advice": {
            "page_bytes": 65536,
            "ideal_bytes": 32768,
            "target": "x86-mthp",
            "storage": "ufs-3.1",
            "regret": 0.01,
            "footprint_factor": 1.25,
            "gain": {"low": 0.2, "typical": 0.3, "high": 0.4},
            "settings": [{"title": EVIL, "note": "now", "apply": "echo <on>", "undo": "echo off"}],
            "notes": ["as it stands"],
        },
        "memories": [memory(0.8, 5), memory(0.2, 2)],
    }


def lazy_bench() -> dict[str, Any]:
    """Two allocators, one of them ours, on one program, and an allocator that failed."""

    def spread(typical: float) -> dict[str, float]:
        return {"low": typical * 0.9, "typical": typical, "high": typical * 1.1}

    def row(allocator: str, is_ours: bool, traps: float) -> dict[str, Any]:
        return {
            "program": "WebKitGTK",
            "allocator": allocator,
            "is_ours": is_ours,
            "failure": None,
            **dict.fromkeys(("traps", "peak_bytes", "freed_bytes", "idle_bytes"), spread(traps)),
            **dict.fromkeys(("cpu_s", "response_s", "fault_share", "call_share"), spread(0.5)),
        }

    failed = {
        **row(EVIL, False, 1.0),
        **dict.fromkeys(("traps", "cpu_s", "peak_bytes"), None),
        "failure": "status -11",
    }
    return {
        "schema": "pagewise.bench-lazy/1",
        "place": f"commit {EVIL}",
        "load": {"low": 0.1, "high": 1.0},
        "rows": [row("glibc", False, 9000.0), row("fast", True, 900.0), failed],
        "pressure": [{"allocator": "glibc", "runs": 9, "survived": 0, "burst_s": None}],
        "timelines": [
            {"allocator": "glibc", "frames": [[0.1, 300], [0.3, 9000]]},
            {"allocator": "fast", "frames": [[0.1, 30], [0.2, 900]]},
        ],
        "claims": [
            {"what": "traps", "target": "0.2x", "measured": "**0.1x**", "is_reached": True},
            {"what": EVIL, "target": "0.2x", "measured": "**0.3x**", "is_reached": False},
            {"what": "idle", "target": "1.1x", "measured": "not measured", "is_reached": None},
        ],
    }


def phone() -> list[dict[str, Any]]:
    """What a system trace answers, with a hostile name and with much that is unknown."""
    about = {"trace": "phone.perfetto-trace", "begin_ns": 5, "duration_s": 20.0, "events": 9}
    about |= {"disordered": 0, "left_out": 0, "losses": [], "lacks": ["PSI"]}
    about |= {"repeated_packets": 0, "rejected": 0, "rejects": []}
    parts: dict[str, float | None] = dict.fromkeys(
        ("kill_wait_s", "direct_reclaim_s", "kswapd_s", "refault_s", "swapin_s", "cpu_s")
    )
    launch = {
        "process": EVIL,
        "class": "cold",
        "is_class_stated": True,
        "start_s": 2.0,
        "duration_s": 0.5,
        "parts": parts | {"cpu_s": 0.7, "rest_s": -0.2},
        "kills": 1,
        "kills_before": 0,
        "main_thread": {"running_s": 0.25, "runnable_s": None},
        "other_threads": {"running_s": 0.125, "runnable_s": 0.0},
        "cache_miss_bytes": 2 * MIB,
        "swap_in_bytes": None,
    }
    judged = {"answer": None, "why": "cannot tell, because the trace lacks PSI"}
    kill = {
        "time_s": 2.1,
        "process": EVIL,
        "pid": 7,
        "adj": 905,
        "reason": FORMULA,
        "killer": "lmkd",
        "free_bytes": 40 * MIB,
        "came_back_after_s": 3.0,
        "came_back_soon": True,
        "traced_for_s": 9.0,
        "needless": judged | {"answer": True},
        "late": judged | {"answer": False},
        "wrong_victim": judged,
    }
    cause = {"process": EVIL, "pid": 7, "time_s": 0.1, "bytes": 4096}
    interval = {
        "kind": "kswapd",
        "start_s": 2.0,
        "end_s": 2.4,
        "busy_s": 0.4,
        "bytes": 4096,
        "stalled_share": None,
        "processes": [cause],
    }
    warm = {
        "target": "18446623435582458880",
        "first": "1000",
        "last": "1fff",
        "accesses": [0.0, None, 2.5],
    }
    heat = {"start_s": 1.0, "bin_s": 0.5, "regions": 9, "ranges": [warm]}
    replay = {
        **{name: kill_replay()[name] for name in ("freezes", "policies")},
        **{"moments": 2, "duration_s": 2.0, "total_bytes": 99 * MIB, "memory": [], "recorded": []},
        **dict.fromkeys(("has_watermarks", "has_weights"), False),
    }
    return [
        {"schema": "pagewise.launches/1", **about, "launches": [launch]},
        {
            "schema": "pagewise.trace-kills/1",
            **about,
            "shows_kills": True,
            "kills": [kill],
            "replay": replay,
        },
        {"schema": "pagewise.pressure/1", **about, "intervals": [interval], "heat": heat},
    ]


def kill_replay() -> dict[str, Any]:
    """A replay of two policies; the second never kills."""
    candidate = {
        "process": 7,
        "name": EVIL,
        "adj": 900,
        "resident_bytes": 9 * MIB,
        "swapped_bytes": 0,
        "score": [1, 2],
    }
    decision = {
        "time_s": 1.5,
        "why": "memory is short",
        "available_bytes": 5 * MIB,
        "victims": [candidate],
        "spared": [candidate],
        "judgement": "needed",
    }
    counts = {"false_alarms": 0, "missed_freezes": 1}
    killed = {"time_s": 1.75, "process": 7, "name": EVIL, "has_moment": True}
    reason = {"from_s": 0.0, "to_s": 2.0, "why": "enough memory is available"}
    return {
        "schema": "pagewise.replay-kills/1",
        "recording": f"{EVIL}.pgr",
        "memory": [{"time_s": time, "available_bytes": 9 * MIB} for time in (0.0, 2.0)],
        "freezes": [{"from_s": 1.0, "to_s": 2.0, "is_kernel_kill": False}],
        "recorded": [
            {**killed, "is_of_kernel": False, "killer": 3, "killer_name": EVIL},
            {**killed, "is_of_kernel": True, "killer": None, "killer_name": None},
        ],
        "policies": [
            {"policy": "largest", "decisions": [decision], "reasons": [reason], **counts},
            {"policy": "lmkd", "decisions": [], "reasons": [reason], **counts},
        ],
    }


def kills() -> dict[str, Any]:
    """A kill with all its fields, and a kill with only a few."""
    whole = {
        "pid": 7,
        "comm": EVIL,
        "threads": 13,
        "rss_bytes": 60 << 20,
        "signal_us": 40.0,
        "threads_us": 200.0,
        "reclaim_us": 3000.0,
        "unmap_us": 2500.0,
        "pagetables_us": 500.0,
        "total_us": 3240.0,
        "reaper_us": None,
        "trigger": "user",
        "killer": {"pid": 3, "comm": None},
        "rss_curve": [[240.0, 60 << 20], [2740.0, 0]],
    }
    times = ("signal_us", "threads_us", "reclaim_us", "unmap_us", "pagetables_us", "total_us")
    dark = {**whole, **dict.fromkeys((*times, "threads", "rss_bytes", "killer")), "rss_curve": []}
    return {"schema": "pagewise.kills/1", "kernel": "6.18", "lost": 0, "kills": [whole, dark]}


def fleet() -> dict[str, Any]:
    """Figures of three recordings, one of them an outlier, and a file that was left out."""
    of_accesses = {"traces": 3, "min": 9, "p10": 9.2, "median": 10, "p90": 798.0, "max": 995}
    of_ratio = {"traces": 2, "min": 0.25, "p10": 0.28, "median": 0.375, "p90": 0.475, "max": 0.5}
    far = {"trace": EVIL, "value": 995}
    rows = ((FORMULA, 9, 0.25), ("b.csv", 10, 0.5), (EVIL, 995, None))
    return {
        "schema": "pagewise.fleet/1",
        "command": "misses",
        "traces": 3,
        "figures": {
            "requests": {**of_accesses, "outliers": [far], "outliers_count": 1},
            "miss_ratio.lru.8": {**of_ratio, "outliers": [], "outliers_count": 0},
        },
        "recordings": [
            {
                "trace": trace,
                "figures": {"requests": count}
                | ({} if ratio is None else {"miss_ratio.lru.8": ratio}),
                "outlying": {"requests": 664.4} if trace == EVIL else {},
            }
            for trace, count, ratio in rows
        ],
        "unreadable": [{"trace": f"{EVIL}.txt", "error": "no known format"}],
    }


def everything() -> list[dict[str, Any]]:
    cells = [
        cell(trace, architecture, size)
        for trace in ("busy", EVIL)
        for architecture in ARCHITECTURES
        for size in SIZES_MIB
    ]
    misses = {"lru": {"64": 700, "128": 600}, "opt": {"64": 500, "128": 450}}
    return [
        analysis("busy", 0.5),
        analysis(EVIL, 0.8),
        {
            "schema": "pagewise.misses/1",
            "name": "busy",
            "requests": 1000,
            "pages": 300,
            "misses": misses,
        },
        {"schema": "pagewise.sweep/1", "cells": cells},
        lazy_study(),
        launch_study(),
        relaunch_study(),
        tiers_study(),
        study(),
        advice(),
        page_size(),
        lazy_bench(),
        kill_replay(),
        *phone(),
        fleet(),
        kills(),
    ]
