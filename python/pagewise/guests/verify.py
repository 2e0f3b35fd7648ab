"""Runs a program in guests with each page size, under the memory that it was judged for.

Each guest starts as `apply` describes it, on an emulated processor whose clock counts instructions:
one per nanosecond. The program is in a memory cgroup, on a disk that was not read before, with a
second disk for swap.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.capture.program import Program, find
from pagewise.errors import UsageError
from pagewise.guests.apply import ARCHITECTURES
from pagewise.guests.boot import (
    BUSYBOX,
    Answer,
    GuestFailed,
    Machine,
    basic_arguments,
    boot,
    image,
    kernel_of,
    part,
    require,
)
from pagewise.guests.debian import package
from pagewise.guests.forecast import Faults, simple_forecast
from pagewise.guests.program import copy_files
from pagewise.guests.spec import BASE_PAGES, Guest, parse
from pagewise.guests.start import qemu_arguments, sizes, start
from pagewise.huge_pages.settings import SWITCHES
from pagewise.models.page_size_curves import Curves, cut_note, footprint_bytes
from pagewise.models.page_size_time import HARDWARE
from pagewise.recording import Progress
from pagewise.scratch import scratch
from pagewise.units import MIB, PAGE_BYTES, format_size, format_size_short

if TYPE_CHECKING:
    from pagewise.measurements import GuestRun, GuestTrial

SCHEMA = "pagewise.pagesize-guest/1"
SUITE = "bookworm-backports"
"""The oldest Debian suite whose kernels have ``thp_anon=`` and, for arm64, base pages of 16 KiB."""
KERNELS = {
    "x86-64": ("linux-image-cloud-amd64",),
    "arm64": ("linux-image-cloud-arm64", "linux-image-arm64-16k"),
}
DEBIAN = {"x86-64": "amd64", "arm64": "arm64"}
"""Debian's names of the architectures."""
OPTIONS = {"x86-64": "CONFIG_X86_64", "arm64": "CONFIG_ARM64"}
"""The option that every kernel of an architecture has."""
PROGRAM_ONLY = "cgroup.memory=nokmem"
"""Keeps page tables and other memory of the kernel out of the limit, as the model does."""
OWN_FOLDER = ".pagewise"
"""The folder on the program's disk for what starts and measures it."""
SECTOR_BYTES = 512
DISK_MIB = 512
"""Room on the disk for what the program writes."""
TIMEOUT_S = 3600

SCRIPT = """\
set -e
count() {{
    echo "sectors $(cat /sys/block/vd[bc]/stat | awk '{{ sum += $3 }} END {{ print sum }}')"
    awk '$1 == "usage_usec" {{ print "cpu_us", $2 }}' /groups/program/cpu.stat
    echo "huge_pages $(cat {huge_pages} 2>/dev/null || echo 0)"
}}
mkdir -p /groups proc sys dev tmp
chmod 1777 tmp
mount -t cgroup2 groups /groups
mount -t proc proc proc
mount -t sysfs sys sys
mount --bind /dev dev
echo +memory >/groups/cgroup.subtree_control
mkdir /groups/program
echo {memory_bytes} >/groups/program/memory.max
mkswap /dev/vdc >/dev/null
swapon /dev/vdc
echo 0 >/proc/sys/vm/page-cluster
sync
echo 3 >/proc/sys/vm/drop_caches
# Read outside the group, so that it does not count as the program's memory.
cat {own}/busybox >/dev/null
count >/result/before
set +e
sh -c 'echo $$ >/groups/program/cgroup.procs; exec chroot . /{own}/busybox sh /{own}/start'
status=$?
count >/result/after
cp {own}/faults {own}/messages /groups/program/memory.events /groups/program/memory.stat /result/
uname -r >/result/kernel
exit $status
"""


@dataclass(frozen=True)
class Setup:
    """What to boot for a program: the guest, its kernels by base page, and the sizes in turn."""

    program: Program
    guest: Guest
    machines: Mapping[int, Machine]
    page_sizes: Sequence[int]

    def base_bytes(self, page_bytes: int) -> int:
        """The base page of the kernel that has this size."""
        return page_bytes if page_bytes in self.machines else PAGE_BYTES


def prepared(
    command: Sequence[str], page_sizes: Sequence[int] = (), kernels: Sequence[Path] = ()
) -> Setup:
    """Finds the program, and fetches the kernels of its guests.

    ``page_sizes``: bytes; by default all that the guest could have. ``kernels``: package files
    (``.deb``) instead of Debian's newest. Raises UsageError for a program or size that no guest
    has and for kernels that do not fit, Missing if QEMU or a package is missing.
    """
    program = find(command)
    architecture = ARCHITECTURES.get(program.architecture)
    if architecture is None:
        raise UsageError(
            f"{program.path} is a program for {program.architecture}, for which there is no guest",
            hint=f"guests have the processors {' and '.join(BASE_PAGES)}",
        )
    machines = machines_of(architecture, kernels)
    guest = described(architecture, machines)
    offered = sizes(guest)
    unknown = sorted(set(page_sizes) - set(offered))
    if unknown:
        raise UsageError(
            f"the guest has no pages of {format_size(unknown[0])}",
            hint=f"it has {', '.join(map(format_size, offered))}",
        )
    return Setup(program, guest, machines, sorted(set(page_sizes)) or offered)


def machines_of(architecture: str, kernels: Sequence[Path]) -> dict[int, Machine]:
    """The machines by base page, with their packages fetched.

    Raises UsageError for a kernel of another processor, or with the base page of one before.
    """
    for path in kernels:
        if path.suffix != ".deb":
            raise UsageError(
                f"--kernel {path}: not a Debian package",
                hint="give a file that ends in .deb, such as `make bindeb-pkg` makes",
            )
    machines: dict[int, Machine] = {}
    for kernel in [*map(str, kernels)] or KERNELS[architecture]:
        machine = Machine(
            architecture=DEBIAN[architecture],
            suite=SUITE,
            kernel=kernel,
            processors=1,
            has_counted_clock=True,
        )
        require(machine)
        if f"{OPTIONS[architecture]}=y" not in configuration(machine).splitlines():
            raise UsageError(
                f"--kernel {kernel}: not a kernel for {architecture}",
                hint="the guest has the processor that the program is made for",
            )
        base = base_bytes(machine)
        if base in machines:
            raise UsageError(
                f"--kernel {kernel}: a second kernel with base pages of {format_size(base)}",
                hint="give one kernel for each base page",
            )
        machines[base] = machine
    return machines


def configuration(machine: Machine) -> str:
    """The configuration of a kernel."""
    return part(kernel_of(machine), "boot/config-*").read_text()


def base_bytes(machine: Machine) -> int:
    """The base page of a kernel, from its configuration."""
    found = re.search(r"(?m)^CONFIG_ARM64_(16|64)K_PAGES=y$", configuration(machine))
    return int(found[1]) * 1024 if found else PAGE_BYTES


def described(architecture: str, machines: Mapping[int, Machine]) -> Guest:
    """The guest, as a file for `apply` would describe it."""
    console = basic_arguments(next(iter(machines.values())))
    return parse(
        {
            "architecture": architecture,
            "storage": "ufs-3.1",
            "kernel_arguments": f"{console} {PROGRAM_ONLY}",
            "kernels": {
                architecture: {
                    format_size_short(size): str(image(machine).absolute())
                    for size, machine in machines.items()
                }
            },
            "vm": [{"name": "verify", "workload": "program", "memory": "100%"}],
        },
        Path(),
    )[0]


def verify(
    setup: Setup,
    command: Sequence[str],
    curves: Curves,
    memory_bytes: int,
    forecasts: Mapping[int, Faults] | None,
    *,
    rounds: int = 1,
    progress: Progress | None = None,
) -> GuestTrial:
    """Runs the program in guests with each page size, and compares its faults with the forecast.

    ``curves`` and ``forecasts`` (`faults_by_size` with ``memory_bytes``) are of a trace of the same
    command. A size without a forecast, and one that is the base page of a kernel, gets the
    `simple_forecast`; only 4 KiB has the other. Raises GuestFailed if a guest or the program in it
    fails.
    """
    expected = {
        size: expected_of(size, setup, curves, memory_bytes, forecasts) for size in setup.page_sizes
    }
    runs: dict[int, list[Measured]] = {size: [] for size in setup.page_sizes}
    kernels = set()
    with scratch() as folder:
        root = folder / "root"
        content_bytes = copy_files(setup.program, folder / "strace", root)
        own = root / OWN_FOLDER
        own.mkdir(parents=True)
        shutil.copy(package("busybox-static", DEBIAN[setup.guest.architecture]) / BUSYBOX, own)
        (own / "start").write_text(starting(setup.program))
        turns = [size for _ in range(rounds) for size in setup.page_sizes]
        for number, page_bytes in enumerate(turns):
            machine = setup.machines[setup.base_bytes(page_bytes)]
            place = folder / "guest"
            place.mkdir()
            answer = boot(
                machine_of(setup.guest, machine, memory_bytes, page_bytes, content_bytes, curves),
                script(memory_bytes, page_bytes),
                {},
                place,
                TIMEOUT_S,
                root,
            )
            runs[page_bytes].append(measured(answer, command[0], page_bytes, memory_bytes))
            kernels.add((answer.results / "kernel").read_text().strip())
            shutil.rmtree(place)  # its disks
            if progress is not None:
                progress(number + 1, len(turns))
    summaries = [summary(size, runs[size], expected[size], curves) for size in setup.page_sizes]
    return {
        "schema": SCHEMA,
        "command": list(command),
        "architecture": setup.guest.architecture,
        "kernels": sorted(kernels),
        "memory_bytes": memory_bytes,
        "footprint_bytes": footprint_bytes(curves),
        "rounds": rounds,
        "sizes": summaries,
        "notes": [
            *cut_note(curves),
            *lower_bounds(setup, curves, memory_bytes, forecasts),
            *few_huge_pages(summaries, setup, curves),
        ],
    }


def lower_bounds(
    setup: Setup, curves: Curves, memory_bytes: int, forecasts: Mapping[int, Faults] | None
) -> list[str]:
    """A note for each base page of which the memory holds too few for the simple forecast."""
    simple = (size for size in setup.page_sizes if not is_followed(size, setup, forecasts))
    bases = sorted({setup.base_bytes(page_bytes) for page_bytes in simple})
    return [
        f"a memory of {format_size(memory_bytes)} holds fewer than {curves.exact_from} pages of "
        f"{format_size(base)}, so forecasts for the kernel with this base page are lower bounds"
        for base in bases
        if memory_bytes // base < curves.exact_from
    ]


def few_huge_pages(runs: Sequence[GuestRun], setup: Setup, curves: Curves) -> list[str]:
    """A note on sizes of which the kernel gave fewer pages than half of the blocks that the program
    writes to first."""
    few = [
        format_size(run["page_bytes"])
        for run in runs
        if run["page_bytes"] not in setup.machines
        and run["huge_pages"] < curves.sizes[run["page_bytes"]].cold_written / 2
    ]
    if not few:
        return []
    return [
        f"the kernel gave fewer pages of {', '.join(few)} than half of the blocks that the program "
        "writes to first: a huge page must fit into its mapping and below the limit, and glibc "
        "extends the heap by little more than 128 KiB at a time; with "
        "GLIBC_TUNABLES=glibc.malloc.top_pad=4194304 in the environment, by 4 MiB"
    ]


def starting(program: Program) -> str:
    """The script that starts the program in the guest's root, with this process's environment."""
    busybox = f"/{OWN_FOLDER}/busybox"
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    measuring = ["time", "-f", "%F %R", "-o", f"/{OWN_FOLDER}/faults"]
    words = [
        *(busybox, "env", "-i", *environment),
        *(busybox, *measuring, os.path.abspath(program.path), *program.arguments),
    ]
    return (
        f"cd {shlex.quote(os.getcwd())}\n"
        f"exec {shlex.join(words)} </dev/null >/dev/null 2>/{OWN_FOLDER}/messages\n"
    )


def script(memory_bytes: int, page_bytes: int) -> str:
    """The guest's script for one size."""
    statistics = SWITCHES / f"hugepages-{page_bytes // 1024}kB" / "stats" / "anon_fault_alloc"
    return SCRIPT.format(memory_bytes=memory_bytes, huge_pages=statistics, own=OWN_FOLDER)


def machine_of(
    guest: Guest,
    machine: Machine,
    memory_bytes: int,
    page_bytes: int,
    content_bytes: int,
    curves: Curves,
) -> Machine:
    """The machine that starts as `apply` says for this memory and page size."""
    begun = start(guest, memory_bytes, page_bytes)
    return replace(
        machine,
        start=tuple(shlex.split(qemu_arguments(guest.name, begun))),
        disk_mib=DISK_MIB + 2 * content_bytes // MIB,
        swap_mib=64 + 2 * footprint_bytes(curves, page_bytes) // MIB,
    )


def expected_of(
    page_bytes: int,
    setup: Setup,
    curves: Curves,
    memory_bytes: int,
    forecasts: Mapping[int, Faults] | None,
) -> Faults:
    """The forecast for a size."""
    if forecasts is not None and is_followed(page_bytes, setup, forecasts):
        return forecasts[page_bytes]
    faults = simple_forecast(curves, page_bytes, setup.base_bytes(page_bytes), memory_bytes)
    return Faults(faults, faults, faults)


def is_followed(page_bytes: int, setup: Setup, forecasts: Mapping[int, Faults] | None) -> bool:
    """Whether the forecast for a size follows what the guest's kernel does."""
    has_one = forecasts is not None and page_bytes in forecasts
    return has_one and setup.base_bytes(page_bytes) == PAGE_BYTES


@dataclass(frozen=True)
class Measured:
    """The figures of one guest."""

    faults: int
    instructions: int
    bytes_read: int
    huge_pages: int


def measured(answer: Answer, name: str, page_bytes: int, memory_bytes: int) -> Measured:
    """The figures of one guest. Raises GuestFailed if the program failed in it."""
    if answer.status != 0:
        raise failed(answer, name, page_bytes, memory_bytes)
    before, after = (counts((answer.results / file).read_text()) for file in ("before", "after"))
    rise = {name: after[name] - before[name] for name in after}
    faults = map(int, (answer.results / "faults").read_text().split())
    return Measured(
        faults=sum(faults),
        instructions=rise["cpu_us"] * 1000,
        bytes_read=rise["sectors"] * SECTOR_BYTES,
        huge_pages=rise["huge_pages"],
    )


def summary(
    page_bytes: int, runs: Sequence[Measured], expected: Faults, curves: Curves
) -> GuestRun:
    """The figures of all rounds of a size."""
    ordered = sorted(runs, key=lambda run: run.faults)
    typical = ordered[(len(ordered) - 1) // 2]
    tlb = [HARDWARE.tlb_entries, HARDWARE.second_tlb_entries]
    first, second = curves.sizes[page_bytes].tlb_misses(tlb)
    return {
        "page_bytes": page_bytes,
        "faults": {
            "forecast": expected.typical,
            "forecast_low": expected.low,
            "forecast_high": expected.high,
            "measured": typical.faults,
            "measured_low": ordered[0].faults,
            "measured_high": ordered[-1].faults,
        },
        "instructions": typical.instructions,
        "bytes_read": typical.bytes_read,
        "huge_pages": typical.huge_pages,
        "tlb_misses": {"first": int(first), "second": int(second)},
    }


def failed(answer: Answer, name: str, page_bytes: int, memory_bytes: int) -> GuestFailed:
    """The error of a program that failed in its guest."""
    size = format_size(page_bytes)
    events = answer.results / "memory.events"
    if events.exists() and counts(events.read_text()).get("oom_kill"):
        return GuestFailed(
            f"the guest with pages of {size} has too little memory for {name}: its kernel killed "
            f"it at {format_size(memory_bytes)}",
            hint="give it more with --memory",
        )
    messages = answer.results / "messages"
    text = messages.read_text(errors="replace") if messages.exists() else answer.output
    return GuestFailed(
        f"{name} failed in the guest with pages of {size}, with status {answer.status}: "
        f"{text.strip()[-500:]}",
        hint="the guest has the files that it opens on this machine, but no network and no devices",
    )


def counts(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    return {name: int(number) for name, number in map(str.split, text.splitlines())}
