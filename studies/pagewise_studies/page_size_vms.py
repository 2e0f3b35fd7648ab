"""The twelve virtual machines of S4's Table 1: the page size of the paper, and ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagewise.models.page_size import MEMORY_SPREAD, choose
from pagewise.models.page_size_time import Terms
from pagewise.reference_curves import PAGE_SIZES
from pagewise.units import PAGE_BYTES, format_share, format_size
from pagewise_studies.figure import Figure, Point
from pagewise_studies.page_size_cells import (
    NVM,
    PAPER_BYTES,
    TARGET_BYTES,
    Cell,
    Program,
    gain,
    kept,
    machine_of,
)
from pagewise_studies.table import Row, Table

PAIRS = (("office", 0.1, 0.8), ("pdf", 0.2, 0.9), ("game", 0.6, 0.8),
         ("multimedia", 0.5, 0.8), ("photo", 0.6, 0.8))  # fmt: skip
"""Programs that the paper shows at two memories with NVM storage, and these memories."""


@dataclass(frozen=True)
class Vm:
    """A row of Table 1 with the paper's outcome; ``gain`` is None if the paper has none."""

    name: str
    scenario: int
    program: str
    share: float
    is_hdd: bool
    page_bytes: int
    gain: float | None = None

    @property
    def is_scarce(self) -> bool:
        """Whether the paper calls the memory of this machine scarce."""
        return self.name in ("VM-2", "VM-9")

    def cell(self, programs: Mapping[str, Program], nvm: str, terms: Terms) -> Cell:
        """The cell of this machine with our program; ``nvm`` stands for NVM storage."""
        machine = machine_of("hdd" if self.is_hdd else nvm, terms)
        return Cell(programs[self.program].curves, self.share, machine)


VMS = (
    Vm("VM-1", 1, "game", 0.8, False, 16384),
    Vm("VM-2", 1, "office", 0.1, False, 1024, 0.19),
    Vm("VM-3", 1, "photo", 0.6, False, 16384),
    Vm("VM-4", 2, "pdf", 0.9, False, 32768, 0.56),
    Vm("VM-5", 2, "multimedia", 0.5, False, 16384),
    Vm("VM-6", 2, "game", 0.3, True, PAGE_BYTES, 0.0),
    Vm("VM-7", 3, "office", 0.8, False, 32768),
    Vm("VM-8", 3, "photo", 0.8, False, 16384),
    Vm("VM-9", 4, "pdf", 0.2, False, 2048),
    Vm("VM-10", 4, "multimedia", 0.8, False, 32768),
    Vm("VM-11", 5, "game", 0.6, False, 8192),
    Vm("VM-12", 5, "office", 0.4, True, PAGE_BYTES, 0.0),
)

AMPLE = ("VM-1", "VM-3", "VM-4", "VM-5", "VM-7", "VM-8", "VM-10")
"""The machines whose time is mostly translation, according to the paper."""


def table(programs: Mapping[str, Program], terms: Terms) -> Table:
    """The table of the paper with our sizes and gains, for both kinds of NVM storage."""
    return Table(
        "vms",
        "The paper's twelve virtual machines",
        "The best size from 1 to 32 KiB that leaves 64 frames, with each device of docs/devices.md "
        "that stands for NVM. In brackets: the gain over 4 KiB, then its range with 10 % more or "
        "less memory and over the storage's latencies. *Targets*: the best of 4, 16 and 64 KiB. A "
        "gain under 3 % leaves 4 KiB. Every fault reads storage, the TLB has one level, and times "
        "are per reference past the filter. *First touches*: their share of the time at 4 KiB.",
        [row(vm, programs, terms) for vm in VMS],
    )


def row(vm: Vm, programs: Mapping[str, Program], terms: Terms) -> Row:
    """The row of a machine."""
    stated = "" if vm.gain is None else f" ({format_share(vm.gain)})"
    cells = {nvm: vm.cell(programs, nvm, terms) for nvm in NVM}
    return {
        "VM": vm.name,
        "program": vm.program,
        "memory": format_share(vm.share),
        "storage": "HDD" if vm.is_hdd else "NVM",
        "paper": format_size(vm.page_bytes) + stated,
        **{f"first touches, {nvm}": first_touches(cell) for nvm, cell in cells.items()},
        **{nvm: chosen(cell, PAPER_BYTES) for nvm, cell in cells.items()},
        **{f"targets, {nvm}": chosen(cell, TARGET_BYTES) for nvm, cell in cells.items()},
    }


def first_touches(cell: Cell) -> str:
    """The share of the time at 4 KiB that first touches take."""
    total_ns = float(cell.times((PAGE_BYTES,))[PAGE_BYTES].total_ns)
    return format_share(cell.machine.first_touch_ns(cell.curves, PAGE_BYTES) / total_ns)


def chosen(cell: Cell, sizes: Sequence[int]) -> str:
    """The size that is taken, its gain and the interval of the gain, as text."""
    if not cell.judged((PAGE_BYTES,), MEMORY_SPREAD):
        return "too little memory"
    choice = choose(
        cell.curves,
        cell.memory_bytes,
        cell.machine.storage,
        sizes=sizes,
        terms=cell.machine.terms,
        margin=0,
    )
    low, high = choice.gain_interval
    if choice.page_bytes == PAGE_BYTES:
        return format_size(PAGE_BYTES)
    interval = f"{format_share(low)} to {format_share(high)}"
    return f"{format_size(choice.page_bytes)} ({format_share(choice.gain)}; {interval})"


def figures(programs: Mapping[str, Program], terms: Terms) -> list[Figure]:
    """Fig. 4: time at the size taken over the time at 4 KiB, for both kinds of NVM storage.

    The figure shows ratios, since a machine with a hard disk takes a hundred times as long.
    """
    found = []
    for nvm in NVM:
        points = []
        for vm in VMS:
            cell, number = vm.cell(programs, nvm, terms), vm.name.removeprefix("VM-")
            if not cell.judged((PAGE_BYTES,)):
                continue
            ideal = cell.total_ns(cell.rates(cell.judged(PAPER_BYTES)))
            target = cell.total_ns(cell.rates(cell.judged(TARGET_BYTES)))
            points += [
                Point(number, "4 KiB", 1.0),
                Point(number, "best of 1 to 32 KiB", 1 - gain(ideal, kept(ideal))),
                Point(number, "best of 4, 16, 64 KiB", 1 - gain(target, kept(target))),
            ]
        found.append(
            Figure(
                name=f"page-size-fig4-{nvm}",
                title=f"Fig. 4: the twelve machines, {nvm} for NVM",
                x_label="virtual machine",
                y_label="time, of that at 4 KiB",
                points=tuple(points),
                config={"figure": "fig4", "storage": nvm, "terms": str(terms)},
                is_categorical=True,
                group="fig4",
            )
        )
    return found


@dataclass(frozen=True)
class MachineOutcome:
    """A machine under one reading: the size taken, its gain, and the parts of the time at 4 KiB."""

    vm: Vm
    page_bytes: int
    gain: float
    translation_ns: float
    """Time of TLB misses at 4 KiB."""
    fault_ns: float
    """Time of faults at 4 KiB."""
    translation_share: float
    """T_A as a share of T_TOTAL at 4 KiB."""
    is_u_shaped: bool
    """Whether the smallest and the largest page both take at least 2 % more than the best page."""
    spread: float
    """The largest departure from the time at 4 KiB, over the larger sizes."""


def outcome(vm: Vm, cell: Cell, sizes: Sequence[int]) -> MachineOutcome:
    """The outcome of a machine, for S4's checks."""
    times = cell.times(PAGE_SIZES)
    total = {size: float(time.total_ns) for size, time in times.items()}
    judged = {size: total[size] for size in cell.judged(sizes)}
    taken = kept(judged)
    hardware = cell.machine.hardware
    best = min(total.values())
    above = [
        total_ns / judged[PAGE_BYTES] for size, total_ns in judged.items() if size >= PAGE_BYTES
    ]
    return MachineOutcome(
        vm=vm,
        page_bytes=taken,
        gain=gain(judged, taken),
        translation_ns=times[PAGE_BYTES].translation_ns - hardware.tlb_ns,
        fault_ns=float(times[PAGE_BYTES].data_ns) - hardware.dram_ns,
        translation_share=times[PAGE_BYTES].translation_ns / total[PAGE_BYTES],
        is_u_shaped=min(total[PAGE_SIZES[0]], total[PAGE_SIZES[-1]]) >= 1.02 * best,
        spread=max(abs(ratio - 1) for ratio in above),
    )
