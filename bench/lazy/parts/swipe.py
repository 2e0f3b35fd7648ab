"""WebKitGTK swiped on a display without a screen: programs/swipe.py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from lazy.allocators import Allocator
from lazy.part import Part
from lazy.places import IDLE_S, INPUTS, PROGRAMS, SYSTEM_PYTHON
from lazy.running import start
from lazy.store import Figures

SWIPES, WARM_UPS = 6, 2
SCREEN = "412x915x24"
ALLOCATORS = (
    *("glibc", "glibc fixed", "glibc tuned", "glibc huge pages", "glibc mTHP", "jemalloc"),
    *("mimalloc 2.0", "mimalloc 3.4", "tcmalloc", "scudo", "scudo Android"),
    *("fast", "guarded", "browser", "browser thp"),
)


@contextmanager
def display() -> Iterator[str]:
    """A display of its own, by name."""
    reader, writer = os.pipe()
    words = ["Xvfb", "-displayfd", str(writer), "-screen", "0", SCREEN, "-nolisten", "tcp"]
    server = subprocess.Popen(words, pass_fds=[writer], stderr=subprocess.DEVNULL)
    try:
        os.close(writer)
        with os.fdopen(reader) as told:
            yield f":{told.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def run_swipes(_: str, allocator: Allocator) -> Figures:
    """One session with the page: warm-ups, swipes, and idle."""
    page = INPUTS / "page.html"
    words = [str(PROGRAMS / "swipe.py"), str(page), str(SWIPES), str(WARM_UPS), str(IDLE_S)]
    with display() as name:
        return start(allocator, [SYSTEM_PYTHON, *words], variables={"DISPLAY": name})()


PART = Part("swipe", ("WebKitGTK",), run_swipes, rounds=2, allocators=ALLOCATORS)
