"""Recordings larger than memory: samples of their pages, how estimates are printed, and limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypedDict, TypeVar

from pagewise.errors import UnreadableInput, UsageError
from pagewise.recording import Trace
from pagewise.units import format_count, format_share, parse_size

if TYPE_CHECKING:
    from pagewise.types import (
        Analysis,
        AnalysisSample,
        Misses,
        MissSample,
        Simulate,
        SimulateSample,
    )

Sampled: TypeAlias = "AnalysisSample | MissSample | SimulateSample"
Result = TypeVar("Result", "Analysis", "Misses", "Simulate")

ENOUGH_PAGES = 16_000
"""The least pages of a share: with 8,000, LRU miss ratios of some recordings are off by more than
.01 on average (docs/analyses.md)."""

COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6}
COUNT = re.compile(r"\s*([0-9]{1,12})\s*([kKmM]?)\s*")
PERCENT = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})\s*%\s*")


class SampleSize(TypedDict, total=False):
    """The size of a sample as arguments of the compiled functions; empty for no sample."""

    sample_rate: float
    sample_pages: int


def parse_sample(text: str | float | None) -> SampleSize:
    """A sample of ``"1%"`` of the pages, or of at most ``"32k"`` (32,000) of them.

    A number below 1 is a share, an integer from 1 a number of pages. `of_enough_pages` enlarges a
    share that leaves few pages.
    """
    if text is None:
        return {}
    if not isinstance(text, str):
        if 0 < text < 1:
            return {"sample_rate": float(text)}
        text = str(text)
    if (match := PERCENT.fullmatch(text)) and 0 < (rate := float(match[1]) / 100) <= 1:
        return {"sample_rate": rate}
    if (match := COUNT.fullmatch(text)) and (
        pages := int(match[1]) * COUNT_UNITS[match[2].lower()]
    ):
        return {"sample_pages": pages}
    raise UsageError(
        f"not a sample: {text!r}",
        hint="a share of the pages up to 100%, as in 1%, or a number of pages, as in 32k",
    )


def of_enough_pages(source: Trace, size: SampleSize, ask: Callable[[SampleSize], Result]) -> Result:
    """The result of ``ask`` for a sample of this size.

    If a share of the pages leaves fewer than `ENOUGH_PAGES`, the recording is read again for a
    sample of `ENOUGH_PAGES`, or of all pages if it has fewer. A pipe cannot be read again, so its
    share stays as it is. So does a number of pages.
    """
    if size.get("sample_rate", 1) == 1 or is_read_once(source):
        return ask(size)
    larger: SampleSize = {"sample_pages": ENOUGH_PAGES}
    try:
        result = ask(size)
    except UsageError:  # a fast tier may be too small for the sample
        return ask(larger)
    sample = result.get("sample")
    return result if sample is None or sample["pages"] >= ENOUGH_PAGES else ask(larger)


def refuse_second_reading(source: Trace, size: SampleSize) -> None:
    """Raises UsageError for a pipe if a first reading must find the rate of the sample."""
    if "sample_pages" in size and is_read_once(source):
        raise UsageError(
            f"{source.path}: a sample of a number of pages needs a second pass over the recording",
            path=source.path,
            hint="give a share of the pages, as in --sample 1%, or save the recording to a file",
        )


def refuse_empty(source: Trace, sample: Sampled | None) -> None:
    """Raises UnreadableInput for a sample without pages, which estimates nothing.

    Only a pipe, or a recording whose events access no page, gives such a sample.
    """
    if sample is not None and not sample["pages"]:
        raise UnreadableInput(
            f"{source.path}: has no page in the sample",
            path=source.path,
            hint="take a larger share, or save the recording to a file, of which a share takes "
            f"at least {format_count(ENOUGH_PAGES)} pages",
        )


def refuse_larger_pages_of(size: SampleSize) -> None:
    """Raises UsageError if a sample is asked for, which splits larger pages."""
    if size:
        raise UsageError(
            "a sample has pages as recorded, not larger ones",
            hint="use only one of --sample and --page-size",
        )


def refuse_larger_pages_within(limit: int | None) -> None:
    """Raises UsageError for a memory limit: only pages as recorded can be numbered on disk."""
    if limit is not None:
        raise UsageError(
            "larger pages have no limit of memory",
            hint="use only one of --memory-limit and --page-size",
        )


def is_read_once(source: Trace) -> bool:
    """Whether the recording is standard input, or a pipe that exists."""
    if os.path.isfile(source.path):
        return False
    return source.path == "-" or os.path.exists(source.path)


def parse_memory_limit(source: Trace, text: int | str | None, sample: SampleSize) -> int | None:
    """Bytes of a limit of memory such as ``"2GiB"``.

    Raises UsageError together with a sample, and for a pipe, which cannot be read again.
    """
    if text is None:
        return None
    limit = parse_size(text)
    if sample:
        raise UsageError(
            "the memory of a sample follows from its size",
            hint="use only one of --sample and --memory-limit",
        )
    if is_read_once(source):
        raise UsageError(
            f"{source.path}: a limit of memory needs a second pass over the recording",
            path=source.path,
            hint="save the recording to a file, and give that file",
        )
    return limit


def sample_in_words(sample: Sampled) -> str:
    """The size of a sample: ``1.0 % of the pages (3,771 with 8,153 accesses)``."""
    counts = f"{format_count(sample['pages'])} with {format_count(sample['accesses'])} accesses"
    return f"{format_share(sample['rate'])} of the pages ({counts})"


def share_within(share: float | None, error: float | None) -> str:
    """A share with half of the width of its confidence interval, if it is an estimate."""
    written = format_share(share)
    return written if error is None else f"{written} +/- {error * 100:.1f}"


def count_within(count: int, error: float | None) -> str:
    """A count with half of the width of its confidence interval, if it is an estimate."""
    written = format_count(count)
    return written if error is None else f"{written} +/- {format_count(round(error))}"
