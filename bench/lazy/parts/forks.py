"""The next block of a parent whose child shares its memory: programs/forks.c."""

from __future__ import annotations

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES
from lazy.running import Finish, start

FORKS = 10


def start_forks(_: str, allocator: ComparedAllocator) -> Finish:
    return start(allocator, [str(BINARIES / "forks"), str(FORKS)])


PART = Part("forks", ("forks",), start_forks, rounds=3)
