"""Pages larger than those of the recording: their sizes, and what is needed to replay with them."""

from __future__ import annotations

import os
from typing import SupportsIndex

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.recording import Trace
from pagewise.units import GIB, PAGE_BYTES, format_size, parse_size

PAGE_BYTES_MAX = GIB


def parse_page_size(text: str | SupportsIndex | None) -> int:
    """Bytes of ``"16KiB"``; None is the page of every recording."""
    if text is None:
        return PAGE_BYTES
    size = parse_size(text)
    if size & (size - 1) or not PAGE_BYTES <= size <= PAGE_BYTES_MAX:
        raise UsageError(f"no page size: {text}", hint="a power of two from 4KiB to 1GiB, as 16KiB")
    return size


def refuse_what_is_read_once(source: Trace) -> None:
    """An error for a pipe: larger pages are compared with the recorded ones in a second pass."""
    if not os.path.isfile(source.path) and (source.path == "-" or os.path.exists(source.path)):
        raise UsageError(
            f"{source.path}: larger pages are compared with recorded ones, so it is read twice",
            path=source.path,
            hint="save the recording to a file, and give that",
        )


def refuse_times_of_small_pages(page_bytes: int, *devices: str) -> None:
    """An error for READ/WRITE times, which do not tell what a larger page takes."""
    for text in devices:
        if page_bytes > PAGE_BYTES and _core.device(text).get("is_exact"):
            raise UsageError(
                f"{text} does not tell what {format_size(page_bytes)} take",
                hint="name a device of `pagewise devices`, or a device file with [transfer]",
            )
