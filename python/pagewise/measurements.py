"""Results of captures, probes, checks of programs and settings of guests, field by field."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from pagewise.answers import Setting, Spread
from pagewise.ranges import Amount, Count
from pagewise.types import StartedProcesses


class CaptureResult(TypedDict):
    """What a capture of a program's memory references wrote, and how it ended."""

    schema: str
    """Name and version of this layout."""
    trace: str
    """The path of the trace."""
    command: list[str]
    """The program and its arguments."""
    architecture: str
    """Processor architecture of the program, as QEMU names it."""
    references: Count
    """Instructions, reads and writes."""
    instructions: Count
    """Instructions fetched."""
    reads: Count
    """Data read."""
    writes: Count
    """Data written, or read and written by one instruction."""
    steps: Count
    """References that the filter let through."""
    file_bytes: Count
    """Size of the trace."""
    stop: Literal["end", "limit", "interrupt", "closed"]
    """Why the trace ends: at the end of the program (`end`), after `--max-refs` (`limit`), by a
    signal (`interrupt`), or since the program closed the pipe of the capture (`closed`)."""
    cut: str | None
    """Why there is less than the whole run; null if there is not."""
    processes: StartedProcesses | None
    """Threads and processes that the program started; null if the end of the trace is missing."""
    exit_status: int | None
    """Exit status of the program; null if it did not end by itself."""
    signal: str | None
    """Name of the signal that ended the program; null if none did, or if the capture sent it."""
    ended_by: int | None
    """Number of the signal that ended the capture; null if none did."""
    notes: list[str]
    """What the counts do not cover."""


class Probed(TypedDict):
    """Times of a disk as fio measures them, which are also in the device file."""

    schema: str
    """Name and version of this layout."""
    path: str
    """The path of the device file."""
    read_us: Spread
    """Time of a read of 4 KiB, in microseconds."""
    write_us: Spread
    """Time of a write of 4 KiB, in microseconds."""
    setup_us: Spread | None
    """The part of a read that does not depend on its size, in microseconds; null if unknown."""
    bandwidth_mb_s: Spread | None
    """Rate of the part of a read that depends on its size, in MB/s; null if unknown."""
    write_bandwidth_mb_s: Spread | None
    """Rate of the part of a write that depends on its size, in MB/s; null if unknown."""


class FoundProblem(TypedDict):
    """What fails with larger pages, and how to fix it."""

    what: str
    """The part that fails, and why."""
    fix: str
    """What to change."""
    is_certain: bool
    """Whether the program surely fails; else it may."""


class CheckedFile(TypedDict):
    """A program or a library."""

    path: str
    """The path of the file; in a package the path of the package and the name inside."""
    machine: str | None
    """The processor that it is for; null if unknown."""
    alignment_bytes: Count | None
    """The smallest alignment of its segments; null if it has none."""
    problems: list[FoundProblem]
    """What fails with larger pages."""


class CheckResult(TypedDict):
    """Programs and libraries that would fail with pages of a size, why, and how to fix them."""

    schema: str
    """Name and version of this layout."""
    page_bytes: Count
    """The size of the pages."""
    files: list[CheckedFile]
    """The programs and libraries that were checked."""
    passed_over: Count
    """Files that are not programs."""
    fails: Count
    """Programs and libraries that surely fail."""
    may_fail: Count
    """Further programs and libraries that may fail."""


class GuestAnswer(TypedDict):
    """The page size of a virtual machine, with its gain, its cost and its settings."""

    name: str
    """The name of the virtual machine."""
    workload: str
    """File name of the trace of its program."""
    architecture: str
    """Processor architecture: `x86-64` or `arm64`."""
    storage: str
    """The device that faults read."""
    memory_bytes: Count
    """Memory of the virtual machine."""
    page_bytes: Count
    """The size to take."""
    gain: Spread
    """Time saved against 4 KiB, as a share."""
    ideal_bytes: Count
    """The best of all sizes."""
    regret: float
    """What the sizes of the virtual machine cost against it, as a share."""
    footprint_factor: Amount
    """Footprint in pages of this size by that in pages of 4 KiB."""
    kernel: str | None
    """The kernel that it starts from; null if the file names none."""
    kernel_arguments: str
    """What the command line of its kernel needs."""
    settings: list[Setting]
    """Commands to run inside it."""
    host_page_bytes: NotRequired[Count]
    """With nested page walks: the smallest page of the host with which the gain is reached."""
    notes: list[str]
    """What to know or to do before it starts."""
    files: NotRequired[list[str]]
    """The files that were written for it; absent until they are written."""


class Applied(TypedDict):
    """The page sizes of all virtual machines of a host."""

    schema: str
    """Name and version of this layout."""
    guests: list[GuestAnswer]
    """Every virtual machine of the file."""


class GuestFaults(TypedDict):
    """Page faults of a program in a virtual machine."""

    forecast: Count
    """What the program's trace says: the median over starts of the program in memory."""
    forecast_low: Count
    """The fewest at any of these starts."""
    forecast_high: Count
    """The most at any of these starts."""
    measured: Count
    """What the kernel of the virtual machine counted: minor and major faults of the program, the
    median over the rounds."""
    measured_low: Count
    """The fewest of any round."""
    measured_high: Count
    """The most of any round."""


class GuestTlbMisses(TypedDict):
    """References of the trace that miss each level of the TLB, at a page size."""

    first: Count
    """With 64 entries."""
    second: Count
    """With 1536 entries."""


class GuestRun(TypedDict):
    """Runs of a program in a virtual machine with one page size; figures other than faults are of
    the round with the median of them."""

    page_bytes: Count
    """The page size."""
    faults: GuestFaults
    """Page faults."""
    instructions: Count
    """Instructions of the program and of the kernel for it, from the start of the program to its
    end, in steps of 1000: its processor time by a clock of one instruction per nanosecond."""
    bytes_read: Count
    """Bytes that the virtual machine read from the disks of files and swap during the run."""
    huge_pages: Count
    """Transparent huge pages of this size that the kernel gave; 0 if the size is its base page."""
    tlb_misses: GuestTlbMisses
    """TLB misses by the trace; the emulated processor has no TLB to count."""


class GuestTrial(TypedDict):
    """Runs of a program in virtual machines, one for each page size, with what was forecast."""

    schema: str
    """Name and version of this layout."""
    command: list[str]
    """The program and its arguments."""
    architecture: str
    """Processor architecture: `x86-64` or `arm64`."""
    kernels: list[str]
    """The releases of the kernels."""
    memory_bytes: Count
    """Limit of the memory of the program."""
    footprint_bytes: Count
    """Memory of all pages of 4 KiB that the trace has."""
    rounds: Count
    """Runs with each page size."""
    sizes: list[GuestRun]
    """The runs, by page size."""
    notes: list[str]
    """What the figures do not cover."""
