"""The comparison as one JSON object, which `pagewise report` draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from statistics import median
from typing import Any

from lazy.allocators import ALLOCATORS, FIXED, GLIBC, ComparedAllocator
from lazy.claims import CALL_SHARE, FAULT_SHARE, RESPONSE, SWIPE_TRAPS, WEBKIT, claims
from lazy.parts import PARTS, exchange, small
from lazy.summary import Measure, Summary, field, of_swipes

PROGRAMS = (
    ("churn", "malloc"),
    ("churn", "calloc"),
    *(("exchange", program) for program in exchange.PROGRAMS),
    *(("small", program) for program in small.STEPS),
    ("numpy", "numpy"),
    ("programs", "ImageMagick"),
    ("programs", "ffmpeg"),
    WEBKIT,
)
DRAWN = (GLIBC, FIXED, "fast", "browser")
"""Allocators whose swipe is drawn frame by frame: without and with the pool."""
MEASURES: dict[str, Measure] = {
    name: field(name)
    for name in (
        "traps",
        "cpu_s",
        "steps_per_s",
        "peak_bytes",
        "freed_bytes",
        "idle_bytes",
    )
}
OF_SWIPES: dict[str, Measure] = {
    "traps": SWIPE_TRAPS,
    "cpu_s": of_swipes(lambda swipe: swipe["user_s"] + swipe["system_s"]),
    "response_s": RESPONSE,
    "fault_share": FAULT_SHARE,
    "call_share": CALL_SHARE,
}


def result(summary: Summary, place: str) -> dict[str, Any]:
    """All medians, the verdicts, and one swipe of each allocator frame by frame."""
    return {
        "schema": "pagewise.bench-lazy/1",
        "place": place,
        "load": range_of(run.load for run in summary.all),
        "loads": {
            part: range_of(run.load for run in summary.all if run.part == part)
            for part in PARTS
            if any(run.part == part for run in summary.all)
        },
        "rows": [row for where in PROGRAMS for row in rows(summary, *where)],
        "pressure": list(pressure(summary)),
        "forks": list(forks(summary)),
        "timelines": list(timelines(summary)),
        "claims": [asdict(claim) for claim in claims(summary)],
    }


def range_of(loads: Iterable[float]) -> dict[str, float]:
    """The smallest and the largest."""
    values = sorted(loads)
    return {"low": values[0], "high": values[-1]}


def measured(summary: Summary, part: str, program: str) -> Iterator[ComparedAllocator]:
    """The allocators with runs of a program."""
    return (
        ALLOCATORS[name] for name in PARTS[part].allocators if (part, program, name) in summary.runs
    )


def rows(summary: Summary, part: str, program: str) -> Iterator[dict[str, Any]]:
    """One program under each allocator; figures that it lacks are null."""
    measures = MEASURES | (OF_SWIPES if part == "swipe" else {})
    for allocator in measured(summary, part, program):
        spreads = {
            name: summary.spread(part, program, allocator.name, measure)
            for name, measure in measures.items()
        }
        cpu_ratio = summary.ratio(part, program, allocator.name, GLIBC, measures["cpu_s"])
        yield {
            "program": program if program in (part, *WEBKIT) or part == "programs" else
            f"{part} {program}",
            "allocator": allocator.name,
            "is_ours": allocator.is_ours,
            "runs": len(summary.figures(part, program, allocator.name)),
            "failure": summary.failure(part, program, allocator.name),
            **{name: asdict(spread) if spread else None for name, spread in spreads.items()},
            "cpu_ratio": asdict(cpu_ratio) if cpu_ratio else None,
        }  # fmt: skip


def pressure(summary: Summary) -> Iterator[dict[str, Any]]:
    """The number of surviving runs, and the time of the burst."""
    for allocator in measured(summary, "pressure", "pressure"):
        runs = summary.figures("pressure", "pressure", allocator.name)
        burst = summary.spread("pressure", "pressure", allocator.name, field("burst_s"))
        yield {
            "allocator": allocator.name,
            "runs": len(runs),
            "survived": sum(run["has_survived"] for run in runs),
            "failure": summary.failure("pressure", "pressure", allocator.name),
            "burst_s": asdict(burst) if burst else None,
        }


def forks(summary: Summary) -> Iterator[dict[str, Any]]:
    """CPU time of a block before and after the fork, and of the fork."""
    for allocator in measured(summary, "forks", "forks"):
        medians = {
            name: median(values) if values else None
            for name in ("warm_s", "fork_s", "shared_s", "shared_traps")
            if (values := summary.values("forks", "forks", allocator.name, field(name))) is not None
        }
        failure = summary.failure("forks", "forks", allocator.name)
        yield {"allocator": allocator.name, "failure": failure, **medians}


def timelines(summary: Summary) -> Iterator[dict[str, Any]]:
    """Seconds since the input event, and traps so far, at each frame of one swipe."""
    for name in DRAWN:
        for session in summary.figures(*WEBKIT, name)[:1]:
            yield {"allocator": name, "frames": session["timeline"]["timeline"]}
