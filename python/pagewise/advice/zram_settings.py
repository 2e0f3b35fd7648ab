"""Settings of a zram swap area, ready to paste, with an undo.

Sources: Documentation/admin-guide/blockdev/zram.rst of Linux 6.18, zram-generator.conf(5).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from pagewise.advice.setting import Setting
from pagewise.advice.stock_linux import DROP_IN
from pagewise.advice.zram_pages import Pages
from pagewise.units import MIB

if TYPE_CHECKING:
    from pagewise.zram_answer import ZramCandidate

PRIORITY = 100
NUMBER_FILE = "/run/pagewise-zram"


def settings(chosen: ZramCandidate, found: Pages) -> list[Setting]:
    """The device by hand, with zram-generator and, if the kernel can, with recompression."""
    mib, limit_mib = chosen["disksize_bytes"] // MIB, chosen["limit_bytes"] // MIB
    algorithm = quote(chosen["algorithm"])
    again = _recompression(chosen, found)
    before = f'echo "algo={again} priority=1" > $z/recomp_algorithm\n' if again else ""
    by_hand = Setting(
        title="zram by hand, until the next restart",
        note=f"Holds up to {mib} MiB of pages in at most {limit_mib} MiB of memory.",
        apply=f"""\
[ -e /sys/class/zram-control ] || modprobe zram
n=$(cat /sys/class/zram-control/hot_add); z=/sys/block/zram$n
echo {algorithm} > $z/comp_algorithm
{before}echo {mib}M > $z/disksize
echo {limit_mib}M > $z/mem_limit
mkswap /dev/zram$n && swapon -p {PRIORITY} /dev/zram$n && echo $n > {NUMBER_FILE}""",
        undo=f"""\
n=$(cat {NUMBER_FILE}) && swapoff /dev/zram$n && echo 1 > /sys/block/zram$n/reset
echo $n > /sys/class/zram-control/hot_remove; rm {NUMBER_FILE}""",
    )
    generator = Setting(
        title="The same with zram-generator, over restarts",
        note="Replaces a [zram0] of other configuration files.",
        apply=f"""\
mkdir -p {DROP_IN.rpartition("/")[0]}
cat > {DROP_IN} <<'END'
[zram0]
zram-size = {mib}
zram-resident-limit = {limit_mib}
compression-algorithm = {algorithm}
swap-priority = {PRIORITY}
END
systemctl daemon-reload && systemctl restart systemd-zram-setup@zram0.service""",
        undo=f"""\
systemctl stop systemd-zram-setup@zram0.service
rm {DROP_IN} && systemctl daemon-reload""",
    )
    listed = [by_hand, generator]
    if again:
        listed.append(
            Setting(
                title=f"Recompress idle pages by {again}",
                note="For the device made by hand; run it now and then, such as every hour.",
                apply=f"""\
z=/sys/block/zram$(cat {NUMBER_FILE})
echo all > $z/idle; sleep 3600; echo type=idle > $z/recompress""",
                undo="# nothing to undo: pages stay readable",
            )
        )
    return listed


def _recompression(chosen: ZramCandidate, found: Pages) -> str | None:
    """The algorithm of the kernel with the smallest pages, if it is another one."""
    known = found.kernel_algorithms or frozenset()
    if not found.has_recompression:
        return None
    sizes = {name: each.pool_bytes for name, each in found.total.algorithms.items()}
    offered = [name for name in sizes if name in known]
    smallest = min(offered, key=lambda name: sizes[name], default=None)
    return smallest if smallest != chosen["algorithm"] else None
