"""Settings for stock Linux with two swap areas, ready to paste, with an undo.

Sources: swapon(8), Documentation/admin-guide/mm/zswap.rst and blockdev/zram.rst of Linux 6.18,
zram-generator.conf(5). The kernel fills areas by priority and neither promotes nor demotes; zswap
is a compressed pool of memory in front of the swap area with least-recently-used write-back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from pagewise.advice import device_mapper
from pagewise.advice.machine import (
    disk_areas,
    fullest_zram,
    swapon_priority,
    zram_areas,
    zram_device,
)
from pagewise.advice.memory import Board
from pagewise.advice.setting import Setting
from pagewise.advice.slow_area import FILE, SECOND, slow_area
from pagewise.units import MIB

if TYPE_CHECKING:
    from pagewise.answers import Machine

AVAILABLE = {"flash": "a swap area", "priority": "swap priorities"}
"""What provides an architecture on stock Linux, with any fast device."""
ALGORITHM = "lz4"
DROP_IN = "/etc/systemd/zram-generator.conf.d/pagewise.conf"


def availability(architecture: str, board: Board | None) -> str | None:
    """What provides this architecture on stock Linux; ``board`` if the tier is in memory."""
    if architecture == "hierarchical" and board is None:
        return "dm-writecache"
    if architecture == "hierarchical" and board is not None and board.has_zswap:
        return "zswap"
    return AVAILABLE.get(architecture)


@dataclass(frozen=True)
class Place:
    """The machine that the settings are for.

    ``machine``: the recorded machine, None if unknown. ``swap_bytes``: the most that was in swap at
    once. ``fast``: the name of the fast device.
    """

    machine: Machine | None = None
    swap_bytes: int = 0
    fast: str = ""

    @property
    def algorithm(self) -> str:
        """The compression algorithm for zram: that in the name of the fast device.

        If the machine's zram resembles that device, its own algorithm, which its kernel surely has.
        """
        zram = fullest_zram(self.machine) if self.machine else None
        is_like = zram is not None and zram_device(zram[1]) == self.fast
        name = zram[1]["algorithm"] if zram and is_like else self.fast.partition("zram-")[2]
        return str(name) if re.fullmatch(r"[a-z0-9][a-z0-9-]*", name or "") else ALGORITHM


ANYWHERE = Place()


def settings(
    board: Board | None,
    fast_tier_bytes: int | None,
    architecture: str = "priority",
    place: Place = ANYWHERE,
) -> list[Setting]:
    """Settings for a fast tier of this size; those that set up ``architecture`` come first.

    ``board`` if the tier is in memory, None if it is a device. Without a fast tier, the settings
    make a swap file, or there are none if the machine has a swap area.
    """
    if not fast_tier_bytes:
        return _swap_file(place)
    size_mib = max(1, round(fast_tier_bytes / MIB))
    if board is not None:
        taken_kib = round(board.taken_bytes(fast_tier_bytes)["typical"] / 1024)
        zram = [_zram_generator(place, size_mib, taken_kib), _zram_by_hand(place, size_mib)]
        zswap = [_zswap(place, taken_kib)] if board.has_zswap else []
        return zswap + zram if architecture == "hierarchical" else zram + zswap
    mapped = device_mapper.settings(fast_tier_bytes, next(iter(disk_areas(place.machine)), None))
    priorities = [_priorities(place, size_mib)]
    return mapped + priorities if architecture == "hierarchical" else priorities + mapped


def _lines(*parts: str) -> str:
    """The parts that are not empty, joined by line breaks."""
    return "\n".join(filter(None, parts))


def _swap_file(place: Place) -> list[Setting]:
    area = slow_area(place.machine, place.swap_bytes)
    note = f"No fast tier. {area.note}"
    return [Setting("One swap file", note, area.apply, area.undo)] if area.apply else []


def _priorities(place: Place, size_mib: int) -> Setting:
    area = slow_area(place.machine, place.swap_bytes - size_mib * MIB)
    first = area.first_priority
    kept = f"/dev/FAST  none  swap  sw,pri={first}  0 0"
    file = f"#   {FILE}  none  swap  sw,pri={SECOND}  0 0" if area.apply else ""
    return Setting(
        title="Swap priorities: the fast device first, then flash",
        note=f"/dev/FAST stands for a partition of {size_mib} MiB on the fast device; the kernel "
        f"fills it first and never moves a page afterwards. {area.note}",
        apply=_lines(
            f"mkswap /dev/FAST && swapon -p {first} /dev/FAST",
            area.apply,
            "# to keep it over a restart, in /etc/fstab:",
            f"#   {kept}",
            file,
        ),
        undo=_lines("swapoff /dev/FAST   # and remove its lines from /etc/fstab", area.undo),
        architecture="priority",
    )


def _zram_generator(place: Place, size_mib: int, taken_kib: int) -> Setting:
    area = slow_area(place.machine, place.swap_bytes - size_mib * MIB)
    # Once the drop-in is gone, the zram of another configuration file comes back.
    end = "restart" if zram_areas(place.machine) else "stop"
    stop = f"systemctl {end} systemd-zram-setup@zram0.service"
    remove = f"rm {DROP_IN} && systemctl daemon-reload"
    return Setting(
        title="zram in front of flash by priority, with zram-generator",
        note=f"Holds {size_mib} MiB of pages in about {round(taken_kib / 1024)} MiB of "
        f"memory; the kernel fills it first and never moves a page afterwards. {area.note}",
        apply=_lines(
            f"""\
mkdir -p {DROP_IN.rpartition("/")[0]}
cat > {DROP_IN} <<'END'
[zram0]
zram-size = {size_mib}
compression-algorithm = {place.algorithm}
swap-priority = {area.first_priority}
END
systemctl daemon-reload && systemctl restart systemd-zram-setup@zram0.service""",
            area.apply,
        ),
        undo=_lines(*((remove, stop) if end == "restart" else (stop, remove)), area.undo),
        architecture="priority",
    )


def _zram_by_hand(place: Place, size_mib: int) -> Setting:
    area = slow_area(place.machine, place.swap_bytes - size_mib * MIB)
    return Setting(
        title="zram by hand, until the next restart",
        note="Without zram-generator.",
        apply=_lines(
            *_emptied(place.machine),
            f"""\
modprobe zram
zramctl /dev/zram0 --algorithm {place.algorithm} --size {size_mib}MiB
mkswap /dev/zram0 && swapon -p {area.first_priority} /dev/zram0""",
            area.apply,
        ),
        undo=_lines(
            _empty("/dev/zram0"),
            *_filled(place.machine),
            area.undo,
        ),
    )


def _emptied(machine: Machine | None) -> list[str]:
    """Lines that turn off the machine's own zram swap areas."""
    return [_empty(area["path"]) for area in zram_areas(machine)]


def _empty(path: str) -> str:
    """A line that empties a zram device but keeps it, to be set up again.

    `zramctl --reset` would remove the device.
    """
    name = path.rpartition("/")[2]
    return f"swapoff {quote(path)} && echo 1 > {quote(f'/sys/block/{name}/reset')}"


def _filled(machine: Machine | None) -> list[str]:
    """Lines that set up the machine's own zram swap areas again."""
    lines = []
    for area in zram_areas(machine):
        path = quote(area["path"])
        zram = machine["zram"].get(area["path"].rpartition("/")[2]) if machine else None
        algorithm = f"--algorithm {quote(zram['algorithm'])} " if zram and zram["algorithm"] else ""
        size = zram["bytes"] if zram else area["bytes"]
        lines.append(f"zramctl {path} {algorithm}--size {size} \\")
        lines.append(f"  && mkswap {path} && swapon{swapon_priority(area['priority'])} {path}")
    return lines


def _zswap(place: Place, pool_kib: int) -> Setting:
    # A page in the pool also has a slot in the swap area.
    area = slow_area(place.machine, place.swap_bytes)
    own = [
        (quote(each["path"]), swapon_priority(each["priority"]))
        for each in zram_areas(place.machine)
    ]
    return Setting(
        title="zswap: a compressed cache that writes back the least recently used pages",
        note="The hierarchical architecture of stock Linux. Take this or zram, not both. "
        f"The pool takes {round(pool_kib / 1024)} MiB; max_pool_percent is in whole percent of "
        f"memory. {area.note}",
        apply=_lines(
            area.apply,
            *(f"swapoff {path}" for path, _ in own),
            f"""\
grep -H . /sys/module/zswap/parameters/* > ~/zswap.before
echo {place.algorithm} > /sys/module/zswap/parameters/compressor
echo $(( {pool_kib} * 100 / $(awk '/MemTotal/ {{print $2}}' /proc/meminfo) + 1 )) \\
  > /sys/module/zswap/parameters/max_pool_percent
echo Y > /sys/module/zswap/parameters/shrinker_enabled
echo Y > /sys/module/zswap/parameters/enabled""",
        ),
        undo=_lines(
            """\
while IFS=: read -r file value; do echo "$value" > "$file"; done < ~/zswap.before""",
            *(f"swapon{priority} {path}" for path, priority in own),
            area.undo,
        ),
        architecture="hierarchical",
    )
