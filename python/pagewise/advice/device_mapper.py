"""Settings that put a fast block device in front of a slow swap device, with the device mapper.

Sources: Documentation/admin-guide/device-mapper/{writecache,cache,cache-policies}.rst of Linux
6.18 and drivers/md/dm-writecache.c. tests/vm checks what these targets do to swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from pagewise.advice.machine import swapon_priority
from pagewise.advice.setting import Setting
from pagewise.units import MIB

if TYPE_CHECKING:
    from pagewise.types import SwapArea

SECTOR_BYTES = 512
BLOCK_SECTORS = 64
"""The smallest block of dm-cache, 32 KiB: eight pages."""
METADATA_BYTES, METADATA_BYTES_PER_BLOCK = 4 * MIB, 16
"""Bytes that dm-cache needs for metadata."""
HIGH_PERCENT, LOW_PERCENT = 90, 85
"""When dm-writecache starts to write back, and when it stops, in percent of its blocks in use.

Its defaults, 50 and 45 %, leave half of the fast device empty. With a pause of 3 s after it finds
the device full, it would stay full: page-outs would pass it by, and its pages would grow old, as
with swap priorities."""

SLOW = "/dev/SLOW"

# A discard that reaches the loop device punches a hole into its file, and the kernel takes no swap
# file with holes. Since Linux 5.1.
WRITEBACK, WITHOUT_DISCARDS = "1 writeback", "2 writeback no_discard_passdown"


@dataclass(frozen=True)
class Behind:
    """What is behind the fast device: the swap area, with the lines that free it and give it back.

    ``note`` says what to fill in or to know; it may be empty.
    """

    device: str
    apply: str
    undo: str
    note: str = ""
    cache_features: str = WRITEBACK


def settings(fast_tier_bytes: int, area: SwapArea | None = None) -> list[Setting]:
    """Settings for a cache of this size, on a fast device, in front of the slow device.

    ``area``: the machine's swap area on the slow device, if known.
    """
    return [writecache(fast_tier_bytes, area), cache(fast_tier_bytes, area)]


def writecache(fast_tier_bytes: int, area: SwapArea | None = None) -> Setting:
    """dm-writecache, where every page-out lands on the fast device first."""
    behind = _behind(area)
    sectors = fast_tier_bytes // SECTOR_BYTES
    return Setting(
        title="dm-writecache: page-outs land on the fast device and are written back later",
        note="The hierarchical architecture, but without its fill on reads: page-outs land on "
        "the fast device, the oldest are written back first, and a page read from the slow "
        "device stays there. Takes memory, 2.5 % of its size. Needs Linux 5.14 or later. For "
        "persistent memory, replace s by p and 6 by 4, and leave out pause_writeback 0. "
        f"{_places(sectors, behind)}",
        apply=f"""\
{behind.apply} &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST 0' &&
dd if=/dev/zero of=/dev/mapper/swap-fast bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(( $(blockdev --getsz {behind.device}) / 8 * 8 )) \\
  writecache s {behind.device} /dev/mapper/swap-fast 4096 \\
  6 high_watermark {HIGH_PERCENT} low_watermark {LOW_PERCENT} pause_writeback 0" &&
swapon /dev/mapper/swap-cached""",
        undo=_undone(behind, "swap-fast"),
        architecture="hierarchical",
    )


def cache(fast_tier_bytes: int, area: SwapArea | None = None) -> Setting:
    """dm-cache, which moves blocks in frequent use to the fast device."""
    behind = _behind(area)
    blocks = max(1, fast_tier_bytes // (BLOCK_SECTORS * SECTOR_BYTES))
    needed = METADATA_BYTES + blocks * METADATA_BYTES_PER_BLOCK
    metadata = -(-needed // MIB) * MIB // SECTOR_BYTES
    sectors = blocks * BLOCK_SECTORS
    return Setting(
        title="dm-cache: blocks in use often move to the fast device",
        note="Close to both priority and hybrid, but neither: page-outs land on the fast device "
        "while it has room; after that, blocks in frequent use move there. A block is 32 KiB of "
        "the swap area, eight pages of any program. When swap is idle, dm-cache copies to the "
        "slow device the blocks that are only on the fast one. "
        f"{_places(metadata + sectors, behind)}",
        apply=f"""\
{behind.apply} &&
dmsetup create swap-metadata --table '0 {metadata} linear /dev/FAST 0' &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST {metadata}' &&
dd if=/dev/zero of=/dev/mapper/swap-metadata bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(blockdev --getsz {behind.device}) \\
  cache /dev/mapper/swap-metadata /dev/mapper/swap-fast {behind.device} {BLOCK_SECTORS} \\
  {behind.cache_features} smq 0" &&
swapon -d /dev/mapper/swap-cached""",
        undo=_undone(behind, "swap-metadata", "swap-fast"),
    )


def _behind(area: SwapArea | None) -> Behind:
    """The machine's swap area, or a placeholder for it if it is not known."""
    if area is None:
        note = (
            f", {SLOW} for the device that swap is on. For a swap file, turn swap off, use the "
            "loop device that `losetup --find --show --direct-io=on FILE` prints, and leave out "
            f"the first line; the last line of the undo becomes `losetup --detach {SLOW} && "
            "swapon FILE`"
        )
        return Behind(SLOW, f"swapoff {SLOW}", f"swapon {SLOW}", note, WITHOUT_DISCARDS)
    path, priority = quote(area["path"]), swapon_priority(area["priority"])
    if area["kind"] == "partition":
        return Behind(path, f"swapoff {path}", f"swapon{priority} {path}")
    return Behind(
        "$SLOW",
        f"swapoff {path} &&\nSLOW=$(losetup --find --show --direct-io=on {path})",
        f'losetup --detach "$(losetup --noheadings --output NAME -j {path})" &&\n'
        f"swapon{priority} {path}",
        f". The slow device is a loop device on {area['path']}",
        WITHOUT_DISCARDS,
    )


def _places(sectors: int, behind: Behind) -> str:
    """The line that explains the placeholders; ``sectors`` is the size of the fast device."""
    size_mib = -(-sectors * SECTOR_BYTES // MIB)
    return (
        f"/dev/FAST stands for a partition of {size_mib} MiB on the fast device, whose contents "
        f"are lost{behind.note}. Needs dmsetup; lasts until the next restart."
    )


def _undone(behind: Behind, head: str, *others: str) -> str:
    """Lines that remove the devices and clear the start of ``head``, which holds their metadata.

    Once swap is off, the cache holds no page, so nothing is written back.
    """
    removed = "".join(f"dmsetup remove {name} &&\n" for name in ("swap-cached", *others))
    return f"""\
swapoff /dev/mapper/swap-cached &&
{removed}dd if=/dev/zero of=/dev/mapper/{head} bs=4096 count=1 conv=fsync status=none &&
dmsetup remove {head} &&
{behind.undo}"""
