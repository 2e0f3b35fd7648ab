"""The virtual machines of one host, described in a TOML file.

::

    storage = "optane-ssd"            # default for all guests; names as in `advise pagesize`
    architecture = "x86-64"           # or "arm64"; default for all guests
    system_memory = "256MiB"          # memory of a guest besides that of its workload
    kernel_arguments = "root=/dev/vda1"
    host_huge_pages = false           # true: guests use reserved 2 MiB pages of the host
    walk = "nested"                   # page walks: "nested" as in a virtual machine, or "native"
    walk_levels = 4                   # levels of the page tables of guest and host
    cached_levels = 3                 # upper levels that the processor caches
    tlb = 64                          # entries of the first TLB
    l2_tlb = 1536                     # entries of the second TLB
    dram_ns = 50.0                    # time of a memory access
    fault_ns = 1500.0                 # the guest kernel's time for a fault

    [kernels.arm64]                   # available kernels, by their base page
    "4KiB" = "vmlinuz-arm64"
    "16KiB" = "vmlinuz-arm64-16k"

    [[vm]]
    name = "vm-1"
    workload = "game.pwf"             # a trace of `pagewise capture`
    memory = "80%"                    # of the workload's footprint, or a size

Paths are relative to the folder of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pagewise.errors import UsageError
from pagewise.models.page_size_time import HARDWARE, TODAY, WALK_LEVELS_MAX, Hardware, Terms
from pagewise.spec_files import read_toml, require_known, require_table, require_text
from pagewise.units import PAGE_BYTES, format_size, parse_size

DEFAULTS = {
    "architecture": "x86-64",
    "system_memory": "256MiB",
    "kernel_arguments": "",
    "host_huge_pages": False,
    "walk": "nested",
    "walk_levels": TODAY.walk_levels,
    "cached_levels": TODAY.cached_levels,
    "tlb": HARDWARE.tlb_entries,
    "l2_tlb": HARDWARE.second_tlb_entries,
    "dram_ns": HARDWARE.dram_ns,
    "fault_ns": HARDWARE.fault_ns,
}
SHARED_KEYS = {"storage", *DEFAULTS}
TOP_KEYS = SHARED_KEYS | {"kernels", "vm"}
VM_KEYS = SHARED_KEYS | {"name", "workload", "memory"}
BASE_PAGES = {
    "x86-64": (PAGE_BYTES,),
    "arm64": (PAGE_BYTES, 4 * PAGE_BYTES, 16 * PAGE_BYTES),
}
"""The base pages that kernels can have, by architecture."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The form of names, which become folders."""


@dataclass(frozen=True)
class Guest:
    """One virtual machine. ``kernels``: images by bytes of their base page."""

    name: str
    workload: Path
    memory: str
    storage: str
    architecture: str
    system_memory_bytes: int
    kernel_arguments: str
    has_host_huge_pages: bool
    kernels: Mapping[int, Path]
    terms: Terms
    hardware: Hardware


def load(path: str | Path) -> list[Guest]:
    """The guests of a file. Raises UnreadableInput, or UsageError that names table and entry."""
    path = Path(path)
    try:
        return parse(read_toml(path), path.parent)
    except UsageError as error:
        if error.path is not None:
            raise
        raise UsageError(f"{path}: {error}", path=str(path), hint=error.hint) from error


def parse(spec: Mapping[str, object], folder: Path) -> list[Guest]:
    """The guests of a file as a mapping."""
    require_known(spec, TOP_KEYS, "the file")
    tables = spec.get("vm")
    if not isinstance(tables, list) or not tables:
        raise UsageError("the file has no guest", hint="write a [[vm]] table for each guest")
    kernels = _kernels(spec.get("kernels", {}), folder)
    shared = {name: spec[name] for name in SHARED_KEYS if name in spec}
    guests = [_guest(table, shared, kernels, folder) for table in tables]
    names = Counter(guest.name for guest in guests)
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise UsageError(f"two guests have the name {twice!r}")
    return guests


def _guest(
    value: object,
    shared: Mapping[str, object],
    kernels: Mapping[str, Mapping[int, Path]],
    folder: Path,
) -> Guest:
    """The guest of one ``[[vm]]``."""
    own = require_table(value, "[[vm]]")
    name = require_text(own, "name", "[[vm]]")
    where = f"vm {name!r}"
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{where}: not a name",
            hint="a letter or digit, then up to 63 letters, digits, . _ and -",
        )
    require_known(own, VM_KEYS, where)
    table = {**DEFAULTS, **shared, **own}
    architecture = str(table["architecture"])
    if architecture not in BASE_PAGES:
        known = " and ".join(BASE_PAGES)
        raise UsageError(f"{where}: no architecture {architecture!r}", hint=f"there is {known}")
    if not isinstance(table["host_huge_pages"], bool):
        raise UsageError(f"{where}: host_huge_pages must be true or false")
    arguments = str(table["kernel_arguments"])
    if not arguments.isprintable():
        raise UsageError(f"{where}: kernel_arguments must be one line")
    return Guest(
        name=name,
        workload=folder / require_text(table, "workload", where),
        memory=require_text(table, "memory", where),
        storage=require_text(table, "storage", where),
        architecture=architecture,
        system_memory_bytes=_size(table["system_memory"], f"{where}: system_memory"),
        kernel_arguments=arguments,
        has_host_huge_pages=table["host_huge_pages"],
        kernels=kernels.get(architecture, {}),
        terms=_terms(table, where),
        hardware=Hardware(
            tlb_entries=int(_number(table, "tlb", where, 1, 65536)),
            second_tlb_entries=int(_number(table, "l2_tlb", where, 1, 1 << 20)),
            dram_ns=_number(table, "dram_ns", where, 0, 1e6),
            fault_ns=_number(table, "fault_ns", where, 0, 1e9),
        ),
    )


def _terms(table: Mapping[str, object], where: str) -> Terms:
    """The page walk of a guest. Raises UsageError that names the entry."""
    walk = table["walk"]
    if walk not in ("native", "nested"):
        raise UsageError(f"{where}: walk: {walk!r}", hint='use "native" or "nested"')
    levels = int(_number(table, "walk_levels", where, 1, WALK_LEVELS_MAX))
    cached = int(_number(table, "cached_levels", where, 0, levels - 1))
    return replace(
        TODAY,
        walk="native" if walk == "native" else "nested",
        walk_levels=levels,
        cached_levels=cached,
    )


def _number(table: Mapping[str, object], name: str, where: str, least: float, most: float) -> float:
    """A number of a table; whole if ``most`` is. Raises UsageError that names the entry."""
    value = table[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_whole = isinstance(most, int)
    if not is_number or (is_whole and not isinstance(value, int)):
        kind = "a whole number" if is_whole else "a number"
        raise UsageError(f"{where}: {name}: {value!r} is not {kind}")
    number = float(value)  # type: ignore[arg-type]
    if not least <= number <= most:
        raise UsageError(f"{where}: {name}: {value} is not from {least:g} to {most:g}")
    return number


def _size(value: object, where: str) -> int:
    """Bytes of an entry. Raises UsageError that names the entry."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UsageError(f"{where}: {value!r} is not a size", hint='for example "256MiB"')
    try:
        return parse_size(value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", hint=error.hint) from error


def _kernels(value: object, folder: Path) -> dict[str, dict[int, Path]]:
    """``[kernels.ARCHITECTURE]``: images by base page."""
    require_known(value, set(BASE_PAGES), "[kernels]")
    return {
        architecture: dict(
            _kernel(architecture, size, image, folder)
            for size, image in require_table(images, f"[kernels.{architecture}]").items()
        )
        for architecture, images in require_table(value, "[kernels]").items()
    }


def _kernel(architecture: str, size: str, image: object, folder: Path) -> tuple[int, Path]:
    """The base page and the image of one kernel."""
    where = f"[kernels.{architecture}] {size!r}"
    page_bytes, known = _size(size, where), BASE_PAGES[architecture]
    if page_bytes not in known:
        offered = ", ".join(map(format_size, known))
        raise UsageError(f"{where}: not a base page of this architecture", hint=f"it has {offered}")
    # A line break would end the name in qemu.args; libvirt.xml allows no other control character.
    if not isinstance(image, str) or not str(folder / image).isprintable():
        raise UsageError(f"{where}: {image!r} is not a path on one line")
    return page_bytes, folder / image
