"""Generates scripts of random operations; the seed determines the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

NUMBERS = 4
ANYWHERE: Mapping[str, int] = {
    # Blocks.
    "malloc": 10,
    "calloc": 6,
    "aligned": 5,
    "realloc": 9,
    "new": 5,
    "free": 7,
    "usable": 2,
    "refused": 1,
    "check": 2,
    "hand_over": 5,
    "tune": 1,
    "inside": 5,
    # Mappings.
    "map": 10,
    "unmap": 5,
    "unmap_part": 6,
    "write": 9,
    "read": 4,
    "map_over": 4,
    "protect": 4,
    "advise": 7,
    "lock": 2,
    "sync": 1,
    "incore": 2,
    "pipe": 2,
    "map_refused": 2,
    "look_up": 2,
    "remap": 8,
    "unmap_across": 2,
    # Processes.
    "fork": 3,
    "family": 1,
    "spawn": 1,
    "thread": 4,
    "signal": 2,
    "library": 2,
    "other_stack": 1,
    "leave": 1,
}
IN_PARALLEL: Mapping[str, int] = {"timer": 1, "background": 1}
IN_SERIES: Mapping[str, int] = {
    "no_replace": 4,
    "hint": 3,
    "hole_calls": 3,
    "hole_remap": 3,
    "regrow": 3,
    "grow_down": 3,
    "attach": 2,
    "limit": 1,
    "lock_all": 1,
    "descriptor": 1,
}
FORKS_MAX = 5
RARE = ("limit", "lock_all", "family", "spawn", "leave", "background")
"""One script in four has each: after a limit of address space the library stops serving."""


@dataclass(frozen=True)
class Script:
    """A script: its settings for the first line, and a line for each operation."""

    pace: str
    workers: int
    collections: int
    operations: Sequence[str]

    def text(self) -> str:
        """The script as text for the program."""
        first = f"{self.pace} {self.workers} {self.collections}"
        return "\n".join([first, *self.operations]) + "\n"


def generate(seed: int, without: Sequence[str] = ()) -> Script:
    """The script of a seed: half are serial, half parallel, most of these with a collector.

    The script has no operation named in `without`.
    """
    random = Random(seed)
    pace = random.choice(["serial", "parallel"])
    workers = random.choice([1, 2, 3, 5])
    weights = dict(ANYWHERE) | dict(IN_SERIES if pace == "serial" else IN_PARALLEL)
    for name in RARE:
        if name in weights and random.randrange(4):
            del weights[name]
    # Scripts with many operations of a few kinds reach states that an even mix never reaches.
    for name in random.sample(sorted(weights), 6):
        weights[name] *= random.choice([1, 5, 20])
    # A child repeats operations of its parent, so more of these would take minutes.
    for name in ("fork", "family", "spawn"):
        weights[name] = min(weights.get(name, 0), FORKS_MAX)
    count = random.choice([30, 100, 100, 300, 300, 600])
    kinds = random.choices(list(weights), list(weights.values()), k=count)
    operations = [
        " ".join([str(index), str(random.randrange(workers)), kind, *numbers(random)])
        for index, kind in enumerate(kinds)
        if kind not in without
    ]
    collections = 0 if pace == "serial" else random.choice([0, 20, 100])
    return Script(pace, workers, collections, operations)


def numbers(random: Random) -> list[str]:
    """The four numbers of an operation, which uses them as slots, sizes or variants."""
    return [str(random.getrandbits(32)) for _ in range(NUMBERS)]
