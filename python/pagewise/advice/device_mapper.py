"""A fast block device in front of the swap area's slow one, by targets of the device mapper.

Sources: Documentation/admin-guide/device-mapper/{writecache,cache,cache-policies}.rst of Linux
6.18 and drivers/md/dm-writecache.c; what they do to swap was tried in tests/vm.
"""

from __future__ import annotations

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


def settings(fast_tier_bytes: int) -> list[Setting]:
    """How to put a cache of this size, on a fast device, in front of the slow one."""
    return [writecache(fast_tier_bytes), cache(fast_tier_bytes)]


def writecache(fast_tier_bytes: int) -> Setting:
    """Every page-out lands on the fast device first."""
    sectors = fast_tier_bytes // SECTOR_BYTES
    return Setting(
        title="dm-writecache: page-outs land on the fast device and are written back later",
        note="The hierarchical architecture without its fill on reads: page-outs land on the fast "
        "device, those that came first are written back first, and a page that is read from the "
        "slow device stays there. Takes memory, 2.5 % of its size. Linux 5.14 or newer. For "
        "persistent memory write p for s and 4 for 6, and leave out pause_writeback 0. "
        f"{_places(sectors)}",
        apply=f"""\
swapoff /dev/SLOW &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST 0' &&
dd if=/dev/zero of=/dev/mapper/swap-fast bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(( $(blockdev --getsz /dev/SLOW) / 8 * 8 )) \\
  writecache s /dev/SLOW /dev/mapper/swap-fast 4096 \\
  6 high_watermark {HIGH_PERCENT} low_watermark {LOW_PERCENT} pause_writeback 0" &&
swapon /dev/mapper/swap-cached""",
        undo=_undone("swap-fast"),
    )


def cache(fast_tier_bytes: int) -> Setting:
    """What is read and written often moves to the fast device."""
    blocks = max(1, fast_tier_bytes // (BLOCK_SECTORS * SECTOR_BYTES))
    needed = METADATA_BYTES + blocks * METADATA_BYTES_PER_BLOCK
    metadata = -(-needed // MIB) * MIB // SECTOR_BYTES
    sectors = blocks * BLOCK_SECTORS
    return Setting(
        title="dm-cache: blocks in use often move to the fast device",
        note="Neither priority nor hybrid, but near both: page-outs land on the fast device while "
        "it has room; then blocks in frequent use move there. A block is 32 KiB of the swap area, "
        "eight pages of any program. When swap is idle, it writes to the slow device what that "
        f"lacks. {_places(metadata + sectors)}",
        apply=f"""\
swapoff /dev/SLOW &&
dmsetup create swap-metadata --table '0 {metadata} linear /dev/FAST 0' &&
dmsetup create swap-fast --table '0 {sectors} linear /dev/FAST {metadata}' &&
dd if=/dev/zero of=/dev/mapper/swap-metadata bs=4096 count=1 conv=fsync status=none &&
dmsetup create swap-cached --table "0 $(blockdev --getsz /dev/SLOW) \\
  cache /dev/mapper/swap-metadata /dev/mapper/swap-fast /dev/SLOW {BLOCK_SECTORS} \\
  1 writeback smq 0" &&
swapon -d /dev/mapper/swap-cached""",
        undo=_undone("swap-metadata", "swap-fast"),
    )


def _places(sectors: int) -> str:
    """What the placeholders stand for; the fast device needs so many sectors."""
    size_mib = -(-sectors * SECTOR_BYTES // MIB)
    return (
        f"/dev/FAST stands for a partition of {size_mib} MiB on the fast device, whose contents "
        "are lost, /dev/SLOW for the one that swap is on. For a swap file turn it off, take the "
        "loop device that `losetup --find --show /swapfile` prints, and leave out the first line. "
        "Needs dmsetup; lasts until the next restart."
    )


def _undone(head: str, *others: str) -> str:
    """Takes the devices away; ``head`` starts with what would be found again.

    Once swap is off no page is left in the cache, so nothing is written back.
    """
    removed = "".join(f"dmsetup remove {name} &&\n" for name in ("swap-cached", *others))
    return f"""\
swapoff /dev/mapper/swap-cached &&
{removed}dd if=/dev/zero of=/dev/mapper/{head} bs=4096 count=1 conv=fsync status=none &&
dmsetup remove {head} &&
swapon /dev/SLOW"""
