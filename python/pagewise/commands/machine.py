"""Words for the machine of a recording, and for the defaults that an advice took from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pagewise.advice.machine import disk_words, ratio
from pagewise.units import format_size

if TYPE_CHECKING:
    from pagewise.answers import Machine, Taken
    from pagewise.types import Disk, Features


def machine_rows(machine: Machine | None) -> Iterator[tuple[str, str]]:
    """The rows that describe a machine; none if the recording does not know it."""
    if machine is None:
        return
    yield (
        "machine",
        f"Linux {machine['kernel']}, {machine['architecture']}, {machine['processors']} "
        f"processors, {format_size(machine['memory_bytes'])} of memory",
    )
    if limit := machine["limit_bytes"]:
        yield "  limit of the cgroup", format_size(limit)
    for area in machine["areas"]:
        on = f" on {disk_phrase(area['disk'])}" if area["disk"] else ""
        yield (
            "  swap area",
            f"{area['path']}, {area['kind']}{on}, {format_size(area['bytes'])}, "
            f"priority {area['priority']}",
        )
    for name, zram in machine["zram"].items():
        found = ratio(zram)
        compressed = f"{found:.3g} to 1" if found else "holds too little for a compression ratio"
        yield f"  {name}", f"{zram['algorithm']}, {format_size(zram['bytes'])}, {compressed}"
    if machine["root"]:
        yield "  disk under /", disk_phrase(machine["root"])
    yield "  kernel has", ", ".join(features(machine["features"])) or "no features for swap"


def disk_phrase(disk: Disk) -> str:
    """A disk in words: ``sda (UFS 3.1, KLUDG4UHDC-B0E1)``."""
    model = f", {disk['model']}" if disk["model"] else ""
    return f"{disk['name']} ({disk_words(disk)}{model})"


def features(found: Features) -> Iterator[str]:
    """The words for the features that a kernel has."""
    if found["zswap"] is not None:
        yield f"zswap ({'on' if found['zswap'] else 'off'})"
    words = {
        "zram": found["has_zram"],
        "FUSE and loop devices": bool(found["has_fuse_loop"]),
        "NBD": bool(found.get("has_nbd")),
        "ublk": bool(found.get("has_ublk")),
        "pages of zeros not written to swap": found["keeps_zeros_out"],
        "mTHP": found["has_mthp"],
        "PSI": found["has_psi"],
    }
    yield from (word for word, is_there in words.items() if is_there)
    if found["cgroup_version"]:
        yield f"cgroup version {found['cgroup_version']}"


def taken(default: Taken) -> str:
    """A default that came from the machine: ``slow device ufs-3.1: the recorded ...``."""
    value = default["value"]
    match default["option"].removeprefix("--"), value:
        case "memory", int():
            words = f"memory {format_size(value)}"
        case "compression", float():
            words = f"compression {value:g} to 1"
        case option, _:
            words = f"{option} device {value}"
    return f"{words}: {default['why']}"
