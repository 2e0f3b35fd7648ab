"""Blocks that other threads free, in batches, as in xmalloc-test: programs/exchange.c."""

from __future__ import annotations

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES
from lazy.running import Finish, start

FLOW, TURNS = "flow", "turns"
SIZES = {
    "8 B to 1 KiB": ("8", "1024", "4096", "200"),
    "8 B to 128 KiB": ("8", "131072", "1024", "80"),
    "64 KiB": ("65536", "65536", "4096", "10"),
    "64 to 256 KiB": ("65536", "262144", "512", "40"),
}
"""Smallest and largest block, blocks per batch, batches: sizes below, around and above what the
library serves."""
PAIRS = 2
"""Pairs of an allocating and a freeing thread."""


def start_exchange(program: str, allocator: ComparedAllocator) -> Finish:
    pace, _, sizes = program.partition(" ")
    return start(allocator, [str(BINARIES / "exchange"), pace, *SIZES[sizes], str(PAIRS)])


PROGRAMS = tuple(f"{pace} {sizes}" for pace in (FLOW, TURNS) for sizes in SIZES)
PART = Part("exchange", PROGRAMS, start_exchange, rounds=5)
