"""What a part of the comparison is: which programs under which allocators, how often."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from lazy.allocators import ALLOCATORS, Allocator
from lazy.places import IDLE_S
from lazy.running import Failed, Finish
from lazy.store import Figures, Key, Run, Store, load

WITHOUT_BROWSER = tuple(name for name in ALLOCATORS if not name.startswith("browser"))
"""The profile `browser` differs from its mode only in what a browser does."""


@dataclass(frozen=True)
class Part:
    """One part; each program runs once under each allocator in each round."""

    name: str
    programs: Sequence[str]
    start: Callable[[str, Allocator], Figures | Finish]
    """Figures at once, or a way to wait for them while the next one works."""
    rounds: int
    allocators: Sequence[str] = WITHOUT_BROWSER
    rounds_of: Callable[[str, int], int] = lambda _, rounds: rounds
    """Rounds of one allocator, where they differ."""
    place: Callable[[], AbstractContextManager[object]] = nullcontext
    """What is set up on the machine while the part runs."""


def run(part: Part, store: Store, chosen: Sequence[str], rounds: int) -> None:
    """Does what the store lacks, one allocator after the other in each round."""
    names = [name for name in part.allocators if name in chosen]
    most = max((part.rounds_of(name, rounds) for name in names), default=0)
    with part.place():
        for number in range(most):
            wanted = [name for name in names if number < part.rounds_of(name, rounds)]
            run_round(part, store, wanted, number)


def run_round(part: Part, store: Store, names: Sequence[str], number: int) -> None:
    """Starts each when the one before has worked, and is idle; stores each when it is over."""
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
    for one in idle:
        one.end(store)


@dataclass(frozen=True)
class Idle:
    """A program that has worked and is idle for a while."""

    key: Key
    finish: Finish
    due_s: float

    def end(self, store: Store) -> None:
        """Waits for it."""
        keep(store, self.key, self.finish)


def keep(store: Store, key: Key, act: Callable[[], Figures | Finish]) -> Figures | Finish:
    """Stores what a run gives, or how it failed; passes on what is to be waited for."""
    try:
        outcome = act()
    except Failed as failed:
        outcome, failure = {}, str(failed)
    else:
        failure = None
    if not callable(outcome):
        store.add(Run(*key, figures=outcome, failure=failure, load=load()))
    return outcome
