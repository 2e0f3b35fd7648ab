"""Makes sure that the host backs memory before each program runs.

A virtual machine may give free memory back to its host (free page reporting of virtio_balloon, two
seconds after it was freed, in blocks of 2 MiB). The next owner of a page of it pays for the host's
work on the first touch, 4.5 ms for a huge page instead of 0.09: a program with huge pages then
takes up to three times as long, depending on the programs before it.
"""

from __future__ import annotations

import mmap

BACKED_BYTES = 256 << 20


def back_memory() -> None:
    """Touches memory, as huge pages if possible, and frees it: it is handed out again first."""
    with mmap.mmap(-1, BACKED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:: mmap.PAGESIZE] = bytes(BACKED_BYTES // mmap.PAGESIZE)
