"""Runs a program in every mode in turn, keeps each run, and repeats what differs."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lazy.store import Measurement, Store, load

from programs.group import OPEN
from programs.modes import FAST, MODES, STOCK, Mode
from programs.outcome import short
from programs.places import OUTCOMES, SOURCES
from programs.program import Program
from programs.running import run
from programs.swap import swap

OTHER_ROUNDS = 2
"""Rounds of the modes without a limit of CPU time."""
JUDGED_TIMES = 2
"""Factor on the rounds of programs whose CPU time in `fast` has a limit."""
REPEATS = 3
"""Additional rounds of stock and of a mode that differed from it."""


@dataclass(frozen=True)
class Measuring:
    """Where runs are stored, where programs run, and in which modes."""

    store: Store
    place: Path
    modes: Sequence[Mode] = tuple(MODES.values())


def fingerprint(program: Program) -> str:
    """A hash of the program's definition and sources: runs of a changed program do not count."""
    same = replace(program, what="", family="", is_quick=False, is_served=None, prepare=None)
    digest = hashlib.sha256(repr(same).encode())
    if program.prepare:
        digest.update(program.prepare.__name__.encode())
    named = re.findall(r"SOURCES/([\w.]+)", " ".join(program.words))
    sources = [SOURCES / name for name in [*(built.source for built in program.built), *named]]
    for path in sources:
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:16]


def measure(measuring: Measuring, program: Program, rounds: int) -> None:
    """Runs what the store lacks: stock and `fast` in all rounds, other modes in the first ones."""
    with swap() if program.has_swap else nullcontext():
        if program.is_together:
            together(measuring, program, 0)
        rounds *= 1 if program.allocates_large else JUDGED_TIMES
        for number in range(0 if program.is_together else rounds):
            for mode in measuring.modes:
                if mode.name in (STOCK, FAST) or number < OTHER_ROUNDS:
                    keep(measuring, program, mode, number)
        repeat(measuring, program, rounds)


def repeat(measuring: Measuring, program: Program, rounds: int) -> None:
    """Runs stock and modes that differ some more times: stock may have the same outcome, too."""
    differing = [
        mode for mode in measuring.modes if differing_runs(measuring.store, program, mode.name)
    ]
    for number in range(rounds, rounds + REPEATS if differing else rounds):
        for mode in (MODES[STOCK], *differing):
            keep(measuring, program, mode, number)


def together(measuring: Measuring, program: Program, number: int) -> None:
    """Runs all modes at the same time."""
    with ThreadPoolExecutor(len(measuring.modes)) as pool:
        work = [
            pool.submit(keep, measuring, program, mode, number, str(place))
            for place, mode in enumerate(measuring.modes)
        ]
        try:
            for future in work:
                future.result()
        except BaseException:
            # The pool waits for its threads, and the threads for their programs, so kill those.
            for group in list(OPEN):
                with suppress(OSError):  # removed by its own thread meanwhile
                    group.end()
            raise


def keep(measuring: Measuring, program: Program, mode: Mode, number: int, apart: str = "") -> None:
    """Runs the program once unless the store has that run; writes the outcome to its own file."""
    key = (fingerprint(program), program.name, mode.name, number)
    if key in measuring.store.keys:
        return
    ran = run(program, mode, measuring.place / apart)
    name = short(ran.outcome)
    OUTCOMES.mkdir(parents=True, exist_ok=True)
    (OUTCOMES / f"{name}.txt").write_text(ran.outcome)
    served = "served" if ran.served else "loaded" if ran.is_loaded else "not loaded"
    line = f"  {mode.name}: {ran.end}, {ran.cpu_s:.2f} s, {name}, {served}"
    print(line, file=sys.stderr, flush=True)
    figures = {
        "outcome": name,
        "end": ran.end,
        "cpu_s": ran.cpu_s,
        "peak_bytes": ran.peak_bytes,
        "charged_bytes": ran.charged_bytes,
        "wall_s": ran.wall_s,
        "is_loaded": ran.is_loaded,
        "served": ran.served,
    }
    measuring.store.add(Measurement(*key, figures=figures, load=load()))


def runs_of(store: Store, program: Program, mode: str) -> list[Measurement]:
    """Stored runs of the program as it is now, in the order of rounds."""
    part = fingerprint(program)
    chosen = (run for run in store.runs if run.key[:3] == (part, program.name, mode))
    return sorted(chosen, key=lambda run: run.round)


def differing_runs(store: Store, program: Program, mode: str) -> list[Measurement]:
    """Runs of a mode whose outcome no stock run has."""
    stock = outcomes(runs_of(store, program, STOCK))
    return [run for run in runs_of(store, program, mode) if run.figures["outcome"] not in stock]


def outcomes(runs: Iterable[Measurement]) -> list[str]:
    """The distinct names of the runs' outcomes, in order of first appearance."""
    return list(dict.fromkeys(run.figures["outcome"] for run in runs))
