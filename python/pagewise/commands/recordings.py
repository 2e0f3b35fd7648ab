"""Words for records of a recording that were lost, rejected or out of order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pagewise.errors import DataLost
from pagewise.units import format_count, format_share

if TYPE_CHECKING:
    from pagewise.fleet import Fleet
    from pagewise.types import Loss, Reject

EXPLAINED = {"pgw": "pgw, the layout of an early recorder"}
"""Formats whose name tells a reader nothing."""
LOSSY_SHOWN = 10
"""How many recordings that lost too much get a line each."""


def format_in_words(name: str) -> str:
    """The name of a format, with what it is if the name does not say it."""
    return EXPLAINED.get(name, name)


def reject_lines(rejects: Sequence[Reject]) -> list[str]:
    """The first bad lines: file, line number and what was expected."""
    return [
        f"{reject['file']}:{reject['line']}: expected {reject['expected']}"
        + (f", found `{reject['found']}`" if reject["found"] else "")
        for reject in rejects
    ]


def lost(losses: Sequence[Loss]) -> list[tuple[str, str]]:
    """A row for each kind of loss."""
    return [(f"lost: {loss['what']}", format_count(loss["count"])) for loss in losses]


def disorder(count: int) -> list[tuple[str, str]]:
    """The row for records out of time order, if there are any."""
    return [("out of time order", f"{format_count(count)}, kept as they came")] if count else []


def pairs(counts: Mapping[str, int] | Sequence[Sequence[str | int]]) -> list[tuple[str, int]]:
    """Names with counts, from a dictionary or a list of pairs."""
    items = counts.items() if isinstance(counts, Mapping) else counts
    return [(str(name), int(count)) for name, count in items]


def check_losses(losses: Sequence[Loss], kept: int, limit: float | None, path: str) -> None:
    """Raises DataLost when more than ``limit`` of the records was lost."""
    check_lost(sum(loss["count"] for loss in losses), kept, limit, path)


def check_lost(lost: float, kept: float, limit: float | None, path: str) -> None:
    """Raises DataLost when ``lost`` records are more than ``limit`` of all."""
    share = lost / max(1, lost + kept)
    if limit is not None and share > limit:
        raise DataLost(
            f"{path}: {format_count(round(lost))} records lost, {format_share(share)} of all; "
            f"the limit is {format_share(limit)}",
            path=path,
            hint="record again with larger buffers, or raise --loss-limit",
        )


def check_losses_of_each(found: Fleet, limit: float | None) -> None:
    """Raises DataLost when a recording of a folder lost more than ``limit`` of its records."""
    lossy: list[DataLost] = []
    for each in found["recordings"]:
        try:
            check_lost(each["figures"]["lost"], each["figures"]["events"], limit, each["trace"])
        except DataLost as error:
            lossy.append(error)
    if lossy:
        raise all_lossy(lossy)


def all_lossy(errors: Sequence[DataLost]) -> DataLost:
    """One error about all recordings of a folder that lost too much, with the first few."""
    [first, *others] = errors
    if not others:
        return first
    lines = [f"  {error}" for error in errors[:LOSSY_SHOWN]]
    if len(errors) > LOSSY_SHOWN:
        lines.append(f"  and {format_count(len(errors) - LOSSY_SHOWN)} more")
    title = f"{format_count(len(errors))} recordings lost more than the limit:"
    return DataLost("\n".join([title, *lines]), path=first.path, hint=first.hint)
