"""Problems that keep an ELF file from running with larger pages, and their fixes.

Sources: elf/dl-load.c of glibc 2.36 and linker_phdr.cpp of Android 15 refuse, or map wrongly,
segments aligned to less than a page; src/pages.c of jemalloc 5.3 refuses pages larger than it was
built for; arch/arm64/Kconfig of Linux 6.18 allows 32-bit programs only with pages of 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pagewise.binaries.elf import Damaged, Image, Segment, read_image
from pagewise.units import format_size

SEARCHED_BYTES_MAX = 2**30
"""How many bytes of a file are searched for allocators."""
CHUNK_BYTES = 2**20
JEMALLOC = b"<jemalloc>: Unsupported system page size"
"""A text in every jemalloc, built for any page size."""


@dataclass(frozen=True)
class Problem:
    """A problem and its fix. ``is_certain``: the program fails; otherwise it may fail."""

    what: str
    fix: str
    is_certain: bool = True


@dataclass(frozen=True)
class Checked:
    """The result for a program or shared object; ``alignment_bytes`` is the smallest alignment."""

    path: str
    machine: str | None
    alignment_bytes: int | None
    problems: tuple[Problem, ...]


def check_file(path: str, file: BinaryIO, size_bytes: int, page_bytes: int) -> Checked | None:
    """The problems with pages of ``page_bytes``; None if it is not a program or shared object.

    ``path`` is only used in the result.
    """
    try:
        image = read_image(file, size_bytes)
    except Damaged as error:
        return Checked(path, None, None, (Problem(str(error), "build or copy it again"),))
    if image is None:
        return None
    problems = [*_of_image(image, page_bytes)]
    file.seek(0)
    if _holds(file, JEMALLOC):
        problems.append(_jemalloc(page_bytes))
    alignment = min((segment.alignment for segment in image.segments), default=None)
    return Checked(path, image.machine, alignment, tuple(problems))


def _of_image(image: Image, page_bytes: int) -> Iterator[Problem]:
    """The problems of the LOAD segments and the machine."""
    size = format_size(page_bytes)
    if image.bits == 32:
        yield Problem(
            f"32-bit {image.machine}: kernels with pages of {size} run only 64-bit programs",
            "build it for 64 bits",
        )
        return
    small = [segment for segment in image.segments if segment.alignment < page_bytes]
    if small:
        least = min(segment.alignment for segment in small)
        yield Problem(
            f"LOAD segments aligned to {format_size(least)}",
            f"link with -Wl,-z,max-page-size={page_bytes}",
        )
    elif any(_is_torn(segment, page_bytes) for segment in image.segments):
        yield Problem(
            f"a LOAD segment has different offsets within a {size} page in file and memory",
            f"link again with -Wl,-z,max-page-size={page_bytes}, and do not change the file "
            "afterwards",
        )


def _is_torn(segment: Segment, page_bytes: int) -> bool:
    """Whether no mapping of whole pages can place the segment correctly."""
    return (segment.address - segment.offset) % page_bytes != 0


def _jemalloc(page_bytes: int) -> Problem:
    """The problem of a file with jemalloc in it."""
    shift = page_bytes.bit_length() - 1
    return Problem(
        f"holds jemalloc, which stops unless it was built for pages of {format_size(page_bytes)}",
        f"build jemalloc with --with-lg-page={shift} (Rust: JEMALLOC_SYS_WITH_LG_PAGE={shift})",
        is_certain=False,
    )


def _holds(file: BinaryIO, wanted: bytes) -> bool:
    """Whether the searched part of the file has these bytes."""
    tail, searched = b"", 0
    while searched < SEARCHED_BYTES_MAX and (chunk := file.read(CHUNK_BYTES)):
        if wanted in tail + chunk:
            return True
        tail, searched = chunk[-len(wanted) :], searched + len(chunk)
    return False
