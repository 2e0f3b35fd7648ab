"""The swap area on a disk behind a fast tier: the machine's own, or a new swap file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewise.advice.machine import disk_areas
from pagewise.units import MIB, format_size

if TYPE_CHECKING:
    from pagewise.answers import Machine

FILE = "/swapfile.pagewise"
"""A distinct name, since the machine may have a /swapfile and the undo removes this file."""
FILE_MIB = 256
"""The size of the file is a multiple of this: what is in swap varies from run to run."""
FIRST, SECOND = 100, 1
"""Priorities of the fast tier and of the file behind it."""
PRIORITY_MAX = 32767


@dataclass(frozen=True)
class SlowArea:
    """A swap area on a disk, and the lines that make it; empty if the machine has the area.

    ``priority`` is the highest if there are several.
    """

    priority: int
    apply: str
    undo: str
    note: str

    @property
    def first_priority(self) -> int:
        """A priority of the fast tier that makes the kernel fill it before this area."""
        return min(max(FIRST, self.priority + 1), PRIORITY_MAX)


def slow_area(machine: Machine | None, needed_bytes: int) -> SlowArea:
    """The machine's own areas; if it has none or is not known, a file of ``needed_bytes``."""
    areas = disk_areas(machine)
    if areas:
        paths = " and ".join(area["path"] for area in areas)
        note = f"The machine already swaps to {paths}, which stays as it is."
        return SlowArea(areas[0]["priority"], "", "", note)
    size_mib = max(1, -(-needed_bytes // (FILE_MIB * MIB))) * FILE_MIB
    apply = f"""\
fallocate -l {size_mib}M {FILE} && chmod 600 {FILE} \\
  && mkswap {FILE} && swapon -p {SECOND} {FILE}"""
    undo = f"swapoff {FILE} && rm {FILE}"
    note = (
        f"{_reason(machine, needed_bytes)} On btrfs, "
        f"`btrfs filesystem mkswapfile --size {size_mib}m {FILE}` takes the place of fallocate, "
        "chmod and mkswap."
    )
    return SlowArea(SECOND, apply, undo, note)


def _reason(machine: Machine | None, needed_bytes: int) -> str:
    """Why the file is made and has this size."""
    if needed_bytes > 0:
        reason = f"{FILE} has room for the {format_size(needed_bytes)} that must lie there at once."
    else:
        reason = f"{FILE} is a reserve: the fast tier has room for all that was in swap at once."
    unless = "" if machine else " Leave it out if the machine has a swap area on a disk."
    return f"{reason}{unless}"
