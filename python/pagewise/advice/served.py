"""Settings for `pagewise-agent swapd`, which runs what stock Linux does not have.

It serves a swap area of two tiers through ublk, NBD, or FUSE and a loop device. Its fast tier is a
device, or compressed memory (docs/swapd-tiers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from shlex import quote
from typing import TYPE_CHECKING

from pagewise.advice.machine import swapon_priority, zram_areas
from pagewise.advice.memory import Board
from pagewise.advice.setting import Setting
from pagewise.advice.slow_area import FILE_MIB, slow_area
from pagewise.advice.stock_linux import Place
from pagewise.units import MIB, PAGE_BYTES

if TYPE_CHECKING:
    from pagewise.answers import Best, Machine

NAME = "swapd"
BY_DEVICE = ("victims_in_memory", "slot_on_swapin", "on_hit")
"""Options with a value that a block device cannot do; swapd refuses that value."""
CARRIERS = ("has_fuse_loop", "has_nbd", "has_ublk")
"""Features of a recorded kernel, each of which lets swapd serve an area."""
SPARE_MIB = 1
"""swapd's spare frames, which the fast device needs beside the tier."""
PAGES_PER_PAGE_MAX = 4
"""The most pages that swapd holds for each page of a compressed fast tier."""
PIECES = 17 / 16
"""What a compressed page takes in swapd's pieces, over its bytes."""
ALGORITHMS = ("lz4", "zstd")
FAST = "/dev/FAST"
SLOW = "/var/lib/pagewise/swapd"
CONF = "/etc/pagewise.d/swapd.conf"
LOG = "/var/log/pagewise-swapd.log"
COST = (
    "The I/O time counts devices only: each fault also takes the time of a request to swapd and "
    "back, which was 30 to 40 us through FUSE from a fast tier in memory (docs/bench-swapd.md), "
    "more on a busy machine"
)


def missing(machine: Machine | None, page_bytes: int) -> str | None:
    """Why swapd cannot surely run an architecture there; None if it can."""
    if page_bytes != PAGE_BYTES:
        return "swapd moves pages of 4 KiB only"
    match _has_carrier(machine):
        case True:
            return None
        case False:
            return "the recorded kernel has neither ublk, NBD, nor FUSE with loop devices"
        case _:
            return "swapd runs it where `pagewise-agent doctor` grants ublk, nbd or fuse-loop"


def is_offered(machine: Machine | None, page_bytes: int) -> bool:
    """Whether settings are of use: swapd runs there, or nothing is known against it."""
    return page_bytes == PAGE_BYTES and _has_carrier(machine) is not False


def _has_carrier(machine: Machine | None) -> bool | None:
    """Whether the recorded kernel has what swapd needs; None if the recording does not say."""
    features: Mapping[str, object] = machine["features"] if machine else {}
    found = [features.get(name) for name in CARRIERS]
    return True if True in found else None if None in found else False


def runs(best: Best) -> str:
    """What runs the best choice, or why nothing does."""
    if best["by"] is not None:
        return f"by {best['by']}"
    return f"not on stock Linux; {best['missing']}"


@dataclass(frozen=True)
class FastTier:
    """The options for the fast tier of swapd, and the lines that make room for it.

    ``size`` is the argument of --fast, ``words`` the option that says where the tier is.
    """

    size: str
    words: str
    note: str
    apply: str = ""
    undo: str = ""


def _fast_tier(tier_bytes: int, board: Board | None, place: Place) -> FastTier:
    """The fast tier for this many bytes of pages: a device, or ``board`` if it is in memory."""
    tier_mib = -(-tier_bytes // MIB)
    if board is None:
        note = (
            f"{FAST} stands for a partition of {tier_mib + SPARE_MIB} MiB on the fast device, "
            "whose contents are lost, or for a new file on it."
        )
        return FastTier(_size(tier_bytes), f"--fast-on {FAST}", note)
    algorithm = place.algorithm if place.algorithm in ALGORITHMS else ALGORITHMS[0]
    ratio = min(board.compression["typical"] / PIECES, PAGES_PER_PAGE_MAX)
    memory_mib = ceil(tier_bytes / ratio / MIB)
    note = f"swapd locks {memory_mib} MiB of memory, which hold about {tier_mib} MiB of pages."
    own = [(quote(zram["path"]), zram["priority"]) for zram in zram_areas(place.machine)]
    if own:
        note += " It takes the place of the machine's zram, which a restart brings back."
    return FastTier(
        size=f"{memory_mib}MiB",
        words=f"--compress {algorithm}",
        note=note,
        apply=_lines(*(f"swapoff {path}" for path, _ in own)),
        undo=_lines(*(f"swapon{swapon_priority(number)} {path}" for path, number in own)),
    )


def settings(
    architecture: str,
    fast_tier_bytes: int,
    options: Mapping[str, str],
    place: Place,
    board: Board | None = None,
) -> list[Setting]:
    """swapd as a service, and by hand until the next restart.

    ``options`` are those of the architecture, with their values; ``board`` if the fast tier is in
    memory, None if it is a device.
    """
    area = slow_area(place.machine, 0)
    tier = _fast_tier(fast_tier_bytes, board, place)
    tier_mib = -(-fast_tier_bytes // MIB)
    size_mib = max(-(-place.swap_bytes // (FILE_MIB * MIB)) * FILE_MIB, tier_mib)
    chosen = [f"--option {name}={options[name]}" for name in BY_DEVICE if name in options]
    words = (
        f"--size {size_mib}MiB --fast {tier.size} {tier.words}",
        f"--slow {SLOW} {' '.join(['--policy', architecture, *chosen])}",
        f"--priority {area.first_priority} --verify",
    )
    places = (
        f"{tier.note} swapd makes a file of "
        f"{size_mib} MiB at {SLOW}; name a device or another new file if another disk is to be "
        "the slow tier. swapd should not be the only swap area."
    )
    if _has_carrier(place.machine) is None:
        places += (
            " Needs ublk, NBD, or FUSE and loop devices: `pagewise-agent doctor` says ublk, nbd or "
            "fuse-loop."
        )
    return [
        Setting(
            title=f"swapd: {architecture}, as a service",
            note=f"{COST}. {places} {area.note} Needs the unit that `make install` installs.",
            apply=_lines(
                area.apply,
                tier.apply,
                f"""\
mkdir -p {CONF.rpartition("/")[0]} && {{ test ! -e {CONF} || cp -p {CONF} {CONF}.before; }}
echo 'OPTIONS={" ".join(words)}' > {CONF}
systemctl enable --now pagewise-swapd""",
            ),
            undo=_lines(
                f"""\
systemctl disable --now pagewise-swapd && rm {CONF}
test ! -e {CONF}.before || mv {CONF}.before {CONF}""",
                tier.undo,
                area.undo,
            ),
            architecture=architecture,
        ),
        Setting(
            title=f"swapd: {architecture}, by hand, until the next restart",
            note=f"Without systemd; swapd writes to {LOG}. The undo waits until every page is "
            "back in memory.",
            apply=_lines(
                area.apply,
                tier.apply,
                f"""\
mkdir -p {SLOW.rpartition("/")[0]}
setsid pagewise-agent swapd {words[0]} \\
  {words[1]} \\
  {words[2]} > {LOG} 2>&1 < /dev/null &""",
            ),
            undo=_lines(
                f"""\
pkill -TERM -f 'swapd --size [0-9].* {tier.words} '
while pgrep -f 'swapd --size [0-9].* {tier.words} ' > /dev/null; do sleep 1; done""",
                tier.undo,
                area.undo,
            ),
        ),
    ]


def _lines(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _size(size_bytes: int) -> str:
    """A size without rounding, for swapd."""
    for unit, name in ((MIB, "MiB"), (1024, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes}B"
