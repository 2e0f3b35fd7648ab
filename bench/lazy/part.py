"""A part of the comparison: its programs, its allocators, and its number of rounds."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from lazy.allocators import ALLOCATORS, ComparedAllocator
from lazy.places import IDLE_S
from lazy.running import Failed, Finish
from lazy.store import Figures, Key, Measurement, Store, load

WITHOUT_BROWSER = tuple(name for name in ALLOCATORS if not name.startswith("browser"))
"""The profile `browser` differs from its mode only for browsers."""


@dataclass(frozen=True)
class Part:
    """One part; each program runs once under each allocator in each round."""

    name: str
    programs: Sequence[str]
    start: Callable[[str, ComparedAllocator], Figures | Finish]
    """Returns figures at once, or a function that waits for them while the next program works."""
    rounds: int
    allocators: Sequence[str] = WITHOUT_BROWSER
    rounds_of: Callable[[str, int], int] = lambda _, rounds: rounds
    """The number of rounds of one allocator, if it differs."""
    place: Callable[[], AbstractContextManager[object]] = nullcontext
    """A context that prepares the machine while the part runs."""


def run(part: Part, store: Store, chosen: Sequence[str], rounds: int) -> None:
    """Runs what the store lacks, one allocator after the other in each round."""
    names = [name for name in part.allocators if name in chosen]
    most = max((part.rounds_of(name, rounds) for name in names), default=0)
    with part.place():
        for number in range(most):
            wanted = [name for name in names if number < part.rounds_of(name, rounds)]
            run_round(part, store, wanted, number)


def run_round(part: Part, store: Store, names: Sequence[str], number: int) -> None:
    """Starts each program when the one before idles, and stores its figures at its end."""
    idle: deque[Idle] = deque()
    for program in part.programs:
        for name in names:
            key = (part.name, program, name, number)
            if key in store.keys:
                continue
            while idle and idle[0].due_s < time.monotonic():
                idle.popleft().end(store)
            print(f"  {part.name} {program}: {name}", file=sys.stderr, flush=True)
            outcome = keep(store, key, partial(part.start, program, ALLOCATORS[name]))
            if callable(outcome):
                idle.append(Idle(key, outcome, time.monotonic() + IDLE_S))
    for program in idle:
        program.end(store)


@dataclass(frozen=True)
class Idle:
    """A program that has done its work and idles for a while."""

    key: Key
    finish: Finish
    due_s: float

    def end(self, store: Store) -> None:
        """Waits for the end of the program, and stores its figures."""
        keep(store, self.key, self.finish)


def keep(store: Store, key: Key, act: Callable[[], Figures | Finish]) -> Figures | Finish:
    """Stores the figures of a run, or its failure; passes on a function that still has to wait."""
    try:
        outcome = act()
    except Failed as failed:
        outcome, failure = {}, str(failed)
    else:
        failure = None
    if not callable(outcome):
        store.add(Measurement(*key, figures=outcome, failure=failure, load=load()))
    return outcome
