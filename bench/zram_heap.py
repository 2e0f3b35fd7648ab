"""A program with memory of one kind, for bench/zram.py and tests/live/test_pages.py.

`zram_heap.py KIND MIB` fills a mapping of MIB with memory of a kind, prints `ready ADDRESS`, and
then answers each line of its input: `touch` reads a byte of each page and prints the CPU seconds
that this took. It ends at the end of its input.
"""

import ctypes
import json
import mmap
import random
import sys
import time
from pathlib import Path

MIB = 1 << 20
PAGE_BYTES = mmap.PAGESIZE
NO_HUGE_PAGES = 15  # MADV_NOHUGEPAGE of Linux
WORDS = (
    *("page", "swap", "slot", "fault", "zone", "cache", "dirty", "clean"),
    *("owner", "ratio", "pool", "memory", "reclaim", "pressure"),
)


def objects(size: int) -> object:
    """Objects of a program: records with numbers, strings and references."""
    numbers = random.Random(1)
    return [
        {"id": number, "name": f"user{number}", "score": numbers.random(), "tags": [number % 7]}
        for number in range(size // 600)
    ]


def documents(size: int) -> object:
    """A JSON text, and the objects that were parsed from it."""
    numbers = random.Random(2)

    def entry(number: int) -> dict[str, object]:
        text = " ".join(numbers.choices(WORDS, k=12))
        return {"url": f"https://example.org/{number}", "text": text, "at": numbers.random()}

    text = json.dumps([entry(number) for number in range(size // 1400)])
    return text, json.loads(text)


def noise(size: int) -> object:
    """Random bytes, as of compressed or encrypted data."""
    numbers = random.Random(3)
    return b"".join(numbers.randbytes(MIB) for _ in range(size // MIB))


def constant(size: int) -> object:
    """Equal words everywhere, of which zram stores no data."""
    return b"\x5a" * size


KINDS = {"objects": objects, "documents": documents, "noise": noise, "constant": constant}


def copied(size: int) -> bytes:
    """The anonymous memory of this process, at most this many bytes of it."""
    found = bytearray()
    with Path("/proc/self/maps").open() as maps, Path("/proc/self/mem").open("rb", 0) as memory:
        for line in maps.readlines():
            fields = line.split()
            if (len(fields) > 5 and fields[5] != "[heap]") or fields[1] != "rw-p":
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            found += memory.read(min(end - start, size - len(found)))
            if len(found) >= size:
                break
    return bytes(found)


def without_same_filled(memory: bytes) -> bytes:
    """The pages whose words are not all equal: the kernel swaps pages of zeros out without a write,
    and zram stores no data of equal words."""
    pages = (memory[at : at + PAGE_BYTES] for at in range(0, len(memory), PAGE_BYTES))
    return b"".join(page for page in pages if page != page[:8] * (len(page) // 8))


def main() -> None:
    kind, size = sys.argv[1], int(sys.argv[2]) * MIB
    region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region.madvise(NO_HUGE_PAGES)
    held = KINDS[kind](size)
    text = held if isinstance(held, bytes) else without_same_filled(copied(size))
    del held
    for place in range(0, size, len(text)):
        region[place : place + len(text)] = text[: size - place]
    del text
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    print(f"ready {address}", flush=True)
    for line in sys.stdin:
        if line == "touch\n":
            started = time.process_time()
            region[::PAGE_BYTES]
            print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    main()
