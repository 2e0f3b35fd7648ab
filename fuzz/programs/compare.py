"""Runs a script with and without the library, and finds the first line that differs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "fast": {"MODE": "fast"},
    "guarded": {"MODE": "guarded"},
    "thp": {"MODE": "thp"},
    "browser": {"PROFILE": "browser"},
    "faithful": {"PROFILE": "faithful"},
    "off": {"SWITCH": "off"},
    "hasty": {
        "HOT_MAX": "1MiB",
        "LAZY_AFTER": "1ms",
        "DISCARD_AFTER": "3ms",
        "ZERO_MAX": "1MiB",
    },
    "hasty guarded": {
        "HOT_MAX": "1MiB",
        "LAZY_AFTER": "1ms",
        "DISCARD_AFTER": "3ms",
        "MODE": "guarded",
        "HELPER": "off",
    },
}
"""Environment variables of the library for each setting, without the prefix PAGEWISE_LAZY_."""
HUNG_S = 40.0
SLOWER_MAX = 10
"""A run hangs if it takes this factor of the time without the library, and at least `HUNG_S`."""
HUNG = "hung"
STOCK_AGAIN = 4
"""Number of further runs without the library before a difference counts."""


@dataclass(frozen=True)
class Setup:
    """The program and the library."""

    program: Path
    library: Path


@dataclass(frozen=True)
class Observed:
    """The lines of a run, those of each worker in their order, and its exit status."""

    lines: Sequence[str]
    status: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Difference:
    """The difference of a run from the run without the library."""

    setting: str
    stock: str
    library: str


def knobs_of(setting: str) -> dict[str, str]:
    """The environment variables of a setting."""
    return {f"PAGEWISE_LAZY_{name}": value for name, value in SETTINGS[setting].items()}


def observe(setup: Setup, script: Path, setting: str | None, hung_s: float = HUNG_S) -> Observed:
    """Runs the script under a setting, or without the library."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if setting is not None:
        environment |= {"LD_PRELOAD": str(setup.library), **knobs_of(setting)}
    begin = time.monotonic()
    process = subprocess.Popen(
        [setup.program, script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=hung_s)
        status = str(process.returncode)
    except subprocess.TimeoutExpired:
        # Kill its children too, which are in its process group.
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = HUNG
    seconds = time.monotonic() - begin
    return Observed(sorted(output.splitlines(), key=worker_of), status, seconds)


def worker_of(line: str) -> str:
    """The worker that wrote a line; a stable sort by it keeps each worker's lines in order."""
    return line.partition(".")[0]


def difference(stock: Observed, library: Observed, setting: str) -> Difference | None:
    """The first line that differs, or the exit status if only that differs."""
    for ours, theirs in zip_longest(stock.lines, library.lines, fillvalue="no more lines"):
        if ours != theirs:
            return Difference(
                setting,
                f"{ours} (status {stock.status})",
                f"{theirs} (status {library.status})",
            )
    if stock.status != library.status:
        return Difference(setting, f"status {stock.status}", f"status {library.status}")
    return None


def is_stable(setup: Setup, script: Path, stock: Observed) -> bool:
    """Whether the script gives the same lines each time without the library."""
    again = (observe(setup, script, None) for _ in range(STOCK_AGAIN))
    return all(difference(stock, once, "stock") is None for once in again)
