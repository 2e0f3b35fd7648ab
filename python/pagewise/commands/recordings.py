"""Words for records of a recording that were lost, rejected or out of order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagewise.errors import DataLost
from pagewise.units import format_count, format_share

KEPT = ("events", "references", "pages")
"""The fields that may count what was kept; the first that exists counts."""


def reject_lines(result: Mapping[str, Any]) -> list[str]:
    """The first bad lines: file, line number and what was expected."""
    rejects = result.get("rejects") or []
    return [
        f"{reject['file']}:{reject['line']}: expected {reject['expected']}"
        + (f", found `{reject['found']}`" if reject["found"] else "")
        for reject in rejects
    ]


def lost(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A row for each kind of loss."""
    return [
        (f"lost: {loss['what']}", format_count(loss["count"])) for loss in result.get("losses", [])
    ]


def disorder(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The row for records out of time order, if there are any."""
    count = facts.get("disordered")
    return [("out of time order", f"{format_count(count)}, kept as they came")] if count else []


def pairs(counts: Any) -> list[tuple[str, int]]:
    """Names with counts, from a dictionary or a list of pairs."""
    items = counts.items() if isinstance(counts, dict) else counts or []
    return [(str(name), int(count)) for name, count in items]


def check_losses(result: Mapping[str, Any], limit: float | None, path: str) -> None:
    """Raises DataLost when more than ``limit`` of the records was lost."""
    lost = sum(loss["count"] for loss in result["losses"])
    kept = next((result[name] for name in KEPT if name in result), 0)
    share = lost / max(1, lost + kept)
    if limit is not None and share > limit:
        raise DataLost(
            f"{path}: {format_count(lost)} records lost, {format_share(share)} of all; "
            f"the limit is {format_share(limit)}",
            path=path,
            hint="record again with larger buffers, or raise --loss-limit",
        )
