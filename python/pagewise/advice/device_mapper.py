"""A fast block device in front of the swap area's slow one, by targets of the device mapper.

Sources: Documentation/admin-guide/device-mapper/{writecache,cache,cache-policies}.rst of Linux
6.18 and drivers/md/dm-writecache.c; what they do to swap was tried in tests/vm.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any, TypeAlias

from pagewise.advice.machine import swapon_priority
from pagewise.advice.setting import Setting
from pagewise.units import MIB

SECTOR_BYTES = 512
BLOCK_SECTORS = 64
"""The smallest block of dm-cache, 32 KiB: eight pages."""
METADATA_BYTES, METADATA_BYTES_PER_BLOCK = 4 * MIB, 16
"""What dm-cache needs beside the blocks."""
HIGH_PERCENT, LOW_PERCENT = 90, 85
"""dm-writecache writes back once so much of it is in use, until so much is. Its own 50 and 45 %
leave half of the fast device empty. Once a page-out finds it full it would pause that for 3 s, and
stay full: page-outs then pass it by, and what it holds grows old, as with swap priorities."""


Area: TypeAlias = Mapping[str, Any]
SLOW = "/dev/SLOW"


def settings(fast_tier_bytes: int, area: Area | None = None) -> list[Setting]:
    """How to put a cache of this size, on a fast device, in front of the slow one.

    ``area``: the swap area that the machine has on the slow device, where that is known.
    """
    return [writecache(fast_tier_bytes, area), cache(fast_tier_bytes, area)]


def writecache(fast_tier_bytes: int, area: Area | None = None) -> Setting:
    """Every page-out lands on the fast device first."""
    slow = _slow(area)
    sectors = fast_tier_bytes // SECTOR_BYTES
    return Setting(
        title="dm-writecache: page-outs land on the fast device and are written back later",
        note="The hierarchical architecture without its fill on reads: page-outs land on the fast "
        "device, those that came first are written back first, and a page that is read from the "
        "slow device stays there. Takes memory, 2.5 % of its size. Linux 5.14 or newer. For "
        "persistent memory write p for s and 4 for 6, and leave out pause_writeback 0. "
        f"{_places(sectors, area)}",
        apply=f"""\
swapoff {slow} &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST 0' &&
dd if=/dev/zero of=/dev/mapper/swap-fast bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(( $(blockdev --getsz {slow}) / 8 * 8 )) \\
  writecache s {slow} /dev/mapper/swap-fast 4096 \\
  6 high_watermark {HIGH_PERCENT} low_watermark {LOW_PERCENT} pause_writeback 0" &&
swapon /dev/mapper/swap-cached""",
        undo=_undone(area, "swap-fast"),
        architecture="hierarchical",
    )


def cache(fast_tier_bytes: int, area: Area | None = None) -> Setting:
    """What is read and written often moves to the fast device."""
    slow = _slow(area)
    blocks = max(1, fast_tier_bytes // (BLOCK_SECTORS * SECTOR_BYTES))
    needed = METADATA_BYTES + blocks * METADATA_BYTES_PER_BLOCK
    metadata = -(-needed // MIB) * MIB // SECTOR_BYTES
    sectors = blocks * BLOCK_SECTORS
    return Setting(
        title="dm-cache: blocks in use often move to the fast device",
        note="Neither priority nor hybrid, but near both: page-outs land on the fast device while "
        "it has room; then blocks in frequent use move there. A block is 32 KiB of the swap area, "
        "eight pages of any program. When swap is idle, it writes to the slow device what that "
        f"lacks. {_places(metadata + sectors, area)}",
        apply=f"""\
swapoff {slow} &&
dmsetup create swap-metadata --table '0 {metadata} linear /dev/FAST 0' &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST {metadata}' &&
dd if=/dev/zero of=/dev/mapper/swap-metadata bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(blockdev --getsz {slow}) \\
  cache /dev/mapper/swap-metadata /dev/mapper/swap-fast {slow} {BLOCK_SECTORS} \\
  1 writeback smq 0" &&
swapon -d /dev/mapper/swap-cached""",
        undo=_undone(area, "swap-metadata", "swap-fast"),
    )


def _slow(area: Area | None) -> str:
    """The device that swap is on, or what stands for it."""
    return quote(area["path"]) if area and area["kind"] == "partition" else SLOW


def _places(sectors: int, area: Area | None) -> str:
    """The line that explains the placeholders; ``sectors`` is the size of the fast device."""
    size_mib = -(-sectors * SECTOR_BYTES // MIB)
    return (
        f"/dev/FAST stands for a partition of {size_mib} MiB on the fast device, whose contents "
        f"are lost{_stands_for(area)}. Needs dmsetup; lasts until the next restart."
    )


def _stands_for(area: Area | None) -> str:
    """Explains the placeholder of the slow device; empty if its name is known."""
    if area is None:
        return (
            f", {SLOW} for the one that swap is on. For a swap file turn it off, take the loop "
            "device that `losetup --find --show FILE` prints, and leave out the first line"
        )
    if area["kind"] == "partition":
        return ""
    path = quote(area["path"])
    return (
        f", {SLOW} for the loop device that `losetup --find --show {path}` prints after "
        f"`swapoff {path}`, which takes the place of the first line"
    )


def _undone(area: Area | None, head: str, *others: str) -> str:
    """Takes the devices away; ``head`` starts with what would be found again.

    Once swap is off no page is left in the cache, so nothing is written back.
    """
    priority = swapon_priority(area["priority"]) if area else ""
    removed = "".join(f"dmsetup remove {name} &&\n" for name in ("swap-cached", *others))
    return f"""\
swapoff /dev/mapper/swap-cached &&
{removed}dd if=/dev/zero of=/dev/mapper/{head} bs=4096 count=1 conv=fsync status=none &&
dmsetup remove {head} &&
swapon{priority} {_slow(area)}"""
