"""Large blocks that are only allocated, written and freed: programs/churn.c."""

from __future__ import annotations

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES, IDLE_S
from lazy.running import Finish, start

BLOCKS = 800


def start_churn(program: str, allocator: ComparedAllocator) -> Finish:
    return start(allocator, [str(BINARIES / "churn"), program, str(BLOCKS), str(IDLE_S)])


PART = Part("churn", ("malloc", "calloc"), start_churn, rounds=5)
