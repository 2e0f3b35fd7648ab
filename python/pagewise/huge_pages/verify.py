"""Runs a program alternately with 4 KiB and with larger pages, and measures what these save.

glibc's malloc asks for huge pages if a tunable says so, and one size is enabled for programs that
ask (madvise), so other programs change only if they ask too. Runs with 4 KiB disable huge pages for
the program (PR_SET_THP_DISABLE).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from pagewise import signals
from pagewise.errors import PagewiseError, UsageError
from pagewise.huge_pages import glibc, settings
from pagewise.huge_pages.settings import SWITCHES, Refused
from pagewise.recording import Progress
from pagewise.references import named_signal
from pagewise.units import format_size

if TYPE_CHECKING:
    from pagewise.answers import PageSizeTrial, Spread

SCHEMA = "pagewise.pagesize-verify/1"
ROUNDS = 5
LAUNCHER = Path(__file__).with_name("launcher.py")
MEASURES = ("minor_faults", "cpu_s", "max_rss_bytes")
Figures: TypeAlias = Mapping[str, float]
"""The measures, by name."""
KERNEL_COUNTS = ("anon_fault_alloc", "anon_fault_fallback")


class ProgramFailed(PagewiseError):
    """The program under test failed, so its figures mean nothing."""


def verify(
    command: Sequence[str],
    page_size_bytes: int,
    *,
    rounds: int = ROUNDS,
    progress: Progress | None = None,
) -> PageSizeTrial:
    """Measures what pages of this size save the command; restores all settings before it returns.

    Runs the command ``rounds`` times with each size, in alternating order, without input and with
    its output discarded. ``base`` and ``chosen`` have the range of each measure over the rounds:
    minor faults, CPU seconds and peak resident bytes (absent if the launcher is larger). ``saved``
    has shares of ``base``, round by round. ``kernel`` counts pages of this size that the kernel
    allocated and could not allocate, on the whole machine. Raises Refused if this machine does not
    allow the size, and ProgramFailed if the command fails.
    """
    check(command, page_size_bytes)
    counts = _kernel_counts(page_size_bytes)
    found: list[tuple[Figures, Figures]] = []  # with 4 KiB, with the larger pages
    with settings.changed(settings.only_advised(page_size_bytes, settings.present())):
        for number in range(rounds):
            order = ("base", "huge") if number % 2 == 0 else ("huge", "base")
            figures = {pages: measure(command, pages) for pages in order}
            found.append((figures["base"], figures["huge"]))
            if progress is not None:
                progress(number + 1, rounds)
    measures = [name for name in MEASURES if all(name in run for pair in found for run in pair)]
    given = {name: count - counts[name] for name, count in _kernel_counts(page_size_bytes).items()}
    return {
        "schema": SCHEMA,
        "command": list(command),
        "page_bytes": page_size_bytes,
        "rounds": rounds,
        "base": {name: _range([base[name] for base, _ in found]) for name in measures},
        "chosen": {name: _range([chosen[name] for _, chosen in found]) for name in measures},
        "saved": {
            name: _range([_saved(base[name], chosen[name]) for base, chosen in found])
            for name in measures
        },
        "kernel": given,
        "undo_file": str(settings.UNDO),
    }


def check(command: Sequence[str], page_size_bytes: int) -> None:
    """Checks a trial before it changes anything. Raises as `verify` does."""
    if not command:
        raise UsageError("no command to run", hint="write it after --")
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: no such program", hint="give its path, or a name in PATH")
    known = settings.sizes()
    if page_size_bytes not in known:
        offered = ", ".join(map(format_size, known)) or "none: transparent huge pages are missing"
        raise UsageError(
            f"this kernel has no transparent huge pages of {format_size(page_size_bytes)}",
            hint=f"it has {offered}",
        )
    if os.geteuid() != 0:
        raise Refused(
            "measuring a page size changes settings of the machine, which needs root",
            hint="run it with sudo; all settings are restored afterwards",
        )


def measure(command: Sequence[str], pages: str) -> dict[str, float]:
    """One run: minor faults, CPU seconds and peak resident bytes, with those of awaited children.

    ``pages``: ``base`` disables huge pages, ``huge`` asks for them. The program ends with this
    process.
    """
    environment = glibc.asking(os.environ) if pages == "huge" else dict(os.environ)
    reading, writing = os.pipe()
    # With -I and -S, the launcher is smaller than most programs that it measures.
    words = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(writing), pages]
    with open(reading, "rb") as report, _ended_together() as running:
        try:
            # Signals wait until the process to end is known.
            with signals.obeyed_after() as ending:
                ending.hold()
                launched = subprocess.Popen(
                    [*words, *command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[writing],
                    start_new_session=True,
                )
                running.append(launched)
        finally:
            os.close(writing)
        figures = json.loads(report.read() or b"{}")
        launched.wait()
    status = figures.pop("status", None)
    if status != 0:
        raise ProgramFailed(
            f"{command[0]} {_end(status, launched.returncode)}",
            hint="run it by itself first; a trial has no input, and does not emulate other "
            "processors",
        )
    return {name: float(figure) for name, figure in figures.items()}


def _end(status: int | None, launcher: int) -> str:
    """How a failed program ended; without its status if the launcher was killed."""
    if status is None:
        return "was killed" if launcher < 0 else "cannot be started"
    return f"was ended by {named_signal(-status)}" if status < 0 else f"ended with status {status}"


@contextmanager
def _ended_together() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Kills the launchers in the list, and everything they started, if the block raises an
    error."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    except BaseException:
        for launched in running:
            with suppress(ProcessLookupError):
                os.killpg(launched.pid, signal.SIGKILL)
            launched.wait()
        raise


def _kernel_counts(page_size_bytes: int) -> dict[str, int]:
    """The kernel's counts of this size since boot, without those it does not keep."""
    folder = SWITCHES / settings.switch(page_size_bytes)
    paths = {name: folder.parent / "stats" / name for name in KERNEL_COUNTS}
    return {name: int(path.read_text()) for name, path in paths.items() if path.exists()}


def _saved(base: float, chosen: float) -> float:
    """The share of ``base`` that is saved; None if ``base`` is 0."""
    return 1 - chosen / base if base else 0.0


def _range(values: Sequence[float]) -> Spread:
    """Lowest, median and highest."""
    return {"low": min(values), "typical": median(values), "high": max(values)}
