"""Measures calls side by side: each in a process of its own, in turn, by CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

CALLS = Path(__file__).parent / "calls.py"


@dataclass(frozen=True)
class Call:
    """One call: a function of calls.py and what it is called with."""

    function: str
    arguments: Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """What one call took: CPU seconds of all its threads, peak bytes, and what it answered."""

    cpu_s: float
    wall_s: float
    start_cpu_s: float
    peak_bytes: int
    answer: Any


@dataclass(frozen=True)
class Claim:
    """A figure beside what it must reach."""

    what: str
    target: str
    measured: str
    is_reached: bool


def once(call: Call) -> Sample:
    """Runs a call in a started process."""
    command = [sys.executable, str(CALLS), call.function, json.dumps(call.arguments)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    return Sample(**json.loads(finished.stdout.splitlines()[-1]))


def in_turn(calls: Mapping[str, Call], rounds: int) -> dict[str, list[Sample]]:
    """Runs the calls one after the other, `rounds` times: A B C A B C."""
    samples: dict[str, list[Sample]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            sample = once(call)
            samples[name].append(sample)
            print(f"  {name}: {sample.cpu_s:.3f} CPU-s", file=sys.stderr, flush=True)
    return samples


def ratio_claim(
    what: str,
    at_least: float,
    theirs: Sequence[Sample],
    ours: Sequence[Sample],
    of: Callable[[Sample], float] = lambda sample: sample.cpu_s,
) -> Claim:
    """How many times less we took, round by round: the median, and the range it came from."""
    ratios = [of(their) / of(our) for their, our in zip(theirs, ours, strict=True)]
    return Claim(
        what,
        f"at least {at_least:g}x",
        f"**{median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f}): "
        f"{median(map(of, ours)):.3f} beside {median(map(of, theirs)):.3f}",
        median(ratios) >= at_least,
    )
