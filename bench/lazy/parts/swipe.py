"""WebKitGTK swiped on a display without a screen: programs/swipe.py.

Browser and display share one processor: a frame then takes the time of its work, and rarely
waits for the next tick of the display's clock, which would hide the savings. Both have priority
over other programs of the machine, whose work would count in the response time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import IDLE_S, INPUTS, PROGRAMS, SYSTEM_PYTHON
from lazy.running import LIMIT_S, Finish, start
from lazy.store import Figures

SWIPES, WARM_UPS = 5, 2
# As many points as on a phone, of two pixels each way.
SCREEN, PIXELS_A_POINT = "824x1830x24", "2"
# A priority applies within a session's autogroup; the autogroup has another.
FIRST = [
    "nice",
    "-n",
    "-20",
    "setsid",
    "sh",
    "-c",
    'echo -20 >/proc/self/autogroup; exec "$@"',
    "sh",
]
ONE_PROCESSOR = [*FIRST, "taskset", "-c", str((os.cpu_count() or 1) - 1)]
ALLOCATORS = (
    *("glibc", "glibc fixed", "glibc tuned", "glibc huge pages", "glibc mTHP", "jemalloc"),
    *("mimalloc 2.0", "mimalloc 3.4", "tcmalloc", "scudo", "scudo Android"),
    *("fast", "guarded", "browser", "browser thp"),
)


@contextmanager
def display() -> Iterator[str]:
    """A display of its own, by name; it ends with its last client at the latest."""
    reader, writer = os.pipe()
    words = ["Xvfb", "-displayfd", str(writer), "-screen", "0", SCREEN, "-nolisten", "tcp"]
    server = subprocess.Popen(
        ["timeout", "-k", "10", str(2 * LIMIT_S), *ONE_PROCESSOR, *words, "-terminate"],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(writer)
        with os.fdopen(reader) as number:
            yield f":{number.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def start_swipes(_: str, allocator: ComparedAllocator) -> Finish:
    """One session with the page: warm-up, swipes, and idle."""
    page = INPUTS / "page.html"
    words = [str(PROGRAMS / "swipe.py"), str(page), str(SWIPES), str(WARM_UPS), str(IDLE_S)]
    with ExitStack() as undo:
        name = undo.enter_context(display())
        variables = {"DISPLAY": name, "GDK_SCALE": PIXELS_A_POINT}
        command = [SYSTEM_PYTHON, *words]
        end = start(allocator, command, variables=variables, before=ONE_PROCESSOR)
        opened = undo.pop_all()

    def finish() -> Figures:
        with opened:
            return end()

    return finish


PART = Part("swipe", ("WebKitGTK",), start_swipes, rounds=2, allocators=ALLOCATORS)
