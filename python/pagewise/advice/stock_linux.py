"""What stock Linux can do today with two swap areas, ready to paste, with an undo.

Sources: swapon(8), Documentation/admin-guide/mm/zswap.rst and blockdev/zram.rst of Linux 6.18,
zram-generator.conf(5). The kernel fills areas by priority and neither promotes nor demotes; zswap
is a compressed pool of memory in front of the swap area with least-recently-used write-back.
"""

from __future__ import annotations

from pagewise.advice import device_mapper
from pagewise.advice.memory import Board
from pagewise.advice.setting import Setting
from pagewise.units import MIB

AVAILABLE = {"flash": "a swap area", "priority": "swap priorities"}
"""Architectures that stock Linux has, by any fast device."""


def availability(architecture: str, board: Board | None) -> str | None:
    """What gives this architecture on stock Linux, or none; ``board`` if the tier is in memory."""
    if architecture == "hierarchical":
        return "zswap" if board is not None else "dm-writecache"
    return AVAILABLE.get(architecture)


def settings(
    board: Board | None, fast_tier_bytes: int | None, architecture: str = "priority"
) -> list[Setting]:
    """How to have a fast tier of this size, what gives ``architecture`` first.

    ``board`` if the tier is in its memory, none if it is a device. The plain swap area without a
    fast tier.
    """
    if not fast_tier_bytes:
        return [SWAP_FILE]
    size_mib = max(1, round(fast_tier_bytes / MIB))
    if board is not None:
        taken_kib = round(board.taken_bytes(fast_tier_bytes)["typical"] / 1024)
        zram = [_zram_generator(size_mib, taken_kib), _zram_by_hand(size_mib)]
        zswap = [_zswap(taken_kib)]
        return zswap + zram if architecture == "hierarchical" else zram + zswap
    mapped, priorities = device_mapper.settings(fast_tier_bytes), [_priorities(size_mib)]
    return mapped + priorities if architecture == "hierarchical" else priorities + mapped


SWAP_FILE = Setting(
    title="One swap file",
    note="No fast tier: take a file as large as the memory that should be able to leave.",
    apply="""\
fallocate -l 2G /swapfile && chmod 600 /swapfile && mkswap /swapfile
swapon /swapfile""",
    undo="swapoff /swapfile && rm /swapfile",
)


def _priorities(size_mib: int) -> Setting:
    return Setting(
        title="Swap priorities: the fast device first, then flash",
        note=f"/dev/FAST stands for a partition of {size_mib} MiB on the fast device; the kernel "
        "fills it first and never moves a page afterwards.",
        apply="""\
mkswap /dev/FAST
swapon -p 100 /dev/FAST
swapon -p 1 /swapfile
# to keep it over a restart, in /etc/fstab:
#   /dev/FAST  none  swap  sw,pri=100  0 0
#   /swapfile  none  swap  sw,pri=1    0 0""",
        undo="swapoff /dev/FAST   # and remove the two lines from /etc/fstab",
    )


def _zram_generator(size_mib: int, taken_kib: int) -> Setting:
    return Setting(
        title="zram in front of flash by priority, with zram-generator",
        note=f"Holds {size_mib} MiB of pages in about {round(taken_kib / 1024)} MiB of "
        "memory; the kernel fills it first and never moves a page afterwards.",
        apply=f"""\
cat > /etc/systemd/zram-generator.conf <<'END'
[zram0]
zram-size = {size_mib}
compression-algorithm = lz4
swap-priority = 100
END
systemctl daemon-reload && systemctl start systemd-zram-setup@zram0.service
swapon -p 1 /swapfile""",
        undo="""\
systemctl stop systemd-zram-setup@zram0.service
rm /etc/systemd/zram-generator.conf && systemctl daemon-reload""",
    )


def _zram_by_hand(size_mib: int) -> Setting:
    return Setting(
        title="The same by hand, until the next restart",
        note="Without zram-generator.",
        apply=f"""\
modprobe zram
zramctl /dev/zram0 --algorithm lz4 --size {size_mib}MiB
mkswap /dev/zram0 && swapon -p 100 /dev/zram0
swapon -p 1 /swapfile""",
        undo="swapoff /dev/zram0 && zramctl --reset /dev/zram0",
    )


def _zswap(pool_kib: int) -> Setting:
    return Setting(
        title="zswap: a compressed cache that writes back what is used least",
        note="The hierarchical architecture of stock Linux. Take this or zram, not both. "
        f"The pool takes {round(pool_kib / 1024)} MiB; max_pool_percent is of memory, in whole "
        "percent.",
        apply=f"""\
grep -H . /sys/module/zswap/parameters/* > ~/zswap.before
echo lz4 > /sys/module/zswap/parameters/compressor
echo $(( {pool_kib} * 100 / $(awk '/MemTotal/ {{print $2}}' /proc/meminfo) + 1 )) \\
  > /sys/module/zswap/parameters/max_pool_percent
echo Y > /sys/module/zswap/parameters/shrinker_enabled
echo Y > /sys/module/zswap/parameters/enabled
swapon /swapfile""",
        undo="""\
while IFS=: read -r file value; do echo "$value" > "$file"; done < ~/zswap.before""",
    )
