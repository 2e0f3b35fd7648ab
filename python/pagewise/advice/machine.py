"""What a recording says of its machine, and the options of an advice on swap that follow from it.

`pagewise-agent record` notes swap areas, the disks under them, zram and kernel features. A default
is taken only where the kernel said it: a disk whose speed it does not tell needs ``--slow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pagewise.advice.memory import RATIO_MAX
from pagewise.errors import UsageError
from pagewise.units import MIB, format_size

Machine: TypeAlias = Mapping[str, Any]
"""What `recorded` returns."""
Disk: TypeAlias = Mapping[str, Any]

RATIO_BYTES_MIN = 4 * MIB
"""Below this many bytes of pages, what zram takes for itself hides how well they compress."""

CLASSES = {
    "emmc": "eMMC",
    "sd": "an SD card",
    "ufs": "UFS",
    "nvme": "an NVMe disk",
    "sata-ssd": "a SATA SSD",
    "hdd": "a hard disk",
    "virtual": "a virtual disk",
}
SLOW = {"emmc": "emmc-5.1", "nvme": "nvme", "sata-ssd": "sata-ssd", "hdd": "hdd"}
"""Devices of `pagewise devices` by class of disk."""
SLOW_BY_VERSION = {
    "ufs": {"2": "ufs-2.1", "3": "ufs-3.1", "4": "ufs-4.0"},
    "sd": {"A1": "sd-a1", "A2": "sd-a2"},
}
"""The same where a class has several, by what the version begins with."""
CANDIDATES = {
    "ufs": "ufs-2.1, ufs-3.1 or ufs-4.0",
    "sd": "sd-a1 or sd-a2",
    "virtual": "what the host has, as nvme, sata-ssd or hdd",
}
FAST = "zram-lz4"
SLOW_ALGORITHMS = {"zstd": "zram-zstd", "deflate": "zram-zstd", "842": "zram-zstd"}
"""Devices by zram's algorithm; all others take about as long as lz4."""


def recorded(header: Mapping[str, Any]) -> dict[str, Any] | None:
    """The machine of a trace's header; None where the recording does not say."""
    recorder = header.get("recorder") or {}
    system = recorder.get("system")
    if system is None:
        return None
    known = ("kernel", "processors", "memory_bytes")
    return {
        "architecture": recorder["machine"],
        **{name: recorder[name] for name in known},
        **system,
    }


def disk_areas(machine: Machine | None) -> list[dict[str, Any]]:
    """The swap areas that are not compressed memory, the one that is used first ahead."""
    on_disk = (area for area in areas(machine) if area["kind"] != "zram")
    return sorted(on_disk, key=lambda area: -area["priority"])


def zram_areas(machine: Machine | None) -> list[dict[str, Any]]:
    """The swap areas that are compressed memory."""
    return [area for area in areas(machine) if area["kind"] == "zram"]


def areas(machine: Machine | None) -> list[dict[str, Any]]:
    """The swap areas, without those whose path no terminal should print: it ends in commands."""
    found = machine["areas"] if machine else []
    return [area for area in found if area["path"].isprintable()]


def swapon_priority(number: int) -> str:
    """The option that gives swapon a priority again; negative ones the kernel gives itself."""
    return f" -p {number}" if number >= 0 else ""


def swap_disk(machine: Machine) -> Disk | None:
    """The disk that the machine swaps to, or where it swaps to none, the one under its root."""
    on_disk = disk_areas(machine)
    found: Disk | None = on_disk[0]["disk"] if on_disk else machine["root"]
    return found


def has_zswap(machine: Machine | None) -> bool:
    """Whether the kernel has zswap, on or off; assumed where the recording does not say."""
    return machine is None or machine["features"]["zswap"] is not None


def fullest_zram(machine: Machine) -> tuple[str, dict[str, Any]] | None:
    """Name and counts of the zram device that holds most; None where none is set up."""
    held = sorted(machine["zram"].items(), key=lambda pair: -pair[1]["orig_data_bytes"])
    return held[0] if held else None


def ratio(zram: Mapping[str, Any]) -> float | None:
    """Bytes of pages per byte of memory; None where zram holds too little to tell."""
    held, used = zram["orig_data_bytes"], zram["mem_used_bytes"]
    if held < RATIO_BYTES_MIN or not used:
        return None
    return min(max(float(held / used), 1.0), RATIO_MAX)


def disk_words(disk: Disk) -> str:
    """What kind of disk it is: ``UFS 3.1``."""
    kind, version = CLASSES.get(disk["class"], "a disk of unknown kind"), disk["version"]
    if disk["class"] == "sd":
        return f"{kind} of class {version}" if version else f"{kind} without a performance class"
    return f"{kind} {version}" if version else kind


@dataclass(frozen=True)
class Options:
    """The options of an advice on swap; None where the caller did not say."""

    fast: str | None = None
    slow: str | None = None
    memory: str | int | None = None
    compression: float | None = None


@dataclass(frozen=True)
class Default:
    """An option that follows from the machine, and why: a clause about the recorded machine."""

    option: str
    value: str | int | float
    why: str

    def to_json(self) -> dict[str, Any]:
        """The form in results."""
        return {"option": f"--{self.option}", "value": self.value, "why": self.why}


@dataclass(frozen=True)
class Gap:
    """A device that does not follow: why, and what to do."""

    option: str
    why: str
    hint: str


@dataclass(frozen=True)
class Completed:
    """Options with nothing left to say of the devices, and those that the machine gave."""

    fast: str
    slow: str
    memory: str | int | None
    compression: float | None
    defaults: Sequence[Default]

    @property
    def compression_source(self) -> str:
        """Where the compression comes from."""
        found = [default.why for default in self.defaults if default.option == "compression"]
        return found[0] if found else "given by the caller"


def completed(machine: Machine | None, given: Options, trace: str) -> Completed:
    """The options, with what the caller left out taken from the machine.

    Raises UsageError, which names every option that is needed, where no device follows.
    """
    found: list[Default] = []
    gaps: list[Gap] = []
    for option, follow in RULES.items():
        if getattr(given, option) is not None:
            continue
        answer = follow(machine, given)
        if isinstance(answer, Default):
            found.append(answer)
            taken: Any = {option: answer.value}
            given = replace(given, **taken)
        elif answer is not None:
            gaps.append(answer)
    if given.fast is None or given.slow is None:
        raise needed(gaps, trace)
    return Completed(given.fast, given.slow, given.memory, given.compression, found)


def needed(gaps: Sequence[Gap], trace: str) -> UsageError:
    """The error that names every missing option."""
    names = " and ".join(f"--{gap.option}" for gap in gaps)
    verb = "are" if len(gaps) > 1 else "is"
    reasons = "; ".join(dict.fromkeys(gap.why for gap in gaps))
    hints = "; ".join(dict.fromkeys(gap.hint for gap in gaps))
    return UsageError(f"{trace}: {names} {verb} needed: {reasons}", hint=hints)


def slow_device(machine: Machine | None, _: Options) -> Default | Gap:
    """The device that is like the disk under swap or root."""
    if machine is None:
        return Gap("slow", UNKNOWN, EXAMPLE)
    disk = swap_disk(machine)
    if disk is None:
        return Gap("slow", "no disk was found under its swap areas or its root", EXAMPLE)
    name, kind = disk["name"], disk["class"]
    device = SLOW.get(kind) or by_version(SLOW_BY_VERSION.get(kind, {}), disk["version"])
    told = f"the recorded machine's {name} is {disk_words(disk)}"
    if device:
        return Default("slow", device, told)
    candidates = CANDIDATES.get(kind, "a name of `pagewise devices`")
    hint = (
        f"--slow takes {candidates}; or measure it there: "
        f"pagewise devices probe FOLDER -o {name}.toml, then --slow {name}.toml"
    )
    return Gap("slow", f"{told}, which does not tell its speed", hint)


def by_version(devices: Mapping[str, str], version: str | None) -> str | None:
    """The device of a version; None where it is not known."""
    found = (device for start, device in devices.items() if (version or "").startswith(start))
    return next(found, None)


def fast_device(machine: Machine | None, _: Options) -> Default | Gap:
    """Compressed memory with the machine's algorithm."""
    if machine is None:
        return Gap("fast", UNKNOWN, EXAMPLE)
    if zram := fullest_zram(machine):
        name, algorithm = zram[0], zram[1]["algorithm"] or "an unknown algorithm"
        why = f"the recorded machine's {name} compresses with {algorithm}"
        device = zram_device(zram[1])
        is_exact = device.endswith(f"-{algorithm}")
        return Default("fast", device, why if is_exact else f"{why}, to which this is closest")
    kernel = machine["features"]
    for name, is_there in (("zram", kernel["has_zram"]), ("zswap", kernel["zswap"] is not None)):
        if is_there:
            return Default("fast", FAST, f"the recorded machine's kernel has {name}")
    return Gap("fast", "the recorded machine's kernel has neither zram nor zswap", EXAMPLE)


def zram_device(zram: Mapping[str, Any]) -> str:
    """The device that is like zram with its algorithm."""
    return SLOW_ALGORITHMS.get(zram["algorithm"] or "", FAST)


def memory(machine: Machine | None, _: Options) -> Default | None:
    """All memory of the machine, or of the group that was recorded."""
    if machine is None:
        return None
    if limit := machine["limit_bytes"]:
        return Default("memory", limit, "the limit of the recorded cgroup")
    return Default("memory", machine["memory_bytes"], "all of the recorded machine's")


def compression(machine: Machine | None, given: Options) -> Default | None:
    """How well the machine's zram compresses, if the fast device is like it."""
    zram = fullest_zram(machine) if machine else None
    if zram is None or given.fast != zram_device(zram[1]):
        return None
    name, counts = zram
    found = ratio(counts)
    if found is None:
        return None
    held, used = counts["orig_data_bytes"], counts["mem_used_bytes"]
    why = f"the recorded machine's {name} held {format_size(held)} in {format_size(used)}"
    return Default("compression", round(found, 2), why)


UNKNOWN = "the recording does not say on which machine it was made"
EXAMPLE = (
    "as in --fast zram-lz4 --slow ufs-3.1: names of `pagewise devices`, READ/WRITE times as "
    "90/40us, or a device file"
)
Rule: TypeAlias = Callable[[Machine | None, Options], Default | Gap | None]
RULES: dict[str, Rule] = {
    "fast": fast_device,
    "slow": slow_device,
    "memory": memory,
    "compression": compression,
}
"""Each option and what it follows from, in an order in which a rule sees what it needs."""
