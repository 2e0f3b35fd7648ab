"""Pages larger than those of the recording: their sizes, and checks before a replay."""

from __future__ import annotations

import os
from typing import SupportsIndex

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.recording import Trace
from pagewise.units import GIB, PAGE_BYTES, format_size, parse_size

PAGE_BYTES_MAX = GIB


def parse_page_size(text: str | SupportsIndex | None) -> int:
    """Bytes of ``"16KiB"``; None means the page size of recordings."""
    if text is None:
        return PAGE_BYTES
    size = parse_size(text)
    if size & (size - 1) or not PAGE_BYTES <= size <= PAGE_BYTES_MAX:
        raise UsageError(
            f"not a page size: {text}", hint="a power of two from 4KiB to 1GiB, e.g. 16KiB"
        )
    return size


def refuse_what_is_read_once(source: Trace) -> None:
    """Raises UsageError for a pipe: a second pass compares larger pages with the recorded ones."""
    if not os.path.isfile(source.path) and (source.path == "-" or os.path.exists(source.path)):
        raise UsageError(
            f"{source.path}: larger pages need a second pass over the recording",
            path=source.path,
            hint="save the recording to a file, and give that file",
        )


def refuse_times_of_small_pages(page_bytes: int, *devices: str) -> None:
    """Raises UsageError for READ/WRITE times, which do not give the time of a larger page."""
    for text in devices:
        if page_bytes > PAGE_BYTES and _core.device(text).get("is_exact"):
            raise UsageError(
                f"{text} does not give the time of a {format_size(page_bytes)} page",
                hint="use a name from `pagewise devices`, or a device file with [transfer]",
            )
