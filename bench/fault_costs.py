"""Cost of a page on this machine: to fault, to fill ahead, to clear, to touch once lazily freed.

    python bench/fault_costs.py

prints the figures that studies/pagewise_studies/checks/lazy-unmap-costs.toml keeps: medians of
processor time, of 41 rounds per size and then over the sizes, without the writing itself.
"""

import ctypes
import mmap
import statistics
import time
from collections.abc import Callable, Iterator

PAGE_BYTES = 4096
SIZES = (256 << 10, 1 << 20, 8 << 20)
ROUNDS = 41
CALLS = 200


def main() -> None:
    """Measures each size in turn, round by round."""
    found: dict[str, list[float]] = {}
    for size in SIZES:
        rounds = [dict(per_page(size)) for _ in range(ROUNDS)]
        for name in rounds[0]:
            found.setdefault(name, []).append(statistics.median(taken[name] for taken in rounds))
    for name, costs in found.items():
        print(f"{name} = {statistics.median(costs):.0f}")
    print(f"call_ns = {statistics.median(call_ns() for _ in range(ROUNDS)):.0f}")


def per_page(size: int) -> Iterator[tuple[str, float]]:
    """Nanoseconds per page of one round."""
    pages = size // PAGE_BYTES
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    first = write(memory, size)
    again = write(memory, size)
    memory.madvise(mmap.MADV_FREE)
    freed = write(memory, size)
    unmapping = timed(memory.close)
    how = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    filled: list[mmap.mmap] = []
    filling = timed(lambda: filled.append(mmap.mmap(-1, size, flags=how)))
    filled[0].close()
    yield "fault_ns", (first - again + unmapping) / pages
    yield "populate_ns", (filling + unmapping) / pages
    yield "zero_ns", again / pages
    yield "lazy_touch_ns", max(0, freed - again) / pages


def write(memory: mmap.mmap, size: int) -> int:
    """Nanoseconds to clear the memory."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return timed(lambda: ctypes.memset(address, 0, size))


def call_ns() -> float:
    """Nanoseconds of mapping and of unmapping untouched memory."""

    def calls() -> None:
        for _ in range(CALLS):
            mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()

    return timed(calls) / (2 * CALLS)


def timed(work: Callable[[], object]) -> int:
    """Nanoseconds of processor time."""
    before = time.process_time_ns()
    work()
    return time.process_time_ns() - before


if __name__ == "__main__":
    main()
