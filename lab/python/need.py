"""An application that needs a given amount of memory: 70 % private, the rest pages of a file.

        need.py FOLDER NAME MIB               NAME takes MIB, of which 3 in 10 are FOLDER/NAME
        need.py FOLDER --make NAME=MIB ...    writes those files, and evicts them from memory

It is ready once it holds all of it. A visit reads three tenths of it again.
"""

import mmap
import os
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20


def own_mib(mib: int) -> int:
    """The part that is not in the file."""
    return mib - mib * 3 // 10


def content(number: int) -> bytes:
    """A MiB with unique content, which cannot be shared or compressed away."""
    return random.Random(number).randbytes(MIB)


def make(folder: Path, needs: dict[str, int]) -> None:
    """Writes the file of each application to storage, and evicts it from memory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, mib in needs.items():
        with (folder / name).open("wb") as file:
            for number in range(mib - own_mib(mib)):
                file.write(content(number))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load(path: Path, mib: int) -> tuple[list[bytearray], mmap.mmap | None]:
    """Fills the memory, and reads the file once through its mapping."""
    seed = content(0)
    own = [bytearray(seed) for _ in range(own_mib(mib))]
    for number, piece in enumerate(own):
        piece[:8] = number.to_bytes(8, "little")
    if not path.exists():
        return own, None
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    zlib.crc32(mapped)
    return own, mapped


def used(pieces: list[bytearray], mapped: mmap.mmap | None, visit: int) -> Iterator[memoryview]:
    """The tenths of the memory that a visit uses; each visit uses the next ones."""
    for number, piece in enumerate(pieces):
        if (number + visit) % 10 < 3:
            yield memoryview(piece)
    if mapped is not None:
        yield memoryview(mapped)[: len(mapped) * 3 // 10]


def main() -> None:
    """Loads the memory, prints "ready", and answers visits."""
    folder, name, *rest = sys.argv[1:]
    if name == "--make":
        make(Path(folder), {file: int(mib) for file, mib in (word.split("=") for word in rest)})
        pieces, mapped = [], None
    else:
        pieces, mapped = load(Path(folder) / name, int(rest[0]))
    print("ready", flush=True)
    for visit, _ in enumerate(sys.stdin):
        total = 0
        for piece in used(pieces, mapped, visit):
            total = zlib.crc32(piece, total)
        print(f"done {total:08x}", flush=True)


if __name__ == "__main__":
    main()
