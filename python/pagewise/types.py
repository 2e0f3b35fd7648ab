"""Results field by field: the dictionaries that `pagewise` returns and prints as JSON.

Written by tools/schemas.py from the Rust structs of the results. Change those, then run it again.
Results that Python computes are defined in the modules named below.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from pagewise.answers import Advice as Advice
    from pagewise.answers import AdvicePageSizeResult as AdvicePageSizeResult
    from pagewise.answers import CurvesResult as CurvesResult
    from pagewise.answers import PageSize as PageSize
    from pagewise.answers import PageSizeTrial as PageSizeTrial
    from pagewise.answers import ReportResult as ReportResult
    from pagewise.comparisons import BenchLazy as BenchLazy
    from pagewise.comparisons import StudyResult as StudyResult
    from pagewise.comparisons import SweepResult as SweepResult
    from pagewise.comparisons import SweepTable as SweepTable
    from pagewise.fleet import Fleet as Fleet
    from pagewise.installed import Versions as Versions
    from pagewise.measurements import Applied as Applied
    from pagewise.measurements import CaptureResult as CaptureResult
    from pagewise.measurements import CheckResult as CheckResult
    from pagewise.measurements import GuestTrial as GuestTrial
    from pagewise.measurements import Probed as Probed
    from pagewise.system_traces import LaunchesCompared as LaunchesCompared
    from pagewise.zram_answer import ZramAdvice as ZramAdvice

_HOMES = {
    "Advice": "pagewise.answers",
    "AdvicePageSizeResult": "pagewise.answers",
    "CurvesResult": "pagewise.answers",
    "PageSize": "pagewise.answers",
    "PageSizeTrial": "pagewise.answers",
    "ReportResult": "pagewise.answers",
    "BenchLazy": "pagewise.comparisons",
    "StudyResult": "pagewise.comparisons",
    "SweepResult": "pagewise.comparisons",
    "SweepTable": "pagewise.comparisons",
    "Fleet": "pagewise.fleet",
    "Versions": "pagewise.installed",
    "Applied": "pagewise.measurements",
    "CaptureResult": "pagewise.measurements",
    "CheckResult": "pagewise.measurements",
    "GuestTrial": "pagewise.measurements",
    "Probed": "pagewise.measurements",
    "LaunchesCompared": "pagewise.system_traces",
    "ZramAdvice": "pagewise.zram_answer",
}
"""The modules of results that Python computes. They load on first use, because they extend the
types below."""


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(_import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class About(TypedDict):
    """Description of a recording, known when it begins."""

    pagewise: str
    """Version of pagewise that made the recording."""
    kernel: str
    """`uname -r`."""
    machine: str
    """`uname -m`."""
    processors: int
    """Processors online."""
    memory_bytes: int
    """Memory of the machine in bytes."""
    page_bytes: int
    """Bytes per page of the kernel."""
    realtime_offset_ns: int
    """CLOCK_REALTIME less CLOCK_MONOTONIC at the start, in nanoseconds."""
    backend: str
    """Source of the events: `bpf`, with owner and address; `tracefs` or `swapd`, with swap
    slots."""
    sources: list[str]
    """Names of the recorded sources in the recorder's catalog."""
    absent: list[Missing]
    """Data that was requested or belongs to a source, but is not available on this machine."""
    knows_zeros: NotRequired[bool]
    """Whether page-outs of zeros are marked."""
    cgroup: str | None
    """The memory cgroup that events are limited to."""
    process: int | None
    """The process that events are limited to."""
    command: list[str]
    """The recorded command, if any."""
    system: NotRequired[System | None]
    """Swap areas, disks and kernel features of the machine; absent in earlier recordings."""
    tiers: NotRequired[ServedTiers | None]
    """The tiers of the swap server that made the recording."""
    kept: NotRequired[KeptPart | None]
    """Why `record --ring` kept the recording, and from when on."""


class AccessHeat(TypedDict):
    """Accesses by time and address; of references of a program those that missed the filter."""

    bin_s: float | None
    """Length of a bin of time, the first of which begins with the first event; null without a
    clock."""
    bin_accesses: int | None
    """Without a clock, the accesses of a bin, of all address spaces together, or all references;
    null with a clock."""
    spaces: list[HeatSpace]
    """The busiest address spaces in descending order, at most eight: processes, with their own
    pages only, or devices."""
    left_out: int
    """Accesses to other address spaces, and in a swap trace to pages of files."""


class AccessRange(TypedDict):
    """A range of addresses and the accesses to it."""

    first: str
    """Address of the first byte, in hexadecimal."""
    last: str
    """Address of the last byte, in hexadecimal."""
    accesses: list[int]
    """Accesses in each bin of time."""


class Allocations(TypedDict):
    """What a recording of allocations holds."""

    schema: str
    """Name and version of this layout."""
    command: list[str]
    """The recorded command."""
    processes: list[list[str | int]]
    """Names of the processes with blocks, each with its number of blocks, most blocks first."""
    processes_all: int
    """All processes of the command."""
    duration_ns: int
    """Nanoseconds from the first step to the last."""
    allocated: int
    """Blocks given by malloc and its relatives."""
    mapped: int
    """Blocks given by mmap."""
    resized: int
    """Blocks that were resized."""
    zeroed: int
    """Blocks that must read as zero."""
    in_heap: int
    """Blocks in the heap, whose touched pages may be those of earlier blocks."""
    bytes: int
    """Bytes of all blocks."""
    pages_touched: int | None
    """Pages that were touched after their block was given or discarded; `None` if this is unknown
    for any block."""
    pages: int
    """Pages of all blocks."""
    live_bytes_max: int
    """Most bytes that were held at a time, over all processes."""
    sizes: list[SizeClass]
    """Blocks and bytes by size."""
    small_calls: int
    """Allocations below 64 KiB."""
    small_bytes: int
    """Bytes of the allocations below 64 KiB."""
    processor_ns: int | None
    """CPU time of all processes; `None` if the recording lacks the end of a process with blocks, as
    it does after a SIGKILL."""
    system_ns: int | None
    """CPU time that the processes spent in the kernel."""
    minor_faults: int | None
    """Minor faults of the processes, on any memory."""
    is_cut: bool
    """Whether the recording stops before its end."""
    losses: list[Loss]
    """What the recording lost or does not know."""


class AllocatorCounts(TypedDict):
    """Work of the kernel and of the allocator."""

    faults: int
    """Touches of a page without a frame."""
    pages_populated: int
    """Pages that the kernel filled ahead of their touch, without a fault."""
    pages_zeroed: int
    """Pages that the allocator, or the paper's kernel at reuse, cleared."""
    lazy_touches: int
    """Touches of a page that was lazily freed and still had its frame."""
    calls: int
    """System calls that map, unmap, resize, advise or query mappings."""
    pages_reclaimed: int
    """Frames that the kernel took from lazily freed pages because memory was short."""
    kills: int
    """Processes killed because no frame was left to reclaim."""
    pages_pooled_at_kill: int
    """Most frames that belonged to no block at the kill of a process."""


class AllocatorOutcome(TypedDict):
    """The result of one allocator for one history."""

    allocator: str
    """Name in the catalog."""
    budget_pages: int | None
    """Frames of the machine; none: no limit."""
    counts: AllocatorCounts
    """Counts of work."""
    pages_resident_max: int
    """Most frames in use."""
    pages_live_max: int
    """Most frames of blocks that the program had."""
    pages_resident_idle: int
    """Frames in use five idle seconds after the last step before a process ended, summed over the
    processes that came so far."""
    pages_live_idle: int
    """Frames of the program's blocks at these times, summed over the same processes."""
    timeline: list[FramesInUse]
    """The largest memory in use in each of about two hundred equal parts of the time."""


class Analysis(TypedDict):
    """How a recording accesses its pages. Shares are fractions, distributions lists of [largest
    value, count]."""

    schema: str
    """Name and version of this layout."""
    kind: Literal["swap", "block", "objects"]
    """Kind of the trace: what its pages are."""
    page_bytes: int
    """Bytes of a page."""
    accesses: int
    """Accesses: page-outs and page-ins of a swap trace, reads and writes of other traces."""
    pages: int
    """Distinct pages accessed."""
    writes: int
    """Writes among the accesses; 0 if the recording does not distinguish reads and writes."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that receives 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""
    single_out: SingleOut | None
    """Pages that went out exactly once; swap traces only."""
    skew_curve: list[list[float]]
    """(share of pages, share of accesses), busiest pages first."""
    volume: Volume
    """Bytes moved by the busiest 10 % of pages and by the rest (S0 Fig. 1)."""
    top_10_percent_classes: dict[str, ClassShare] | None
    """Classes of the busiest 10 % of pages; none if the recording does not have them."""
    miss_ratio_curve: list[list[float]]
    """(frames, misses per access) of LRU."""
    reaccess_share: float
    """Share of accesses to pages that were accessed before: the most that any memory can serve."""
    reuse_distance: list[list[int]]
    """Distinct other pages between two accesses to the same page."""
    reaccess_interval_ns: list[list[int]] | None
    """Time between two accesses to the same page; none without a clock."""
    swap: SwapTraffic | None
    """Pages out and in; swap traces only."""
    zero_pages: NotRequired[ZeroPages | None]
    """Page-outs and page-ins of pages of zeros, which no device writes or reads; absent if the
    recording does not distinguish them."""
    fault_time: FaultTime | None
    """How long swap-in faults took; none without durations."""
    processes: list[ProcessAnalysis] | None
    """Figures per process, if asked for."""
    top_processes: list[ProcessRow] | None
    """Rows of the busiest processes: all kernel threads in one row, and the others in another."""
    traffic: Traffic | None
    """Accesses over time by process name, if asked for; none without a clock."""
    heat: AccessHeat | None
    """Accesses by time and address, if figures per process were asked for; none of a sample, of
    objects, and without addresses."""
    not_recorded: list[str]
    """Facts that the recording lacks, and the figures that this rules out."""
    sample: NotRequired[AnalysisSample | None]
    """The sample, if only some of the pages were looked at: all figures but `accesses` are then
    estimates."""
    losses: list[Loss]
    """What the recording lost."""
    trace: str
    """The path of the recording."""
    at_4_kib: NotRequired[AnalyzedAt4KiB | None]
    """Figures of the recorded pages of 4 KiB; absent unless larger pages were asked for."""


class AnalysisError(TypedDict):
    """Half of the width of 95 % confidence intervals, by field of the analysis."""

    pages: float
    """Of the number of pages."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that receives 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""
    reaccess_share: float
    """Of the share of accesses to pages that were accessed before."""
    miss_ratio_curve: list[list[float]]
    """(frames, half of the width) at each point of the miss-ratio curve."""


class AnalysisSample(TypedDict):
    """The sample behind an analysis, and how far its estimates may be from the truth."""

    rate: float
    """Share of all pages whose hash is in the sample."""
    pages: int
    """Pages in the sample."""
    accesses: int
    """Accesses of the pages in the sample."""
    error: AnalysisError
    """Half of the width of the 95 % confidence interval of each estimate."""


class AnalyzedAt4KiB(TypedDict):
    """What an analysis says of the recorded pages beside larger ones."""

    page_bytes: int
    """Bytes of a page."""
    accesses: int
    """Accesses to all pages."""
    pages: int
    """Distinct pages accessed."""
    writes: int
    """Writes among the accesses."""
    swap: SwapTraffic | None
    """Pages out and in; null unless it is a swap trace."""


class ArchitectureOption(TypedDict):
    """An option of an architecture."""

    name: str
    """The name of the option in settings."""
    default: str
    """The value of the option unless it is set."""
    meaning: str
    """What the option decides."""
    values: str
    """The values of the option in words."""
    words: list[str]
    """The values that are words."""
    takes_number: bool
    """Whether the option also takes a number."""


class ArchitectureRow(TypedDict):
    """An architecture of the catalog."""

    name: str
    """The name of the architecture in the catalog."""
    summary: str
    """A description of the architecture, in a line."""
    role: str
    """The role of the architecture in comparisons: `baseline`, `system` or `bound`."""
    decides_by_latency: bool
    """Whether the decisions of the architecture depend on the latencies of the devices."""
    options: list[ArchitectureOption]
    """What can be set."""
    profiles: list[str]
    """Names of its profiles, which set several options at once."""


class AsRecorded(TypedDict):
    """The decisions of a recorded `pagewise-agent swapd`, made again."""

    schema: str
    """Name and version of this layout."""
    recording: str
    """The path of the recording."""
    identical: bool
    """Whether the server and the replay moved the same pages."""
    policy: str
    """The policy of the server."""
    options: dict[str, str]
    """Every option of the policy with its value in effect."""
    size_bytes: int
    """Size of the swap area in bytes."""
    fast_bytes: int
    """Size of the fast tier in bytes."""
    latencies: ServedLatencies
    """The times by which the policy weighed the tiers."""
    page_outs: int
    """Pages written to the swap area."""
    page_ins: int
    """Pages read from the swap area."""
    voids: int
    """Slots discarded."""
    fast: TierPages
    """What the moves decided read and write in the fast tier."""
    slow: TierPages
    """What the moves decided read and write in the slow tier."""
    moves: dict[str, int]
    """Moves decided, by their name in files of moves."""
    done_moves: int
    """Moves that the server did."""
    failed_moves: int
    """Moves that failed in the server."""
    differing_moves: int
    """Moves that the server ended and the replay did not decide."""
    first_difference: Difference | None
    """The first of them."""
    open_moves: int
    """Moves that the replay decided and the server did not end."""
    is_cut: bool
    """Whether the end of the recording is missing, so that the last moves may have no end."""


class Capacity(TypedDict):
    """Size of the device."""

    bytes: int
    """Bytes."""
    source: str
    """Source that measured or stated it."""
    date: str
    """The date of the measurement or of the source, in ISO form."""
    verified: bool
    """False if the number was recalled or assumed and not checked."""


class CaptureReport(TypedDict):
    """The result of a capture."""

    references: int
    """All references."""
    steps: int
    """Steps: references that the filter did not absorb."""
    file_bytes: int
    """Bytes of the trace."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or modified by one instruction."""
    stop: Literal["end", "limit", "interrupt", "closed"]
    """Why the trace ends."""
    processes: NotRequired[StartedProcesses | None]
    """Threads and processes of a captured program; `None` in an imported trace."""
    exit_status: NotRequired[int | None]
    """Exit status of a captured program that exited by itself."""
    signal: NotRequired[int | None]
    """Number of the signal that ended a captured program, unless the capture sent it."""
    cut: str | None
    """Why there is less than the whole run; null if there is not."""


class CatalogRow(TypedDict):
    """A row of a catalog."""

    name: str
    """The name that commands accept."""
    summary: str
    """A description of the entry, in a line."""


class ClassShare(TypedDict):
    """Shares of one class among the busiest pages."""

    pages: float
    """Share of those pages."""
    accesses: float
    """Share of their accesses."""


class CountedReferences(TypedDict):
    """References of a program by kind, and whether they are of the whole run."""

    cut: str | None
    """Why there is less than the whole run; null if there is not."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or modified by one instruction."""


class CurveSummary(TypedDict):
    """What a trace holds, and what was counted beside the columns."""

    architecture: str | None
    """Processor architecture of a captured program, as QEMU names it."""
    cut: str | None
    """Why there is less than the whole run; null if there is not."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or modified by one instruction."""
    steps: dict[str, int]
    """References that missed a filter of 64 blocks, by kind."""
    sizes: list[SizeCounts]
    """Counts by page size, in the order asked for."""
    read_aheads: list[ReadAheadRun]
    """Memories with read-ahead, in the order asked for."""
    filter_blocks: int
    """Blocks of the filter of the trace."""
    minor_faults: list[MinorFaults] | None
    """Minor faults by size of huge pages; null for a trace without mappings."""
    heat: AccessHeat
    """References that missed the filter of the trace, by place in the trace and address."""


class Decision(TypedDict):
    """One decision to kill."""

    time_s: float
    """Time of the decision."""
    why: str
    """The rule that applied."""
    available_bytes: int
    """Available memory at that time, including the memory of earlier victims."""
    victims: list[Victim]
    """The processes that die."""
    spared: list[Victim]
    """The first few candidates after the victims."""
    judgement: Literal["needed", "false-alarm", "undecided"]
    """Judgement by the rest of the recording."""


class DescribedPolicy(TypedDict):
    """A policy with every option."""

    policy: str
    """The name of the policy in the catalog."""
    label: str
    """The name of the policy with the options that were set."""
    options: dict[str, str]
    """Every option with the value in effect."""
    knows_the_future: bool
    """Whether the policy looks ahead in the recording."""


class DescribedRequest(TypedDict):
    """A request for a replay with every default filled in."""

    architecture: str
    """The architecture's name in the catalog."""
    profile: str | None
    """The profile that was asked for."""
    options: dict[str, str]
    """Every option with the value in effect."""
    fast_tier_bytes: int
    """Bytes of the fast tier."""
    page_bytes: int
    """Bytes of a page."""
    fast: Device
    """The fast device."""
    slow: Device
    """The slow device."""
    readahead: str
    """How readahead is treated."""
    clean_evictions: str
    """How clean evictions, which leave no event, are treated."""
    queueing: NotRequired[str | None]
    """Yes if operations wait while the slow device is busy; otherwise absent."""
    ranges: str
    """Whether an architecture that decides by latency is replayed over the range."""


class Device(TypedDict):
    """A storage device."""

    name: str
    """Name in the catalog, or the text that described the device."""
    summary: str
    """One line that describes the device."""
    note: str
    """Further facts that matter for its figures; may be empty."""
    read_ns: Latency
    """Reading one page."""
    write_ns: Latency
    """Writing one page."""
    transfer: Transfer | None
    """Reading any number of bytes, if known."""
    capacity: Capacity | None
    """Capacity, if it has one of its own."""
    rated_cycles: Figure | None
    """Endurance, if writing wears the device and the figure is known: how often every byte may be
    written."""
    compression: Figure | None
    """Only for a device that is the board's own memory: bytes of pages it holds for each byte of
    memory it takes, 1 without compression."""
    queue_depth: NotRequired[Figure | None]
    """Operations on a page that the device serves at the same time, if known: its rate at a deep
    queue times its latency at queue depth 1. This is not the number of commands that its queue
    holds."""
    is_exact: NotRequired[bool]
    """Whether the device consists only of two latencies that the caller gave."""


class DeviceReads(TypedDict):
    """Device reads by their cause."""

    demand: int
    """Reads for the faulting page."""
    readahead: int
    """Reads of other pages."""
    readahead_share: float
    """Share of reads that are readahead."""


class Devices(TypedDict):
    """The devices that `--fast`, `--slow` and `--storage` accept by name, quickest first."""

    schema: str
    """Name and version of this layout."""
    devices: list[Device]
    """Times in nanoseconds for one page of 4 KiB."""


class Difference(TypedDict):
    """A move that one of both did not decide."""

    event: int
    """Number of the event, counted from 0."""
    slot: int
    """The slot that the server moved."""
    move: str
    """The move, as files of moves name it."""


Disk = TypedDict(
    "Disk",
    {
        "name": "str",
        "class": "str",
        "version": "str | None",
        "model": "str | None",
        "is_rotational": "bool | None",
        "is_removable": "bool | None",
    },
)
"""A whole disk."""


class Durations(TypedDict):
    """Durations in nanoseconds."""

    count: int
    """Number of faults."""
    sum_ns: int
    """Sum of the durations."""
    distribution_ns: list[list[int]]
    """Distribution: [largest value of the bucket, count]."""


class Events(TypedDict):
    """A summary of a trace."""

    header: Header
    """Header of the trace, complete also for a foreign recording."""
    is_of_swap: bool
    """Whether the pages are those of swap areas, so that the recording can size swap."""
    events: dict[str, int]
    """Counts of all events of the recording, used or not, by the recording's own names. Events that
    move pages count their pages."""
    lost: int
    """Sum of `header.losses`."""
    sources: list[str] | None
    """Names of the recorder's sources; `None` if the recording is not of `pagewise-agent`."""
    kinds: list[list[str | int]]
    """Events of each kind that occurs, by name."""
    accesses: int
    """Events that the analyses count as accesses."""
    writes: int | None
    """Accesses that write data to storage; `None` if the recording does not distinguish them."""
    zero_pages: NotRequired[ZeroPagesBesideKernel | None]
    """Pages of zeros; `None` if the recording does not mark them."""
    duration_s: float | None
    """Seconds from the first event to the last; without events, seconds that the recorder ran;
    `None` without a clock."""
    active_s: float | None
    """Active time: the duration without idle gaps, in seconds."""
    traffic_s: float | None
    """The least active time that holds nine tenths of the events, in seconds."""
    gaps: list[Gap]
    """The first thousand idle gaps."""
    recordings: int
    """Number of recordings that the trace seems to join; 0 without a clock."""
    processes: list[ProcessEvents]
    """Processes with their number of events; of very many, those with most events."""
    processes_all: int
    """Number of all processes."""
    questions: NotRequired[list[SystemQuestion]]
    """Questions about the whole system, and what the trace lacks for them; absent for recordings
    that are no system traces."""
    absent: list[str]
    """Data that the recording lacks, in words."""
    ruled_out: list[str]
    """Analyses that are therefore impossible, in words."""


class FaultTime(TypedDict):
    """Faults by whether they read the device."""

    device: Durations
    """Faults that read the device (major faults)."""
    cached: Durations
    """Faults served without the device, from the swap cache."""


class Features(TypedDict):
    """Features of a kernel."""

    zswap: bool | None
    """Whether zswap is on; `None` if the kernel has no zswap."""
    has_zram: bool
    """Whether there are zram devices, or the module for them."""
    has_fuse_loop: bool | None
    """Whether the kernel can serve a swap area through FUSE and a loop device; `None` if the
    recording is older than this field."""
    has_nbd: bool | None
    """Whether the kernel can serve a swap area through NBD (Linux 5.14); `None` if the recording is
    older than this field."""
    has_ublk: bool | None
    """Whether the kernel can serve a swap area through ublk (Linux 6.11); `None` if the recording
    is older than this field."""
    keeps_zeros_out: bool
    """Whether the kernel keeps pages of zeros out of swap areas."""
    has_mthp: bool
    """Whether the kernel has mTHP."""
    has_psi: bool
    """Whether the kernel reports stall times (PSI)."""
    cgroup_version: int | None
    """Version of the cgroup hierarchy that has the memory controller."""


class Figure(TypedDict):
    """A figure of a device other than a time, with its range."""

    low: float
    """The lowest value of the source."""
    typical: float
    """The value that runs use."""
    high: float
    """The highest value of the source."""
    source: str
    """Source that measured or stated it."""
    date: str
    """The date of the measurement or of the source, in ISO form."""
    verified: bool
    """False if the number was recalled or assumed and not checked."""


File = TypedDict(
    "File",
    {
        "device": "str",
        "inode": "int",
        "first_page": "NotRequired[int]",
        "path": "str",
        "class": "str",
    },
)
"""A file with pages in a trace; its index in `Header::files` is its number."""


class FileReads(TypedDict):
    """The pages of a file that a launch read."""

    device: str
    """Device of the file system as MAJOR:MINOR."""
    inode: int
    """Number of the inode."""
    bytes: int
    """Bytes read into the page cache."""
    refault_bytes: int
    """The part of `bytes` that had left the page cache earlier in the trace."""


class FramesInUse(TypedDict):
    """Memory at one instant."""

    time_ns: int
    """Nanoseconds since the recording began."""
    pages_resident: int
    """Frames in use."""
    pages_live: int
    """Frames of blocks that the program had."""


class Freeze(TypedDict):
    """A time in which no task progressed for lack of memory, or a kill by the kernel's own
    killer."""

    from_s: float
    """Start of the freeze."""
    to_s: float
    """End of the freeze; equal to the start for a kill by the kernel."""
    is_kernel_kill: bool
    """Whether the freeze is a kill by the kernel."""


class Gap(TypedDict):
    """A stretch of time without events, in seconds since the first event. Where the clock stepped
    back by a minute or more, `from_s` and `to_s` count on, and the recorded times do not."""

    from_s: float
    """Time of the event before the gap."""
    to_s: float
    """Time of the event after the gap."""
    recorded_from_s: float
    """Recorded time of the event before the gap, by which `slice` cuts."""
    recorded_to_s: float
    """Recorded time of the event after the gap, by which `slice` cuts."""


class Header(TypedDict):
    """Everything known about a trace apart from its events."""

    schema: int
    """Version of the file's layout."""
    pagewise: str
    """The version of pagewise that wrote the file."""
    kind: Literal["swap", "block", "objects"]
    """What the pages of the trace are."""
    format: str
    """Catalog name of the recording's format."""
    has_clock: bool
    """Whether events carry a time."""
    has_operations: bool
    """Whether accesses are marked as reads or writes."""
    has_sizes: bool
    """Whether events carry the bytes they moved."""
    has_durations: bool
    """Whether events carry their duration."""
    start_ns: int
    """Time of the first event on the recording's own clock, in nanoseconds; 0 without a clock."""
    page_bytes: int
    """Bytes per page."""
    has_addresses: NotRequired[bool]
    """Whether the trace has addresses, so that neighbouring pages are known; false in a copy with
    page numbers instead."""
    events: int
    """Number of events."""
    pages: int | None
    """Distinct pages, if the pages are densely numbered; `None` if only (space, address) is stored
    because the numbering table was full during import."""
    processes: list[Process]
    """Processes by `ProcessId`."""
    devices: list[str]
    """Devices, as the recording names them."""
    files: NotRequired[list[File]]
    """Files with pages in the trace, by number: see `FILE_PAGE_BITS`."""
    recorder: NotRequired[About | None]
    """The recorder's description of its machine and settings, in recordings of `pagewise-agent`;
    the first recording's if the trace joins several."""
    further_recorders: NotRequired[list[About]]
    """The descriptions of the other recordings, if the trace joins several."""
    recorded_ns: NotRequired[int | None]
    """Nanoseconds that the recorder ran; `None` if unknown."""
    zeros: NotRequired[Zeros | None]
    """Counts of pages of zeros; `None` if their events are not marked."""
    shortage: NotRequired[Shortage | None]
    """Stalls and kills; `None` if the recording has neither."""
    system: NotRequired[SystemContents | None]
    """What a system trace, such as one of Perfetto, has beside its events; `None` for other
    recordings."""
    losses: list[Loss]
    """What was lost or skipped."""
    rejects: list[Reject]
    """The first lines that could not be read; `losses` counts them all."""
    disordered: int
    """Events that are earlier than the event before them; kept in the order of the recording."""
    seen: list[list[str | int]]
    """Counts of all events of the recording, used or not, by the recording's own names."""
    sources: list[list[str]]
    """sha256 of each source file, in hexadecimal, with its name."""
    part: NotRequired[Part | None]
    """The part of the original trace that this trace holds; `None` if it is no slice."""


class HeatRange(TypedDict):
    """A range of addresses and the accesses to it."""

    target: str
    """Number of the target, as DAMON prints it: an address space, or physical memory. It may need
    all 64 bits, so that it is text."""
    first: str
    """First address, in hexadecimal."""
    last: str
    """Last address, in hexadecimal."""
    accesses: list[float | None]
    """For each bin of time, the samples of an aggregation interval that found an access, on average
    over bytes and intervals; null if no region was there."""


class HeatSpace(TypedDict):
    """Accesses to one address space."""

    name: str
    """Name and number of the process, or name of the device or of the captured program."""
    accesses: int
    """Number of accesses."""
    range_bytes: int
    """Length of each range in bytes: a power of two."""
    ranges: list[AccessRange]
    """Ranges of addresses with an access, in order; at most 64."""


class ImportReferences(TypedDict):
    """What the import of memory references did."""

    schema: str
    """Name and version of this layout."""
    format: str
    """Catalog name of the format."""
    references: int
    """All references."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or modified by one instruction."""
    steps: int
    """Steps: references that the filter did not absorb."""
    threads: NotRequired[int | None]
    """Threads whose references were read; absent if the format does not name threads."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first ten of the unreadable lines."""
    losses: list[Loss]
    """What was lost."""


class ImportReport(TypedDict):
    """The result of an import."""

    schema: int
    """Version of this report's layout."""
    format: str
    """Catalog name of the format."""
    kind: Literal["swap", "block", "objects"] | None
    """What the pages of the trace are."""
    events: int
    """Events written."""
    accesses: int
    """Events that are accesses."""
    writes: int
    """Accesses that write data to storage."""
    pages: int | None
    """Distinct pages; `None` if they were too many to number."""
    renumbered: bool
    """Whether pages are numbered; otherwise an analysis numbers them when it reads the trace."""
    duration_ns: int | None
    """Nanoseconds from the first event to the latest; `None` without a clock."""
    skipped: dict[str, int]
    """Valid records that are no access, by reason."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first ten of the unreadable lines."""
    seen: dict[str, int]
    """Counts of the recording's events, by its own names."""
    unused_columns: list[str]
    """Columns of a table that were not read, by name."""
    losses: list[Loss]
    """What was lost."""
    disordered: int
    """Records that are earlier than the record before them; kept in the order of the recording."""
    sources: list[list[str]]
    """sha256 and name of each source file."""


class Judged(TypedDict):
    """A judgement of a kill, with its reason."""

    answer: bool | None
    """The answer; null if the trace cannot tell."""
    why: str
    """The figures behind the answer, or what the trace lacks."""


class KeptPart(TypedDict):
    """The last minutes of events, which `record --ring` kept because something happened."""

    begins_ns: int
    """CLOCK_MONOTONIC when the kept part begins, in nanoseconds."""
    trigger_ns: int
    """CLOCK_MONOTONIC of what happened, in nanoseconds."""
    trigger: str
    """What happened: `kill`, `oom-kill`, `psi` or `signal`."""
    process: int | None
    """The killed process, if it was a kill."""
    ring_ns: int
    """The time that the ring holds, in nanoseconds. The kept part is shorter if the ring was not
    full, if it has more bytes than allowed, or if an earlier file has what came before."""


class Kill(TypedDict):
    """The kill of a process. Times are microseconds; fields that the kernel does not report are
    `None`. `signal_us + threads_us + reclaim_us = total_us`, `unmap_us + pagetables_us =
    reclaim_us`"""

    pid: int
    """Pid of the victim."""
    comm: str
    """Name of the victim, at most 15 bytes."""
    threads: int | None
    """Threads that handled the signal."""
    rss_bytes: int | None
    """Resident memory when its unmapping began: anonymous, file and shared."""
    signal_us: float | None
    """Signal delivery: from the kill call until the signal is pending at every thread."""
    threads_us: float | None
    """Signal handling: until the last thread takes the lock to free the memory."""
    reclaim_us: float | None
    """Reclaim: from that lock to the end of the memory."""
    unmap_us: float | None
    """Part of the reclaim: unmapping and freeing of pages."""
    pagetables_us: float | None
    """Part of the reclaim: freeing of page tables and TLB flushes."""
    total_us: float | None
    """All phases; without signal delivery if its time is unknown."""
    reaper_us: float | None
    """Time of a reaper, in parallel to the phases: `process_mrelease`, or the kernel's own."""
    trigger: Literal["user", "memcg-oom", "global-oom", "oom", "kswapd", "direct-reclaim", "kernel"]
    """Why the process was killed, as far as the kernel reports it."""
    killer: Killer | None
    """The process that sent the signal."""
    reclaiming: list[Killer]
    """Processes in reclaim when the signal was sent: `kswapd0`, or a process in direct reclaim."""
    start_ns: int
    """Beginning of the kill by CLOCK_MONOTONIC, in nanoseconds."""
    rss_curve: list[list[float]]
    """Resident bytes over time, in microseconds since the beginning of the kill."""
    steps: list[KillStep]
    """Steps of the kill, in order."""


class KillStep(TypedDict):
    """A step of a kill."""

    name: str
    """Name of the step."""
    thread: int
    """Thread that makes the step."""
    start_us: float
    """Start, in microseconds since the kill began."""
    duration_us: float
    """Duration in microseconds; 0 for an instant."""


class Killed(TypedDict):
    """A process that got SIGKILL."""

    time_ns: int
    """Time of the kill, in nanoseconds."""
    pid: int
    """Pid of the process."""
    name: str
    """Name of the process; empty if the recording has none."""
    is_of_kernel: bool
    """Whether the kernel's OOM killer chose the process."""


class Killer(TypedDict):
    """A process that sends signals or reclaims memory."""

    pid: int
    """Pid of the process, or thread id if the process is unknown."""
    comm: str | None
    """Name of the process, if it is known."""


class Kills(TypedDict):
    """What killing processes took, phase by phase, as `killtrace --json` prints it."""

    schema: str
    """Name and version of this layout."""
    kernel: str
    """`uname -r`."""
    backend: str
    """How the kernel was heard: `tracepoints`, `btf` or `function`."""
    lost: int
    """Events that the recorder lost, and events and kills that found no room."""
    is_cut: bool
    """Whether the end of the recording is missing."""
    absent: list[Missing]
    """Figures that the recording does not allow, and why."""
    kills: list[Kill]
    """Kills in the order of their ends; those whose end was not seen come last."""


class Latency(TypedDict):
    """The time one operation on one page takes, in nanoseconds."""

    low: int
    """The best value of the source."""
    typical: int
    """The value that runs use."""
    high: int
    """The worst value of the source."""
    source: str
    """Source that measured or stated it."""
    date: str
    """The date of the measurement or of the source, in ISO form."""
    verified: bool
    """False if the number was recalled or assumed and not checked."""


class Lifecycle(TypedDict):
    """The result of a simulated life."""

    schema: str
    """Version of this object."""
    architecture: str
    """The architecture's name in the catalog."""
    options: dict[str, str]
    """Every option with the value in effect."""
    fast_bytes: int
    """Size of the fast tier in bytes."""
    fast_device: str
    """Name of the fast device."""
    slow_device: str
    """Name of the slow device."""
    frames: int
    """Frames left to the phone, without those of a fast tier in memory."""
    slots: int
    """Slots of the swap area."""
    watermarks: list[int]
    """Free frames at which apps reclaim directly, the background reclaimer wakes, and sleeps."""
    visits: list[Visit]
    """Every visit in order."""
    kills: list[SimulatedKill]
    """Every kill in order."""
    storage_pages: int
    """Pages of files and of the swap area with storage accesses."""
    storage_accesses: int
    """Number of those accesses, reads and writes."""
    skew: Skew
    """How unevenly the accesses fall on the pages."""


class LimitedFaultCounts(TypedDict):
    """Page faults of a program in limited memories."""

    faults: list[LimitedFaults] | None
    """Faults of each memory, in the order asked for; null for a trace without mappings."""


class LimitedFaults(TypedDict):
    """Page faults in a limited memory."""

    anonymous: int
    """First touches of private memory without a file, and first writes after a read."""
    file: int
    """Faults in mapped files and shared memory."""
    swap: int
    """Faults on private memory that left memory."""
    huge_pages: int
    """Huge pages that were mapped."""
    fallbacks: int
    """Huge pages for which the limit left no room."""
    file_pages_read: int
    """Pages read from files."""
    swap_pages_read: int
    """Pages read from swap."""


class Loss(TypedDict):
    """A kind of data that the recording or its import lost."""

    what: str
    """Description of what was lost."""
    count: int
    """Number of lost items."""


class MemoryPoint(TypedDict):
    """Memory at a moment."""

    time_s: float
    """Time of the moment."""
    available_bytes: int
    """Memory available without swapping."""
    swap_free_bytes: int
    """Free swap of all areas."""


class MinorFaults(TypedDict):
    """Minor faults at one size, by what the memory is."""

    page_bytes: int
    """Bytes of a huge page; 4096 for none."""
    heap: int
    """Faults in memory for which `malloc` can request huge pages."""
    anonymous: int
    """Faults in other private memory without a file."""
    file: int
    """Faults in mapped files and shared memory."""


class MissSample(TypedDict):
    """The sample behind miss counts, and how far the estimates may be from the truth."""

    rate: float
    """Share of all pages whose hash is in the sample."""
    pages: int
    """Pages in the sample."""
    accesses: int
    """Accesses of the pages in the sample."""
    error: dict[str, dict[str, float]]
    """Half of the width of the 95 % confidence interval of each miss ratio: an object {policy:
    {frames: share of requests}}."""


class Misses(TypedDict):
    """Exact misses of eviction policies in memories of given sizes."""

    schema: str
    """Name and version of this layout."""
    requests: int
    """Accesses of the trace."""
    pages: int
    """Distinct pages accessed."""
    misses: dict[str, dict[str, int]]
    """Counts in the order asked for; in JSON an object {policy: {frames: misses}}."""
    sample: NotRequired[MissSample | None]
    """The sample, if only some of the pages were looked at: misses and pages are then estimates."""
    kind: Literal["swap", "block", "objects"]
    """What the accesses are: of swapped pages, of blocks of a disk, or of objects of a cache."""
    losses: list[Loss]
    """What the recording lost."""
    trace: str
    """The path of the recording."""


class MissesOfTraces(TypedDict):
    """Exact misses of eviction policies on several recordings."""

    schema: str
    """Name and version of this layout."""
    traces: list[Misses]
    """The misses on each recording."""


class Missing(TypedDict):
    """Data that a recording lacks."""

    what: str
    """The missing data."""
    why: str
    """The reason, and the consequence."""


class NeverReturned(TypedDict):
    """Page-outs without a following page-in."""

    pages: float
    """Of the pages that went out, the share that was out at the end."""
    outs: float
    """Share of page-outs that were not read before the page's next page-out or the end."""


class NoKillReason(TypedDict):
    """A time without kills, and its reason."""

    from_s: float
    """First moment."""
    to_s: float
    """Last moment."""
    why: str
    """The rule that applied."""


class Origin(TypedDict):
    """Origin of a trace, known before its first reference."""

    pagewise: str
    """Version of pagewise that wrote the trace."""
    format: str
    """`capture`, or the catalog name of the imported format."""
    command: list[str]
    """The captured command, or the imported file."""
    architecture: NotRequired[str | None]
    """Processor architecture of the captured program, as QEMU names it."""
    follows_threads: NotRequired[bool | None]
    """Whether a capture kept every thread, or only the first."""
    block_bytes: int
    """Bytes of a block of the filter."""
    filter_blocks: int
    """Blocks that the filter holds."""


class Outcome(TypedDict):
    """The result of one run."""

    schema: str
    """Version of this object."""
    architecture: str
    """Name of the architecture in the catalog."""
    profile: str | None
    """The profile, if one was asked for."""
    options: dict[str, str]
    """Every option with its value in effect."""
    readahead: str
    """Treatment of readahead."""
    clean_evictions: str
    """Treatment of clean evictions, which leave no event."""
    fast_bytes: int
    """Size of the fast tier in bytes."""
    fast_device: str
    """Name of the fast device."""
    slow_device: str
    """Name of the slow device."""
    page_bytes: int
    """Bytes of a page."""
    kind: Literal["swap", "block", "objects"]
    """What the pages of the trace are."""
    is_of_swap: bool
    """Whether the pages are those of swap areas, so that the outcome can size swap."""
    fast: TierCounts
    """Operations of the fast tier."""
    slow: TierCounts
    """Operations of the slow tier."""
    promotions: int
    """Known pages that entered the fast tier."""
    demotions: int
    """Pages that lost their frame in the fast tier to another page."""
    fast_only_pages: int
    """Pages whose only copy is in the fast tier when the trace ends. Removing the tier would write
    each to the slow one; no count or time here includes those writes."""
    zero_pages: NotRequired[ZeroPages | None]
    """Page-outs and page-ins of pages of zeros, which cost nothing; absent if the trace does not
    distinguish them."""
    readahead_pages: NotRequired[ReadaheadPages | None]
    """Pages read ahead; absent with `readahead=off`."""
    io_time_s: float
    """Counts times latencies over both devices. A page read ahead takes only the further time of a
    longer read."""
    stall_time_s: float
    """The part of the I/O time between a swap-in and its completion: its read and the writes it
    forced."""
    queue_time_s: NotRequired[float | None]
    """The time that swap-ins waited, beside `stall_time_s`, while the slow device served other
    operations; absent with `queueing=no`."""
    wear: Wear
    """Wear of both devices."""
    ranges: Ranges | None
    """Times over the range of the devices' latencies; absent if the counts depend on the latencies
    and were not replayed over the range."""
    processes: list[ProcessCounts]
    """Operations by process, for processes that did any."""
    slices: NotRequired[list[PageOperations]]
    """Operations by slice of the trace; absent if no slices were asked for."""
    notes: list[str]
    """Notes that the reader needs to interpret the numbers."""
    sample: NotRequired[SimulateSample | None]
    """The sample, if only some of the pages were replayed: counts, times and wear are then
    estimates."""


class PageOperations(TypedDict):
    """Page operations of one process, or of a whole run."""

    fast_reads: int
    """Pages read from the fast tier."""
    fast_writes: int
    """Pages written to the fast tier."""
    slow_reads: int
    """Pages read from the slow tier."""
    slow_writes: int
    """Pages written to the slow tier."""
    promotions: int
    """Known pages that entered the fast tier."""
    demotions: int
    """Pages that lost their frame in the fast tier to another page, written out or not."""


class Part(TypedDict):
    """A part of a trace by time."""

    of: str
    """sha256 of the original trace, also for a slice of a slice."""
    times_ns: list[list[int]]
    """Time ranges whose events the part holds, each with an exclusive end, in nanoseconds on the
    recording's own clock; in order and disjoint."""


class PolicyFaultCount(TypedDict):
    """Page faults of one memory under one policy."""

    policy: str
    """Name of the policy."""
    frames: int
    """Frames of the memory."""
    faults: int
    """Page faults."""


class PolicyOption(TypedDict):
    """An option of a policy."""

    name: str
    """The name of the option in settings."""
    default: str
    """The value of the option unless it is set."""
    summary: str
    """The meaning of the option, with its unit."""


class PolicyReplay(TypedDict):
    """Result of one policy."""

    policy: str
    """Name of the policy."""
    decisions: list[Decision]
    """The decisions to kill."""
    reasons: list[NoKillReason]
    """Reasons not to kill, one row for as long as the reason stays the same."""
    reasons_left_out: int
    """Number of rows of reasons beyond those kept."""
    false_alarms: int
    """Decisions without a freeze or a kill for the whole window after them."""
    missed_freezes: int
    """Freezes without a decision before or during them."""
    victims_named: int
    """Recorded victims that it would have killed too, at that time or within the window before."""
    victims_not_named: int
    """Recorded victims that it would not have killed by that time."""
    victims_unknown: int
    """Recorded victims whose kills have no moment."""


class PolicyRow(TypedDict):
    """A policy of a catalog."""

    name: str
    """The name that commands accept."""
    summary: str
    """A description of the policy, in a line."""
    options: list[PolicyOption]
    """What can be set."""


class PressureCause(TypedDict):
    """A process's part of an interval."""

    process: str
    """Name of the process; empty if unknown."""
    pid: int
    """Pid of the process; 0 if unknown."""
    time_s: float
    """Time of the process in direct reclaim, or waiting for pages that are read again, summed over
    its threads."""
    bytes: int
    """Bytes that the process read again; in an interval of kswapd, bytes by which it made its
    memory and the page cache larger."""


class PressureInterval(TypedDict):
    """An interval of pressure. What is less than 100 ms apart is one interval."""

    kind: Literal["direct-reclaim", "kswapd", "compaction", "refaults", "thrashing"]
    """The kind of pressure."""
    start_s: float
    """Start of the interval."""
    end_s: float
    """End of the interval."""
    busy_s: float | None
    """Time of all threads that had a part, summed; null if the interval is known by counters only,
    as from /proc/vmstat."""
    bytes: int
    """Bytes read again, or that processes took meanwhile; by counters, the bytes reclaimed."""
    stalled_share: float | None
    """The largest share of time in which some task stalled for memory (PSI)."""
    processes: list[PressureCause]
    """The processes with the largest parts."""


class Process(TypedDict):
    """A process of a recording."""

    pid: int
    """Pid of the process; 0 if the recording has none."""
    name: str
    """Command name of the process; empty if the recording has none."""


class ProcessAnalysis(TypedDict):
    """Figures of one process. Pages and shares are those of its own accesses."""

    pid: int
    """Process id; 0 if the recording has none."""
    name: str
    """Command name; empty if the recording has none."""
    accesses: int
    """Number of its accesses."""
    pages: int
    """Distinct pages among them."""
    writes: int
    """Writes among its accesses."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that receives 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class ProcessCounts(TypedDict):
    """Operations of one process."""

    pid: int
    """Process id."""
    name: str
    """Process name."""
    fast_reads: int
    """Pages read from the fast tier."""
    fast_writes: int
    """Pages written to the fast tier."""
    slow_reads: int
    """Pages read from the slow tier."""
    slow_writes: int
    """Pages written to the slow tier."""
    promotions: int
    """Known pages that entered the fast tier."""
    demotions: int
    """Pages that lost their frame in the fast tier to another page, written out or not."""


class ProcessEvents(TypedDict):
    """A process of a trace."""

    pid: int
    """Pid of the process; 0 if the recording has none."""
    name: str
    """Command name of the process; empty if the recording has none."""
    events: int
    """Events of its pages or requests."""


class ProcessRow(TypedDict):
    """A process, all kernel threads, or all processes without a row of their own."""

    name: str
    """Command name of a process, `kernel workers` or `others`."""
    pid: int | None
    """Process id; none in a row of several processes."""
    processes: int
    """Number of processes in the row."""
    accesses: int
    """Number of their accesses."""
    pages: int
    """Distinct pages among them."""
    writes: int
    """Writes among their accesses."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that receives 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class ProcessSize(TypedDict):
    """The memory of a process."""

    process: str
    """Name of the process; empty if unknown."""
    pid: int
    """Pid of the process."""
    largest_bytes: int
    """The largest resident memory of the process, or proportional size (PSS) if
    `is_proportional`."""
    last_bytes: int | None
    """The last known resident memory of the process, or proportional size (PSS) if
    `is_proportional`."""
    swapped_bytes: int | None
    """The last known swapped memory of the process."""
    is_proportional: bool
    """Whether the sizes are proportional (PSS), because the trace has no resident sizes of the
    process. A page that several processes share counts in part for each."""


class Ranges(TypedDict):
    """Times over the range of the devices' latencies."""

    io_time_s: TimeRange
    """`io_time_s` over the range."""
    stall_time_s: TimeRange
    """`stall_time_s` over the range."""
    queue_time_s: NotRequired[TimeRange | None]
    """`queue_time_s` over the range."""


class ReadAheadFaults(TypedDict):
    """What an LRU memory did that reads a whole window of pages on a fault."""

    faults: int
    """Page faults; each reads storage once."""
    cold: int
    """Faults on pages that were never used before."""
    brought: int
    """Pages that a fault on another page brought in."""
    unused: int
    """Of the pages brought in, those evicted before any use."""


class ReadAheadRun(TypedDict):
    """An LRU memory that reads a whole window of pages on a fault, and what it did."""

    page_bytes: int
    """Bytes of a page."""
    frames: int
    """Frames of the memory."""
    window: int
    """Pages of the window."""
    faults: int
    """Page faults; each reads storage once."""
    cold: int
    """Faults on pages that were never used before."""
    brought: int
    """Pages that a fault on another page brought in."""
    unused: int
    """Of the pages brought in, those evicted before any use."""


class ReadaheadPages(TypedDict):
    """Pages that were read ahead of their faults."""

    read: int
    """Pages read ahead; part of the reads of the tiers."""
    used: int
    """Pages read ahead that a swap-in used; the others were read for nothing."""


class RecordedKill(TypedDict):
    """A process that was killed during the recording."""

    time_s: float
    """Time of the kill."""
    process: int
    """Process id."""
    name: str | None
    """Process name, if the process was recorded alive."""
    is_of_kernel: bool
    """Whether the kernel's out-of-memory killer chose it."""
    adj: int | None
    """`oom_score_adj` of the process at the last moment before the kill; null if that moment lacks
    the process."""
    resident_bytes: int | None
    """Resident memory of the process at the last moment before the kill; null if that moment lacks
    the process."""
    swapped_bytes: int | None
    """Swapped memory of the process at the last moment before the kill; null if that moment lacks
    the process."""
    available_bytes: int | None
    """Available memory of the recorded cgroup or of the machine at the last moment before the kill;
    null without one."""
    killer: int | None
    """Process or thread that sent the first signal; null if the kernel chose the victim, if the
    recording lacks it, and always for system traces."""
    killer_name: str | None
    """Name of the killer, if it was recorded alive."""
    has_moment: bool
    """Whether the recording has the moment of this kill: memory and processes before any of the
    victim's memory was freed. Without it the recording cannot show what the killer saw."""


class References(TypedDict):
    """What a trace of memory references holds."""

    schema: str
    """Name and version of this layout."""
    origin: Origin
    """Origin of the trace."""
    references: int
    """All references."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or modified by one instruction."""
    steps: int
    """Steps: references that the filter did not absorb."""
    file_bytes: int
    """Bytes of the file; 0 if unknown."""
    ending: ReferencesEnding | None
    """The end of the recording; null if the file was cut, so that the counts go up to its last
    whole frame."""
    cut: str | None
    """Why there is less than the whole run; null if there is not."""


class ReferencesEnding(TypedDict):
    """The end of a trace, with the signal that ended a captured program by its name."""

    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or read and written by one instruction."""
    stop: Literal["end", "limit", "interrupt", "closed"]
    """Why the trace ends."""
    processes: NotRequired[StartedProcesses | None]
    """What a captured program started; absent for an imported trace."""
    exit_status: NotRequired[int | None]
    """Exit status of a captured program that came to its end by itself."""
    signal: NotRequired[str | None]
    """Name of the signal that ended a captured program, unless the capture ended it."""


class RegionHeat(TypedDict):
    """Accesses that DAMON found, by time and address."""

    start_s: float
    """Start of the first bin of time."""
    bin_s: float
    """Length of a bin of time: a power of two in nanoseconds."""
    regions: int
    """Number of regions that were read."""
    ranges: list[HeatRange]
    """Ranges of addresses that a region covers, in order; at most 128. All have the same length."""


class Reject(TypedDict):
    """A line of a text recording that could not be read."""

    file: str
    """Name of the file."""
    line: int
    """Number of the line, counted from 1."""
    expected: str
    """What the reader expected there."""
    found: str
    """Beginning of the line; empty in files of an earlier pagewise."""


class ReplayKills(TypedDict):
    """Which processes kill policies would have killed in a recording, when and why."""

    schema: str
    """Name and version of this layout."""
    recording: str
    """The path of the recording."""
    freeze_share: float
    """In a freeze every task was stalled for memory for at least this share of time."""
    freeze_s: float
    """The shortest freeze, in seconds."""
    window_s: float
    """A decision is a false alarm if no freeze and no kill follows within this time, in seconds."""
    moments: int
    """Moments of the recording."""
    duration_s: float
    """From the first moment to the last."""
    total_bytes: int
    """Total memory of the group or machine at the last moment."""
    has_watermarks: bool
    """Whether every moment has watermarks and the kernel's reserve; if not, `minfree` counts the
    reserve as free and `lmkd` has no rule of low free memory."""
    has_weights: bool
    """Whether the recording has weights of processes. If not, memory shared by fork counts in full
    for each process."""
    memory: list[MemoryPoint]
    """Available memory over time, as the lowest value in each of equal steps."""
    freezes: list[Freeze]
    """The freezes."""
    recorded: list[RecordedKill]
    """The kills in the recording."""
    policies: list[PolicyReplay]
    """Result of each policy, in the order asked for."""
    cgroup: str | None
    """The memory cgroup that was recorded; null for the whole machine."""
    command: list[str]
    """The command that was recorded; empty if there was none."""
    kernel: str
    """`uname -r` of the recorded machine."""
    is_cut: bool
    """Whether the end of the recording is missing."""


class ReplayOutcome(TypedDict):
    """A recording replayed against policies."""

    moments: int
    """Moments of the recording."""
    duration_s: float
    """From the first moment to the last."""
    total_bytes: int
    """Total memory of the group or machine at the last moment."""
    has_watermarks: bool
    """Whether every moment has watermarks and the kernel's reserve; if not, `minfree` counts the
    reserve as free and `lmkd` has no rule of low free memory."""
    has_weights: bool
    """Whether the recording has weights of processes. If not, memory shared by fork counts in full
    for each process."""
    memory: list[MemoryPoint]
    """Available memory over time, as the lowest value in each of equal steps."""
    freezes: list[Freeze]
    """The freezes."""
    recorded: list[RecordedKill]
    """The kills in the recording."""
    policies: list[PolicyReplay]
    """Result of each policy, in the order asked for."""


class SeenMemory(TypedDict):
    """Memory at one instant, in pages; memory that earlier victims still hold counts as held, and
    is also listed separately."""

    free_pages: int
    """Free frames."""
    available_pages: int
    """Pages available without swapping, by the kernel's formula."""
    file_pages: int
    """Pages of files in memory."""
    anonymous_pages: int
    """Anonymous pages in memory."""
    swap_free_pages: int
    """Free slots of the swap area."""
    coming_pages: int
    """Pages in memory that victims still dying will free."""
    coming_swap_pages: int
    """Slots of the swap area that victims still dying will free."""


class ServedLatencies(TypedDict):
    """Times of one page."""

    fast_read_ns: int
    """Reading from the fast tier."""
    fast_write_ns: int
    """Writing to the fast tier."""
    slow_read_ns: int
    """Reading from the slow tier."""
    slow_write_ns: int
    """Writing to the slow tier."""


class ServedTiers(TypedDict):
    """The tiers of a swap server."""

    policy: str
    """Name of the policy: that of its architecture."""
    options: dict[str, str]
    """Every option of the policy with its value in effect."""
    size_bytes: int
    """Size of the swap area."""
    fast_bytes: int
    """Size of the fast tier."""
    frames: NotRequired[int | None]
    """The most frames of a compressed fast tier, which may hold more pages than its size has."""
    latencies: ServedLatencies
    """The times by which the policy weighs the tiers."""
    emulated: NotRequired[dict[str, str]]
    """Devices that the tiers were slowed to, by tier."""


class Shortage(TypedDict):
    """Stalls for memory and processes that were killed, each in order of time on the recording's
    own clock."""

    is_of_cgroup: bool
    """Whether the stalls are those of the recorded cgroup; otherwise those of the machine."""
    stalls: list[Stall]
    """Sums of stall time at several instants."""
    kills: list[Killed]
    """The first processes that were killed."""
    kills_left_out: int
    """Number of further kills."""


class Simulate(TypedDict):
    """What one swap architecture costs on a recording."""

    schema: str
    """Version of this object."""
    architecture: str
    """Name of the architecture in the catalog."""
    profile: str | None
    """The profile, if one was asked for."""
    options: dict[str, str]
    """Every option with its value in effect."""
    readahead: str
    """Treatment of readahead."""
    clean_evictions: str
    """Treatment of clean evictions, which leave no event."""
    fast_bytes: int
    """Size of the fast tier in bytes."""
    fast_device: str
    """Name of the fast device."""
    slow_device: str
    """Name of the slow device."""
    page_bytes: int
    """Bytes of a page."""
    kind: Literal["swap", "block", "objects"]
    """What the pages of the trace are."""
    is_of_swap: bool
    """Whether the pages are those of swap areas, so that the outcome can size swap."""
    fast: TierCounts
    """Operations of the fast tier."""
    slow: TierCounts
    """Operations of the slow tier."""
    promotions: int
    """Known pages that entered the fast tier."""
    demotions: int
    """Pages that lost their frame in the fast tier to another page."""
    fast_only_pages: int
    """Pages whose only copy is in the fast tier when the trace ends. Removing the tier would write
    each to the slow one; no count or time here includes those writes."""
    zero_pages: NotRequired[ZeroPages | None]
    """Page-outs and page-ins of pages of zeros, which cost nothing; absent if the trace does not
    distinguish them."""
    readahead_pages: NotRequired[ReadaheadPages | None]
    """Pages read ahead; absent with `readahead=off`."""
    io_time_s: float
    """Counts times latencies over both devices. A page read ahead takes only the further time of a
    longer read."""
    stall_time_s: float
    """The part of the I/O time between a swap-in and its completion: its read and the writes it
    forced."""
    queue_time_s: NotRequired[float | None]
    """The time that swap-ins waited, beside `stall_time_s`, while the slow device served other
    operations; absent with `queueing=no`."""
    wear: Wear
    """Wear of both devices."""
    ranges: Ranges | None
    """Times over the range of the devices' latencies; absent if the counts depend on the latencies
    and were not replayed over the range."""
    processes: list[ProcessCounts]
    """Operations by process, for processes that did any."""
    slices: NotRequired[list[PageOperations]]
    """Operations by slice of the trace; absent if no slices were asked for."""
    notes: list[str]
    """Notes that the reader needs to interpret the numbers."""
    sample: NotRequired[SimulateSample | None]
    """The sample, if only some of the pages were replayed: counts, times and wear are then
    estimates."""
    losses: list[Loss]
    """What the recording lost."""
    trace: str
    """The path of the recording."""
    pagewise: str
    """Version of pagewise."""
    build: str
    """Hash of the sources that pagewise was built from."""
    at_4_kib: NotRequired[SimulatedAt4KiB | None]
    """The result for the recorded pages of 4 KiB; absent unless larger pages were asked for."""
    trace_sha256: NotRequired[str | None]
    """sha256 of the recording; null if it cannot be read twice, absent outside `--json`."""


class SimulateError(TypedDict):
    """Half of the width of the 95 % confidence interval of each figure of an outcome."""

    fast: TierError
    """Operations of the fast tier."""
    slow: TierError
    """Operations of the slow tier."""
    promotions: float
    """Of `promotions`."""
    demotions: float
    """Of `demotions`."""
    io_time_s: float
    """Of `io_time_s`, with typical latencies."""
    stall_time_s: float
    """Of `stall_time_s`, with typical latencies."""


class SimulateSample(TypedDict):
    """The sample behind an outcome, and how far its estimates may be from the truth."""

    rate: float
    """Share of all pages whose hash is in the sample."""
    pages: int
    """Pages in the sample."""
    accesses: int
    """Accesses of the pages in the sample."""
    error: SimulateError
    """Half of the width of the 95 % confidence interval of each figure."""


class Simulated(TypedDict):
    """One answer of `simulate_many`: an outcome, or else an error."""

    outcome: NotRequired[Outcome | None]
    """What the request costs."""
    error: NotRequired[str | None]
    """Why the request cannot be replayed."""


class SimulatedAt4KiB(TypedDict):
    """What a replay says of the recorded pages beside larger ones."""

    page_bytes: int
    """Bytes of a page."""
    fast: TierCounts
    """Operations of the fast tier."""
    slow: TierCounts
    """Operations of the slow tier."""
    io_time_s: float
    """Counts times latencies over both devices."""
    stall_time_s: float
    """The part between a swap-in and its completion."""
    ranges: Ranges | None
    """Times over the range of the devices' latencies; null if the counts depend on them and were
    not replayed over the range."""
    wear: Wear
    """Wear of both devices."""


class SimulatedKill(TypedDict):
    """One kill."""

    visit: int
    """Index of the visit during which it happened."""
    app: int
    """Index of the app."""
    trigger: Literal["poll", "background", "direct", "out-of-memory"]
    """What started the choice of the victim."""
    why: str
    """The rule that named it."""
    adj: int
    """Importance of the app on the scale of `oom_score_adj`."""
    seen: SeenMemory
    """State of memory at the kill, before any of the victim's was freed."""
    at_ns: int
    """Time since the beginning of the life."""
    resident_pages: int
    """Pages of the app in memory."""
    threads: int
    """Threads of the app."""
    signal_ns: int
    """Time to deliver the signal."""
    exit_ns: int
    """Time from delivery to the last thread's exit; 0 if the killer frees at once."""
    reclaim_ns: int | None
    """Time from the exit until the last page was free; absent if the life ended before."""
    others_dying: int
    """Earlier victims that were still dying."""


class SingleAccess(TypedDict):
    """Pages with exactly one access."""

    pages: float
    """The share of pages that have exactly one access."""
    accesses: float
    """The share of accesses that went to pages with exactly one access."""


class SingleOut(TypedDict):
    """Pages that went out exactly once."""

    pages: float
    """The share of pages that went out once, of all that went out."""
    outs: float
    """The share of page-outs that such single page-outs make up."""


class SizeClass(TypedDict):
    """Blocks of similar size."""

    below_bytes: int | None
    """Upper bound of the class, exclusive; the lower bound is that of the class before."""
    blocks: int
    """Number of blocks."""
    bytes: int
    """Bytes of the blocks."""


class SizeCounts(TypedDict):
    """What was counted at one page size beside the columns."""

    page_bytes: int
    """Bytes of a page."""
    pages: int
    """Distinct pages of the whole trace."""
    cold: dict[str, int]
    """First references to a page, by kind."""
    first_tlb_misses: list[TlbCount]
    """Misses of each first TLB."""
    second_tlb_misses: list[dict[str, int]]
    """Misses of each second TLB, by kind."""
    policy_faults: list[PolicyFaultCount]
    """Page faults under policies other than LRU."""


class Skew(TypedDict):
    """Skew of a set of pages. Shares are fractions, and 0 for an empty set."""

    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that receives 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class Stall(TypedDict):
    """Sums of stall time (PSI) at an instant."""

    time_ns: int
    """Time of the sums, in nanoseconds."""
    some_us: int
    """Microseconds in which some task stalled for memory, so far."""
    full_us: int
    """Microseconds in which every task stalled for memory, so far."""


class StartedProcesses(TypedDict):
    """Threads and processes that a captured program started."""

    threads: int
    """Threads, including the first."""
    children: int
    """Child processes, which are not captured."""
    programs: int
    """Programs that replaced it (execve), which are not captured."""


class SwapArea(TypedDict):
    """A swap area."""

    path: str
    """The file or device."""
    kind: str
    """`file`, `partition` or `zram`."""
    bytes: int
    """Size in bytes."""
    priority: int
    """Priority; the kernel uses areas of higher priority first."""
    disk: Disk | None
    """The disk under the area; `None` if it is memory."""


class SwapTraffic(TypedDict):
    """Pages out and in."""

    outs: int
    """Page-outs, anonymous or of a file, modified or not."""
    ins: int
    """Page-ins by faults and reads."""
    outs_per_page: list[list[int]]
    """Distribution of page-outs per page; pages without any are in the bucket of 0."""
    ins_per_page: list[list[int]]
    """Distribution of page-ins per page."""
    pages_in_swap_max: int
    """The most pages that were in swap at once."""
    never_returned: NeverReturned
    """Pages and page-outs without a return."""
    device_reads: DeviceReads | None
    """Device reads; none if the recording has no device traffic."""


class System(TypedDict):
    """The swap of a machine when a recording begins."""

    limit_bytes: int | None
    """Memory limit of the recorded group in bytes, if it is below the machine's memory."""
    areas: list[SwapArea]
    """The swap areas in use."""
    root: Disk | None
    """The disk under `/`."""
    zram: dict[str, Zram]
    """Each configured zram device, by name."""
    features: Features
    """Features of the kernel."""


class SystemContents(TypedDict):
    """Counts of a system trace beside those of its kernel events."""

    sessions: int
    """Recording sessions that the file joins."""
    packets: dict[str, int]
    """Packets by the name of their field; a packet with several counts under each."""
    generic_events: dict[str, int]
    """Kernel events without a message of their own, which `events` counts as `generic`, by the
    kernel's name."""
    facts: dict[str, int]
    """Events by what they say, such as `launch` or `lmkd_kill`; only those that occur.
    `kills_expected` is 1 if the recorder was to record kills."""
    unknown_fields: list[UnknownField]
    """Fields of messages that pagewise does not know."""
    skipped_bytes: int
    """Bytes of the file that are not read: of parts that are cut, damaged or too large."""
    repeated_packets: int
    """Packets that the file has twice, as when a trace is joined with itself; their events count
    twice."""
    clock_problems: dict[str, int]
    """Times that are out of order, or on a clock that the trace does not relate to others."""


class SystemQuestion(TypedDict):
    """A question that a system trace may answer."""

    question: str
    """The question, in words, with the command that answers it in brackets, such as
    `(launches)`."""
    is_answered: bool
    """Whether the trace has what the answer needs."""
    switch_on: list[str]
    """What to switch on in the next trace of this format, as a line of a Perfetto config or a
    command; empty if it is answered."""


class ThreadTimes(TypedDict):
    """What threads did during a launch. Times of several threads are summed."""

    running_s: float
    """Running on a CPU."""
    runnable_s: float | None
    """Ready, without a CPU."""
    uninterruptible_s: float
    """Waiting uninterruptibly, I/O and other reasons."""
    io_s: float | None
    """The part of `uninterruptible_s` that waited for I/O."""
    sleeping_s: float
    """Sleeping."""
    direct_reclaim_s: float | None
    """Reclaiming memory directly, in any of these states."""


class TierCounts(TypedDict):
    """Page operations of one tier."""

    reads: int
    """Pages read."""
    writes: int
    """Pages written."""
    bytes_written: int
    """Bytes written."""


class TierError(TypedDict):
    """Half of the width of the 95 % confidence interval of the operations of a tier."""

    reads: float
    """Of the pages read."""
    writes: float
    """Of the pages written."""


class TierPages(TypedDict):
    """Pages that a tier read and wrote."""

    reads: int
    """Pages read."""
    writes: int
    """Pages written."""


class TimeRange(TypedDict):
    """A time with every latency at its low and at its high figure."""

    low: float
    """Seconds with low latencies."""
    high: float
    """Seconds with high latencies."""


class TlbCount(TypedDict):
    """Misses of a TLB."""

    misses: dict[str, int]
    """Misses by kind."""
    is_exact: bool
    """Whether every miss was counted; otherwise the count is a lower bound."""


class TraceKill(TypedDict):
    """A process that was killed."""

    time_s: float
    """Time of the kill; below 0 if it was before the first event that the kernel recorded, as in a
    log that goes further back."""
    process: str
    """Name of the process; empty if unknown."""
    pid: int
    """Pid of the process."""
    adj: int | None
    """The process's oom_score_adj."""
    reason: str | None
    """The reason as the killer states it."""
    killer: str
    """Who killed: `lmkd`, `lowmemorykiller` (the driver), `oom` (the kernel), `system_server`, or
    the name of the process that sent the signal."""
    sources: list[str]
    """The marks and events that report the kill."""
    free_bytes: int | None
    """Free memory then, as the killer states it or by the last sample before."""
    available_bytes: int | None
    """Available memory by the last sample before."""
    resident_bytes: int | None
    """Resident memory of the victim by the last event before, or as the killer states it."""
    swapped_bytes: int | None
    """Swapped memory of the victim by the last event before, or as the killer states it."""
    death_s: float | None
    """Time from the kill until all threads of the process had ended."""
    came_back_after_s: float | None
    """Time from the kill until a process of that name was made, or the app was launched without
    one."""
    came_back_soon: bool | None
    """Whether the process came back within 60 s, so that the kill cost a cold start; null if the
    trace ends within 60 s and the process did not come back before."""
    traced_for_s: float
    """Time from the kill to the end of the trace."""
    needless: Judged
    """Whether memory was not short at the kill."""
    late: Judged
    """Whether tasks had been stalled for long before the kill."""
    wrong_victim: Judged
    """Whether another process should have been killed."""


class TraceKills(TypedDict):
    """The kills in a system trace. Times are seconds since the first event that the kernel
    recorded."""

    schema: str
    """Name and version of this layout."""
    trace: str
    """The path of the trace."""
    begin_ns: int
    """The clock of the trace at 0 s, in nanoseconds: the time since boot if the trace has it."""
    duration_s: float
    """Seconds from the first event that the kernel recorded to the last."""
    events: int
    """Number of events that were read."""
    disordered: int
    """Events that were read after later ones; times of these may be too short."""
    untracked: int
    """Processes, threads and ranges of pages beyond the limits, which are not distinguished."""
    losses: list[Loss]
    """What the trace lost."""
    repeated_packets: int
    """Packets of a Perfetto trace that the file has twice, as when a trace is joined with itself;
    what they say counts twice. Copies of the first 65,536 packets are found."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first of the unreadable lines."""
    kills: list[TraceKill]
    """Kills in order of time."""
    shows_kills: bool
    """Whether the trace would show kills, so that none means none."""
    left_out: int
    """Kills beyond those that are kept."""
    lacks: list[str]
    """What the trace lacks to judge every kill."""
    replay: ReplayOutcome | None
    """What kill policies would have done with the trace's memory and processes; null if the trace
    has no samples of both."""


TraceLaunch = TypedDict(
    "TraceLaunch",
    {
        "process": "str",
        "pid": "int | None",
        "class": "str | None",
        "is_class_stated": "bool",
        "start_s": "float",
        "duration_s": "float",
        "fully_drawn_s": "float | None",
        "parts": "TraceLaunchParts",
        "main_thread": "ThreadTimes | None",
        "other_threads": "ThreadTimes | None",
        "cache_miss_bytes": "int | None",
        "refault_bytes": "int | None",
        "files": "list[FileReads]",
        "swap_in_bytes": "int | None",
        "kills_before": "int | None",
        "kills": "int | None",
    },
)
"""A launch of an app."""


class TraceLaunchParts(TypedDict):
    """What a launch waits for, by the definitions of `study launch`. Waits and processor time are
    sums over all threads of the process, so that the rest can be below 0."""

    kill_wait_s: float | None
    """From each kill to the end of the victim's last thread; overlaps count once."""
    direct_reclaim_s: float | None
    """Direct reclaim by the process's threads."""
    kswapd_s: float | None
    """Processor time of kswapd."""
    refault_s: float | None
    """Waits for I/O: mostly file pages that are read, and pages from a swap area on a disk."""
    swapin_s: float | None
    """Faults that read a page back from swap; those from a disk wait for I/O, too."""
    cpu_s: float | None
    """The process's processor time, and its waits for a processor."""
    rest_s: float
    """What is left of the duration; negative if parts overlap."""


class TraceLaunches(TypedDict):
    """The launches of apps in a system trace. Times are seconds since the first event that the
    kernel recorded."""

    schema: str
    """Name and version of this layout."""
    trace: str
    """The path of the trace."""
    begin_ns: int
    """The clock of the trace at 0 s, in nanoseconds: the time since boot if the trace has it."""
    duration_s: float
    """Seconds from the first event that the kernel recorded to the last."""
    events: int
    """Number of events that were read."""
    disordered: int
    """Events that were read after later ones; times of these may be too short."""
    untracked: int
    """Processes, threads and ranges of pages beyond the limits, which are not distinguished."""
    losses: list[Loss]
    """What the trace lost."""
    repeated_packets: int
    """Packets of a Perfetto trace that the file has twice, as when a trace is joined with itself;
    what they say counts twice. Copies of the first 65,536 packets are found."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first of the unreadable lines."""
    launches: list[TraceLaunch]
    """Launches in order of their start."""
    unfinished: int
    """Launches that the trace begins and never ends."""
    unfinished_launches: list[UnfinishedLaunch]
    """Each launch that the trace begins and never ends, in order of the start."""
    cancelled: int
    """Launches that ended without the mark of success, so that the trace does not name the app."""
    left_out: int
    """Launches beyond those that are kept."""
    lacks: list[str]
    """What the trace lacks to answer in full."""


class TracePressure(TypedDict):
    """The pressure on memory in a system trace. Times are seconds since the first event that the
    kernel recorded."""

    schema: str
    """Name and version of this layout."""
    trace: str
    """The path of the trace."""
    begin_ns: int
    """The clock of the trace at 0 s, in nanoseconds: the time since boot if the trace has it."""
    duration_s: float
    """Seconds from the first event that the kernel recorded to the last."""
    events: int
    """Number of events that were read."""
    disordered: int
    """Events that were read after later ones; times of these may be too short."""
    untracked: int
    """Processes, threads and ranges of pages beyond the limits, which are not distinguished."""
    losses: list[Loss]
    """What the trace lost."""
    repeated_packets: int
    """Packets of a Perfetto trace that the file has twice, as when a trace is joined with itself;
    what they say counts twice. Copies of the first 65,536 packets are found."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first of the unreadable lines."""
    direct_reclaim_s: float | None
    """Time that threads spent in direct reclaim, summed."""
    kswapd_s: float | None
    """Time in which kswapd was awake, or ran if the trace does not say when it woke."""
    compaction_s: float | None
    """Time that threads spent in compaction, summed; null if the trace has no interval of it."""
    refault_bytes: int | None
    """Bytes that were read again after they had left memory: of the page cache by its events, or of
    files and anonymous memory by the counters of /proc/vmstat."""
    refault_wait_s: float | None
    """Time that threads waited for such bytes, summed."""
    thrashing_by: str | None
    """How thrashing was found: `psi`, `refault-waits`, or null if the trace has neither."""
    intervals: list[PressureInterval]
    """Intervals in order of their start."""
    processes: list[PressureCause]
    """The processes with the most direct reclaim and refaults in all."""
    swapped_in_bytes: int | None
    """Bytes that the machine swapped in between the first and the last sample of /proc/vmstat."""
    swapped_out_bytes: int | None
    """Bytes that the machine swapped out between the first and the last sample of /proc/vmstat."""
    least_free_bytes: int | None
    """The least free memory of all samples."""
    least_available_bytes: int | None
    """The least available memory (MemAvailable) of all samples."""
    sizes: list[ProcessSize]
    """The processes with the most memory, at their largest; at most 32."""
    heat: RegionHeat | None
    """Accesses that DAMON found, by time and address; null without its regions."""
    left_out: int
    """Intervals beyond those that are kept."""
    lacks: list[str]
    """What the trace lacks to answer in full."""


class Traffic(TypedDict):
    """Accesses by process name and step of time; time begins with the first event."""

    step_s: float
    """Length of a step."""
    series: list[TrafficSeries]
    """The names with the most accesses in descending order, then all others."""


class TrafficSeries(TypedDict):
    """Accesses of the processes of one name."""

    name: str
    """Process name, or `kernel workers` or `others`."""
    processes: int
    """Number of processes."""
    reads: list[int]
    """Reads in each step; all accesses if the recording does not distinguish reads and writes."""
    writes: list[int]
    """Writes in each step."""


class Transfer(TypedDict):
    """Time of reading, or writing, any number of bytes: a set-up plus a time for every byte."""

    setup_ns: Latency
    """The part of a read that does not depend on its size."""
    bandwidth_mb_s: Figure
    """Read bandwidth after the set-up, in megabytes (10^6 bytes) per second."""
    write_bandwidth_mb_s: NotRequired[Figure | None]
    """Write bandwidth, if known."""


class UnfinishedLaunch(TypedDict):
    """A launch that the trace begins and never ends."""

    process: str | None
    """The package of the app by a marker or a line of the log. Otherwise, if no other launch lasted
    meanwhile, the name of the only process that started or resumed an activity, or, without any,
    the only one that was bound to an app. Null if the trace has neither."""
    pid: int | None
    """Pid of the app's process; null if no process of that name was found."""
    start_s: float
    """Start of the launch."""


class UnknownField(TypedDict):
    """A field of a message that pagewise does not know."""

    message: str
    """Name of the message."""
    number: int
    """Number of the field; 0 for further fields of very many."""
    count: int
    """Number of occurrences of the field."""


class Victim(TypedDict):
    """A candidate as a policy saw it."""

    process: int
    """Process id."""
    name: str
    """Process name."""
    adj: int
    """`oom_score_adj`."""
    resident_bytes: int
    """Memory of the process."""
    swapped_bytes: int
    """Swap of the process."""
    own_bytes: int | None
    """Memory of the process without file pages and shared memory; absent if not recorded."""
    weight_bytes: int | None
    """Part of its memory that its end frees; None if it has no weight."""
    score: list[int]
    """Score from the policy: the first number decides, the second breaks ties."""


class Visit(TypedDict):
    """One visit: a launch, and the use after it."""

    app: int
    """Index of the app."""
    kind: Literal["cold", "warm", "hot"]
    """State of the app at its launch."""
    launch_ns: int | None
    """From the request to the last page that the launch touches; absent if the kernel had to kill
    the app itself."""
    own_ns: int
    """Time of the launch with ample memory and all files in memory."""
    swap_in_ns: int
    """Reads of swapped pages, and the writes that these forced."""
    file_first_ns: int
    """First reads of file pages."""
    file_refault_ns: int
    """Reads of file pages that had been evicted."""
    direct_reclaim_ns: int
    """Reclaim by the launching app itself."""
    kill_wait_ns: int
    """Waiting until a victim's memory was back, and delivering its kill."""
    contention_ns: int
    """Processor time lost to the background reclaimer and to dying processes."""
    kills: int
    """Apps that the killer ended during the visit."""
    oom_kills: int
    """Apps that the kernel killed because nothing was left to reclaim."""
    swap_ins: int
    """Pages that came back from the swap area."""
    file_reads: int
    """File pages read."""
    file_refaults: int
    """Pages among `file_reads` that had been evicted."""
    fast_reads: int
    """Pages read from the fast tier."""
    fast_writes: int
    """Pages written to the fast tier."""
    slow_reads: int
    """Pages read from the slow tier, files included."""
    slow_writes: int
    """Pages written to the slow tier."""
    background_ns: int
    """Processor time of the background reclaimer."""
    free_pages: int
    """Free frames at the visit's end."""
    anonymous_pages: int
    """Anonymous pages in memory at the visit's end."""


class Volume(TypedDict):
    """Volume over swap accesses and over all block I/O, of which a trace records one."""

    swap: VolumeSplit | None
    """Over the accesses of a swap trace."""
    block: VolumeSplit | None
    """Over all reads and writes of a device."""


class VolumeSplit(TypedDict):
    """Bytes by the pages they belong to."""

    top_10_percent_bytes: int
    """Of the busiest 10 % of pages."""
    rest_bytes: int
    """Of all other pages."""


class Wear(TypedDict):
    """Share of the tier's rated life that a day of this trace uses; absent if the trace has no
    clock or the device has no rating."""

    fast: float | None
    """The fast tier; its capacity is the simulated size."""
    slow: float | None
    """The slow tier; its capacity is the device's."""


class ZeroPages(TypedDict):
    """Page-outs and page-ins of pages of zeros."""

    outs: int
    """Page-outs that wrote nothing."""
    ins: int
    """Page-ins that read nothing."""


class ZeroPagesBesideKernel(TypedDict):
    """SwapOuts and SwapIns of pages of zeros, as recorded and as counted by the kernel. The
    kernel's counts are `None` if its counters have another scope than the recording."""

    outs: int
    """Recorded page-outs."""
    ins: int
    """Recorded page-ins."""
    kernel_outs: int | None
    """Page-outs counted by the kernel."""
    kernel_ins: int | None
    """Page-ins counted by the kernel."""


class Zeros(TypedDict):
    """The kernel's counts over a trace that marks pages of zeros. A count is absent if the kernel's
    counter has another scope than the recording."""

    kernel_outs: NotRequired[int | None]
    """Pages of zeros that the kernel swapped out during the recording (`swpout_zero`)."""
    kernel_ins: NotRequired[int | None]
    """Pages of zeros that the kernel swapped in during the recording (`swpin_zero`)."""


class Zram(TypedDict):
    """A zram device, with its counts at the time when it held most."""

    algorithm: str | None
    """Compression algorithm."""
    bytes: int
    """Size of the device in bytes."""
    orig_data_bytes: int
    """Uncompressed bytes of the stored pages."""
    mem_used_bytes: int
    """Memory that the stored pages take."""


class ZramCounts(TypedDict):
    """What a zram device did in a replay. Pages of zeros that the recording marks are left out: the
    kernel does not write them."""

    compressed: int
    """Pages that were compressed and stored."""
    decompressed: int
    """Pages that were read and decompressed."""
    same_filled: int
    """Pages of equal words that were stored, which take no memory."""
    slow_writes: int
    """Pages that went to the next swap area, because all slots were taken."""
    slow_reads: int
    """Pages that were read from the next swap area."""
    refused: int
    """Pages that stayed in memory, because the pool was at its limit."""
    stored_bytes_max: int
    """The most bytes of pages that the device held at once."""
    pool_bytes_max: int
    """The most bytes of memory that the pool took at once."""
