"""Measures calls side by side: each in a process of its own, in turn, by CPU time.

Peak memory has two figures: the peak of the whole process, mapped files included, from the kernel
(VmHWM: ru_maxrss would be the parent's if that was larger); and anonymous memory only (heap and
stacks), for which the kernel keeps no peak, so it is sampled from outside every few milliseconds.
So a peer that maps its input is not charged for the file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ANONYMOUS = "RssAnon:"
PEAK = "VmHWM:"
LOOK_EVERY_S = 0.005

CALLS = Path(__file__).parent / "calls.py"


@dataclass(frozen=True)
class Call:
    """One call: a function of calls.py and its arguments."""

    function: str
    arguments: Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """Measurements of one call: CPU seconds of all its threads, peak bytes, and its answer.

    `start_...` is the usage of the process before the call.
    """

    cpu_s: float
    wall_s: float
    start_cpu_s: float
    peak_bytes: int
    start_anonymous_bytes: int
    answer: Any
    peak_anonymous_bytes: int

    @property
    def added_bytes(self) -> int:
        """Anonymous memory that the call added at its peak."""
        return self.peak_anonymous_bytes - self.start_anonymous_bytes


@dataclass(frozen=True)
class Claim:
    """A figure with its target."""

    what: str
    target: str
    measured: str
    is_reached: bool


def once(call: Call) -> Sample:
    """Runs a call in a new process."""
    command = [sys.executable, str(CALLS), call.function, json.dumps(call.arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watch = Watch(process.pid)
        watch.start()
        output, _ = process.communicate()
        watch.is_over.set()
        watch.join()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    report = json.loads(output.splitlines()[-1])
    peak = max(watch.peak_bytes, report["start_anonymous_bytes"])
    return Sample(**report, peak_anonymous_bytes=peak)


class Watch(threading.Thread):
    """Samples the anonymous memory of a process until it is over."""

    def __init__(self, process: int) -> None:
        super().__init__()
        self.status = Path(f"/proc/{process}/status")
        self.is_over = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        """Samples until `is_over`."""
        while not self.is_over.wait(LOOK_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, status_bytes(self.status, ANONYMOUS))


def status_bytes(status: Path, line: str) -> int:
    """The value of a line of the kernel's status of a process; 0 if the process has ended."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0
    return next((int(found.split()[1]) * 1024 for found in lines if found.startswith(line)), 0)


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
    """Theirs divided by ours, round by round: the median and the range."""
    ratios = [of(their) / of(our) for their, our in zip(theirs, ours, strict=True)]
    return Claim(
        what,
        f"at least {at_least:g}x",
        f"**{median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f}): "
        f"ours {median(map(of, ours)):.3f}, theirs {median(map(of, theirs)):.3f}",
        median(ratios) >= at_least,
    )
