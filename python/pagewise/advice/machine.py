"""The machine of a recording, and the defaults that it gives to an advice on swap.

`pagewise-agent record` records swap areas, the disks under them, zram and kernel features. A
default must come from the kernel: a disk whose speed the kernel does not know needs ``--slow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagewise.advice.memory import RATIO_MAX
from pagewise.errors import UsageError
from pagewise.units import MIB, format_size

if TYPE_CHECKING:
    from pagewise.answers import Machine, Taken
    from pagewise.types import Disk, Header, SwapArea, Zram

RATIO_BYTES_MIN = 4 * MIB
"""With fewer bytes of pages, zram's own overhead hides how well they compress."""

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
"""Devices of `pagewise devices` by class of disk and start of its version."""
CANDIDATES = {
    "ufs": "ufs-2.1, ufs-3.1 or ufs-4.0",
    "sd": "sd-a1 or sd-a2",
    "virtual": "the kind of disk that the host has, such as nvme, sata-ssd or hdd",
}
PARTS_OF_A_MACHINE: tuple[Literal["machine", "kernel", "processors", "memory_bytes"], ...] = (
    "machine",
    "kernel",
    "processors",
    "memory_bytes",
)
"""Recordings in which one of these fields differs count as of different machines."""
FAST = "zram-lz4"
SLOW_ALGORITHMS = {"zstd": "zram-zstd", "deflate": "zram-zstd", "842": "zram-zstd"}
"""Devices by zram's algorithm; all others take about as long as lz4."""


def recorded(header: Header) -> Machine | None:
    """The machine in a trace's header; None if it has none, or joins recordings of several."""
    recorder = header.get("recorder")
    system = recorder.get("system") if recorder else None
    if recorder is None or system is None:
        return None
    for other in header.get("further_recorders", ()):
        if any(other[part] != recorder[part] for part in PARTS_OF_A_MACHINE):
            return None
    return {
        "architecture": recorder["machine"],
        "kernel": recorder["kernel"],
        "processors": recorder["processors"],
        "memory_bytes": recorder["memory_bytes"],
        **system,
    }


def disk_areas(machine: Machine | None) -> list[SwapArea]:
    """The swap areas that are not zram, in the order in which the kernel fills them."""
    on_disk = (area for area in areas(machine) if area["kind"] != "zram")
    return sorted(on_disk, key=lambda area: -area["priority"])


def zram_areas(machine: Machine | None) -> list[SwapArea]:
    """The swap areas that are zram."""
    return [area for area in areas(machine) if area["kind"] == "zram"]


def areas(machine: Machine | None) -> list[SwapArea]:
    """The swap areas, except those with unprintable paths: a setting contains the path."""
    found = machine["areas"] if machine else []
    return [area for area in found if area["path"].isprintable()]


def swapon_priority(number: int) -> str:
    """The swapon option for a priority; empty for a negative one, which the kernel assigns."""
    return f" -p {number}" if number >= 0 else ""


def swap_disk(machine: Machine) -> Disk | None:
    """The disk that the machine swaps to or, if it swaps to none, its root disk."""
    on_disk = disk_areas(machine)
    return on_disk[0]["disk"] if on_disk else machine["root"]


def has_zswap(machine: Machine | None) -> bool:
    """Whether the kernel has zswap, on or off; True if the recording does not say."""
    return machine is None or machine["features"]["zswap"] is not None


def fullest_zram(machine: Machine) -> tuple[str, Zram] | None:
    """Name and counts of the zram device that holds most; None without zram."""
    held = sorted(machine["zram"].items(), key=lambda pair: -pair[1]["orig_data_bytes"])
    return held[0] if held else None


def ratio(zram: Zram) -> float | None:
    """Bytes of pages per byte of memory; None if zram holds too little to compute it."""
    held, used = zram["orig_data_bytes"], zram["mem_used_bytes"]
    if held < RATIO_BYTES_MIN or not used:
        return None
    return min(max(held / used, 1.0), RATIO_MAX)


def disk_words(disk: Disk) -> str:
    """The kind of disk in words: ``UFS 3.1``."""
    kind, version = CLASSES.get(disk["class"], "a disk of unknown kind"), disk["version"]
    if disk["class"] == "sd":
        return f"{kind} of class {version}" if version else f"{kind} without a performance class"
    return f"{kind} {version}" if version else kind


@dataclass(frozen=True)
class Options:
    """The options of an advice on swap; None if the caller did not give one."""

    fast: str | None = None
    slow: str | None = None
    memory: str | int | None = None
    compression: float | None = None

    def with_value(self, option: str, value: str | float) -> Options:
        """A copy of the options with one more; ``option`` is the name of a rule."""
        match option:
            case "fast":
                return replace(self, fast=str(value))
            case "slow":
                return replace(self, slow=str(value))
            case "memory":
                return replace(self, memory=int(value))
            case _:
                return replace(self, compression=float(value))


@dataclass(frozen=True)
class Default:
    """A default from the machine; ``why`` is a clause about the recorded machine."""

    option: str
    value: str | int | float
    why: str

    def to_json(self) -> Taken:
        """The form in results."""
        return {"option": f"--{self.option}", "value": self.value, "why": self.why}


@dataclass(frozen=True)
class Gap:
    """A device that the machine does not determine: why, and what to do."""

    option: str
    why: str
    hint: str


@dataclass(frozen=True)
class Completed:
    """Options with both devices known, and the defaults among them."""

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


def completed(
    machine: Machine | None, given: Options, trace: str, *, needs_devices: bool = True
) -> Completed:
    """The caller's options, with defaults from the machine.

    Raises UsageError, naming every missing option, if a device is still unknown. Without
    ``needs_devices``, which is for a recording that sizes nothing, takes an example instead.
    """
    found: list[Default] = []
    gaps: list[Gap] = []
    for option, follow in RULES.items():
        if getattr(given, option) is not None:
            continue
        answer = follow(machine, given)
        if isinstance(answer, Gap) and not needs_devices:
            answer = Default(option, EXAMPLES[option], ONLY_AN_EXAMPLE)
        if isinstance(answer, Default):
            found.append(answer)
            given = given.with_value(option, answer.value)
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
    """The device that resembles the swap disk or the root disk."""
    if machine is None:
        return Gap("slow", UNKNOWN, EXAMPLE)
    disk = swap_disk(machine)
    if disk is None:
        return Gap("slow", "no disk was found under its swap areas or its root", EXAMPLE)
    name, kind = disk["name"], disk["class"]
    device = SLOW.get(kind) or by_version(SLOW_BY_VERSION.get(kind, {}), disk["version"])
    disk_is = f"the recorded machine's {name} is {disk_words(disk)}"
    if device:
        return Default("slow", device, disk_is)
    candidates = CANDIDATES.get(kind, "a name from `pagewise devices`")
    hint = (
        f"--slow takes {candidates}; or measure the disk on that machine: "
        f"pagewise devices probe FOLDER -o {name}.toml, then --slow {name}.toml"
    )
    return Gap("slow", f"{disk_is}, whose speed is not known", hint)


def by_version(devices: Mapping[str, str], version: str | None) -> str | None:
    """The device for a version; None if there is none."""
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
        return Default("fast", device, why if is_exact else f"{why}, to which {device} is closest")
    kernel = machine["features"]
    for name, is_there in (("zram", kernel["has_zram"]), ("zswap", kernel["zswap"] is not None)):
        if is_there:
            return Default("fast", FAST, f"the recorded machine's kernel has {name}")
    return Gap("fast", "the recorded machine's kernel has neither zram nor zswap", EXAMPLE)


def zram_device(zram: Zram) -> str:
    """The device that resembles zram with its algorithm."""
    return SLOW_ALGORITHMS.get(zram["algorithm"] or "", FAST)


def memory(machine: Machine | None, _: Options) -> Default | None:
    """The memory of the machine, or the limit of the recorded cgroup."""
    if machine is None:
        return None
    if limit := machine["limit_bytes"]:
        return Default("memory", limit, "the limit of the recorded cgroup")
    return Default("memory", machine["memory_bytes"], "all of the recorded machine's")


def compression(machine: Machine | None, given: Options) -> Default | None:
    """The compression ratio of the machine's zram, if the fast device resembles it."""
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
EXAMPLES = {"fast": FAST, "slow": "ufs-3.1"}
EXAMPLE = (
    f"for example --fast {EXAMPLES['fast']} --slow {EXAMPLES['slow']}; a device is a name from "
    "`pagewise devices`, READ/WRITE times such as 90/40us, or a device file"
)
ONLY_AN_EXAMPLE = "only an example, because this recording cannot size swap"
Rule: TypeAlias = Callable[["Machine | None", Options], Default | Gap | None]
RULES: dict[str, Rule] = {
    "fast": fast_device,
    "slow": slow_device,
    "memory": memory,
    "compression": compression,
}
"""The rule for each option; a rule may use the options of the rules before it."""
