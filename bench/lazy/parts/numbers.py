"""numpy with large temporaries: programs/temporaries.py."""

from __future__ import annotations

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import IDLE_S, PROGRAMS, SYSTEM_PYTHON
from lazy.running import Finish, start

STEPS = 150


def start_numpy(_: str, allocator: ComparedAllocator) -> Finish:
    command = [SYSTEM_PYTHON, str(PROGRAMS / "temporaries.py"), str(STEPS), str(IDLE_S)]
    return start(allocator, command)


PART = Part("numpy", ("numpy",), start_numpy, rounds=3)
