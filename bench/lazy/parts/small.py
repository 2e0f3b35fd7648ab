"""Blocks that are too small for the library, which passes them to libc: programs/small.c."""

from __future__ import annotations

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES
from lazy.running import Finish, start

STEPS = {
    "order 64": "20000000",
    "order 1024": "2000000",
    "replace 1": "6000000",
    "replace 2": "3000000",
    "thread 1": "4000000",
    "thread 2": "2000000",
}
"""Steps of each program: half a second or less."""


def start_small(program: str, allocator: ComparedAllocator) -> Finish:
    return start(allocator, [str(BINARIES / "small"), *program.split(), STEPS[program]])


PART = Part("small", tuple(STEPS), start_small, rounds=9)
