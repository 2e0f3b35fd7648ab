"""Results field by field: the dictionaries that `pagewise` returns and prints as JSON.

Written by tools/schemas.py from the Rust structs of the results. Change those, then run it again.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class About(TypedDict):
    """What is known when a recording begins."""

    pagewise: str
    """Version of pagewise that records."""
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
    """How the kernel was heard: `bpf`, by owner and address, or `tracefs`, by swap slot."""
    sources: list[str]
    """What is recorded, by the names of the recorder's catalog."""
    absent: list[Missing]
    """What was asked for, or belongs to a source, and cannot be had here."""
    knows_zeros: NotRequired[bool]
    """Whether page-outs of pages of zeros are marked."""
    cgroup: str | None
    """The memory cgroup that events are limited to."""
    process: int | None
    """The process that events are limited to."""
    command: list[str]
    """The command that was run, where there is one."""
    system: NotRequired[System | None]
    """Swap areas, disks and kernel features of the machine; earlier recordings do not say."""


class Allocations(TypedDict):
    """What a recording of allocations holds."""

    schema: str
    """Name and version of this layout."""
    command: list[str]
    """The recorded command."""
    processes: list[list[Any]]
    """Names of the processes that had a block, by how many they had."""
    processes_all: int
    """Processes of the command in all."""
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
    """Pages that were touched after a block was given or discarded; none where that is not known of
    some block."""
    pages: int
    """Pages of all blocks."""
    live_bytes_max: int
    """Most bytes that were held at a time, over all processes."""
    sizes: list[SizeClass]
    """Blocks and bytes by size."""
    small_calls: int
    """Allocations below 64 KiB."""
    small_bytes: int
    """Their bytes."""
    processor_ns: int | None
    """Time on processors of all processes; none where a process with blocks ended unseen, as one
    does that is killed."""
    system_ns: int | None
    """What of it was in the kernel."""
    minor_faults: int | None
    """Minor faults of the processes, of whatever memory."""
    is_cut: bool
    """Whether the recording stops before its end."""
    losses: list[Loss]
    """What was lost, or is not known."""


class Analyze(TypedDict):
    """How a recording accesses its pages. Shares are fractions, distributions lists of [largest
    value, count]."""

    schema: str
    """Name and version of this layout."""
    kind: Literal["swap", "block", "objects"]
    """What the pages of the trace are."""
    page_bytes: int
    """Bytes of a page."""
    accesses: int
    """Accesses: page-outs and page-ins of a swap trace, reads and writes of other traces."""
    pages: int
    """Distinct pages accessed."""
    writes: int
    """Writes among the accesses; 0 where reads and writes are not told apart."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that takes 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""
    single_out: SingleOut | None
    """Pages that went out exactly once; swap traces only."""
    skew_curve: list[list[float]]
    """(share of pages, share of accesses), busiest pages first."""
    volume: Volume
    """Bytes moved by the busiest 10 % of pages and by the rest (S0 Fig. 1)."""
    top_10_percent_classes: dict[str, ClassShare] | None
    """What the busiest 10 % of pages are; none where the recording does not know."""
    miss_ratio_curve: list[list[Any]]
    """(frames, misses per access) of LRU."""
    reuse_distance: list[list[int]]
    """Distinct other pages between two accesses to the same page."""
    reaccess_interval_ns: list[list[int]] | None
    """Time between two accesses to the same page; none without a clock."""
    swap: SwapTraffic | None
    """Pages out and in; swap traces only."""
    zero_pages: NotRequired[ZeroPages | None]
    """Of these, pages of zeros, which no device writes or reads; absent where the recording does
    not tell them from others."""
    fault_time: FaultTime | None
    """How long swap-in faults took; none without durations."""
    processes: list[ProcessAnalysis] | None
    """The same per process, if asked for."""
    top_processes: list[ProcessRow] | None
    """The busiest of them, threads of the kernel together as one, and the others in one row."""
    traffic: Traffic | None
    """Accesses over time by name of process, if asked for; none without a clock."""
    not_recorded: list[str]
    """What the recording does not hold, and what that rules out."""
    losses: list[Loss]
    """What the recording lost."""
    trace: str
    """The path of the recording."""
    at_4_kib: NotRequired[AnalyzedAt4KiB | None]
    """Figures of the recorded pages of 4 KiB; absent unless larger pages were asked for."""


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


class Capacity(TypedDict):
    """How large the device is."""

    bytes: int
    """Bytes."""
    source: str
    """Who measured or stated it."""
    date: str
    """When it was measured or read, as an ISO date."""
    verified: bool
    """False where the number was recalled or assumed and nobody checked it."""


class ClassShare(TypedDict):
    """One class among the busiest pages."""

    pages: float
    """Its share of those pages."""
    accesses: float
    """Its share of their accesses."""


class Decision(TypedDict):
    """One decision to kill."""

    time_s: float
    """When."""
    why: str
    """The rule that said so."""
    available_bytes: int
    """Available memory then, with what earlier victims would have left."""
    victims: list[Victim]
    """Who dies."""
    spared: list[Victim]
    """Who would have been next, the first few."""
    judgement: Literal["needed", "false-alarm", "undecided"]
    """What the recording says of it."""


class Device(TypedDict):
    """A storage device."""

    name: str
    """Its name in the catalog, or the text that described it."""
    summary: str
    """What it is, in a line."""
    note: str
    """What else the reader of the figures should know; may be empty."""
    read_ns: Latency
    """Reading one page."""
    write_ns: Latency
    """Writing one page."""
    transfer: Transfer | None
    """Reading any number of bytes, where it is known."""
    capacity: Capacity | None
    """Its size, where it has one of its own."""
    rated_cycles: Figure | None
    """Its endurance, where writing wears it and the figure is known: how often every byte may be
    written."""
    compression: Figure | None
    """Only where the device is the memory of the board itself: bytes of pages it holds for each
    byte of memory it takes, 1 without compression."""
    is_exact: NotRequired[bool]
    """Whether it is only two latencies that the caller gave."""


class DeviceReads(TypedDict):
    """Device reads by what asked for them."""

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
    """How many."""
    sum_ns: int
    """Their sum."""
    distribution_ns: list[list[int]]
    """Their distribution: [largest value of the bucket, count]."""


class Events(TypedDict):
    """A trace in numbers and words."""

    header: Header
    """What the trace says about itself; complete, also of a foreign recording."""
    events: dict[str, int]
    """What the recording holds by the names of its own events, used or not; of what moves pages,
    the pages."""
    lost: int
    """How much was lost, as `header.losses` lists it."""
    sources: list[str] | None
    """What was recorded, by the names of the recorder's sources; none where it was not ours."""
    kinds: list[list[Any]]
    """Events of each kind that occurs, by name."""
    accesses: int
    """Events that the analyses count as accesses."""
    writes: int | None
    """Accesses that carry data towards storage; none where the recording does not tell."""
    zero_pages: NotRequired[ZeroPagesBesideKernel | None]
    """Pages of zeros; none if the recording does not mark them."""
    duration_s: float | None
    """Seconds from the first event to the last; without events, those that the recorder ran; none
    without a clock."""
    active_s: float | None
    """The same without idle gaps."""
    gaps: list[Gap]
    """Idle gaps: times without an event of a minute or more, the first thousand."""
    recordings: int
    """How many recordings it seems to join, one after the other; 0 without a clock."""
    processes: list[ProcessEvents]
    """The processes with how many events each has; of very many those that have most."""
    processes_all: int
    """How many processes there are."""
    absent: list[str]
    """What the recording does not have, in words."""
    ruled_out: list[str]
    """What therefore cannot be analysed, in words."""


class FaultTime(TypedDict):
    """Faults by whether they read the device."""

    device: Durations
    """Faults that read the device (major faults)."""
    cached: Durations
    """Faults served without the device, from the swap cache."""


class Features(TypedDict):
    """Features of a kernel."""

    zswap: bool | None
    """Whether zswap is on; none where the kernel has none."""
    has_zram: bool
    """Whether there are zram devices, or a module that makes some."""
    keeps_zeros_out: bool
    """Whether pages of zeros are kept out of swap areas."""
    has_mthp: bool
    """Whether transparent huge pages of several sizes can be switched on."""
    has_psi: bool
    """Whether the kernel reports stall times (PSI)."""
    cgroup_version: int | None
    """Version of the cgroup hierarchy that has the memory controller."""


class Figure(TypedDict):
    """A figure of a device that is no time, with its range."""

    low: float
    """The lowest the source gives."""
    typical: float
    """What runs use."""
    high: float
    """The highest the source gives."""
    source: str
    """Who measured or stated it."""
    date: str
    """When it was measured or read, as an ISO date."""
    verified: bool
    """False where the number was recalled or assumed and nobody checked it."""


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
"""A file of which a trace has pages; its place in `Header::files` is its number."""


class Freeze(TypedDict):
    """A time in which no task got on for want of memory, or the kernel's own killer had to act."""

    from_s: float
    """Its begin."""
    to_s: float
    """Its end; the begin, where the kernel killed."""
    is_kernel_kill: bool
    """Whether it is a kill of the kernel's."""


class Gap(TypedDict):
    """A stretch of time without events, in seconds since the first event."""

    from_s: float
    """The event before it."""
    to_s: float
    """The event after it."""


class Header(TypedDict):
    """Everything known about a trace apart from its events."""

    schema: int
    """Version of the file's layout."""
    pagewise: str
    """The pagewise that wrote it."""
    kind: Literal["swap", "block", "objects"]
    """What its pages are."""
    format: str
    """Catalog name of the format it was imported from."""
    has_clock: bool
    """Whether events carry a time."""
    has_operations: bool
    """Whether accesses tell reads from writes."""
    has_sizes: bool
    """Whether events carry the bytes they moved."""
    has_durations: bool
    """Whether events carry how long they took."""
    start_ns: int
    """Time of the first event on the recording's own clock, in nanoseconds; 0 without a clock."""
    page_bytes: int
    """Bytes per page."""
    has_addresses: NotRequired[bool]
    """Whether addresses tell which pages are neighbours; not in a copy with numbers for
    addresses."""
    events: int
    """Number of events."""
    pages: int | None
    """Distinct pages, where the pages are densely numbered; none where only (space, address) is
    stored, because the numbering table was full during import."""
    processes: list[Process]
    """Processes by `ProcessId`."""
    devices: list[str]
    """Devices seen, as the recording names them."""
    files: NotRequired[list[File]]
    """Files of which it has pages, by number: see `FILE_PAGE_BITS`."""
    recorder: NotRequired[About | None]
    """What the recorder said when it began, where it was ours."""
    recorded_ns: NotRequired[int | None]
    """How long the recorder ran, in nanoseconds; none where the recording does not tell."""
    zeros: NotRequired[Zeros | None]
    """What is known of pages of zeros; none where their events are not marked."""
    shortage: NotRequired[Shortage | None]
    """Stalls and kills; none where the recording tells neither."""
    losses: list[Loss]
    """What was lost or skipped."""
    rejects: list[Reject]
    """The first lines that could not be read; `losses` counts them all."""
    disordered: int
    """Events whose time lies before that of the event ahead of them; kept as they came."""
    seen: list[list[Any]]
    """What the recording holds by the names of its own events, used or not, with counts."""
    sources: list[list[str]]
    """sha256 of each source file, in hexadecimal, with its name."""
    part: NotRequired[Part | None]
    """Which part of another trace it is, where it was cut from one."""


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
    """Data written, or read and written by one instruction."""
    steps: int
    """References that the filter did not absorb."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first ten of them."""
    losses: list[Loss]
    """What was lost."""


class ImportReport(TypedDict):
    """What an import did."""

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
    """Accesses that carry data towards storage."""
    pages: int | None
    """Distinct pages; none where they were too many to number."""
    renumbered: bool
    """Whether pages are numbered; if not, an analysis numbers them when it reads the trace."""
    duration_ns: int | None
    """Nanoseconds from the first event to the latest; none without a clock."""
    skipped: dict[str, int]
    """Records that are understood but are no access, by reason."""
    rejected: int
    """Lines that could not be read."""
    rejects: list[Reject]
    """The first ten of them."""
    seen: dict[str, int]
    """What the recording holds, by the names of its own events."""
    losses: list[Loss]
    """What was lost."""
    disordered: int
    """Records whose time lies before that of the record ahead of them; kept as they came."""
    sources: list[list[str]]
    """sha256 and name of each file."""


class Kill(TypedDict):
    """A process killed. Times are microseconds; none is what the kernel does not tell. `signal_us +
    threads_us + reclaim_us = total_us`, `unmap_us + pagetables_us = reclaim_us`"""

    pid: int
    """The process."""
    comm: str
    """Its name, at most 15 bytes."""
    threads: int | None
    """Threads that handled the signal."""
    rss_bytes: int | None
    """What it had resident when its memory began to go: anonymous, of files, shared."""
    signal_us: float | None
    """From the kill call to the signal pending at every thread."""
    threads_us: float | None
    """From there to the lock with which the last thread begins to give the memory back."""
    reclaim_us: float | None
    """From there to the end of the memory."""
    unmap_us: float | None
    """Of it: unmapping and freeing of pages."""
    pagetables_us: float | None
    """Of it: page tables, and what is flushed and freed with them."""
    total_us: float | None
    """From the first of these to the last; begins behind the signal where that is not told."""
    reaper_us: float | None
    """Time of a reaper, beside the phases: `process_mrelease`, or the kernel's own."""
    trigger: Literal["user", "memcg-oom", "global-oom", "oom", "kswapd", "direct-reclaim", "kernel"]
    """Why it was killed, as far as the kernel tells."""
    killer: Killer | None
    """Who sent the signal."""
    reclaiming: list[Killer]
    """Who was making room for others when the signal was sent: `kswapd0`, or a process that ran
    out."""
    start_ns: int
    """CLOCK_MONOTONIC of its beginning, in nanoseconds."""
    rss_curve: list[list[Any]]
    """Microseconds since then, and bytes still resident."""
    steps: list[KillStep]
    """What happened, in order."""


class KillStep(TypedDict):
    """One step on the way of a kill."""

    name: str
    """What is done."""
    thread: int
    """By which thread."""
    start_us: float
    """Microseconds since the kill began."""
    duration_us: float
    """How long; 0 of an instant."""


class Killed(TypedDict):
    """A process that was told to die."""

    time_ns: int
    """When, in nanoseconds."""
    pid: int
    """The kernel's number for it."""
    name: str
    """Its name; empty where the recording has none."""
    is_of_kernel: bool
    """Whether the kernel's out-of-memory killer chose it."""


class Killer(TypedDict):
    """Who did something."""

    pid: int
    """The process; the thread, where its process is not known."""
    comm: str | None
    """Its name, where it is known."""


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
    """What cannot be told, and why."""
    kills: list[Kill]
    """Kills in the order of their ends; those whose end was not seen come last."""


class Latency(TypedDict):
    """The time one operation on one page takes, in nanoseconds."""

    low: int
    """The best the source gives."""
    typical: int
    """What runs use."""
    high: int
    """The worst the source gives."""
    source: str
    """Who measured or stated it."""
    date: str
    """When it was measured or read, as an ISO date."""
    verified: bool
    """False where the number was recalled or assumed and nobody checked it."""


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
    """Frames that were left to the phone, less what a fast tier in memory takes."""
    slots: int
    """Slots of the swap area."""
    watermarks: list[int]
    """Free frames at which apps reclaim themselves, the background reclaimer wakes, and sleeps."""
    visits: list[Visit]
    """Every visit in order."""
    kills: list[SimulatedKill]
    """Every kill in order."""
    storage_pages: int
    """Pages of files and of the swap area that storage was asked for, with how unevenly."""
    storage_accesses: int
    """Their accesses, reads and writes."""
    skew: Skew
    """How unevenly the accesses fall on the pages."""


class Loss(TypedDict):
    """Something the recording or its import lost."""

    what: str
    """What was lost, in words."""
    count: int
    """How many."""


class MemoryPoint(TypedDict):
    """Memory at a moment."""

    time_s: float
    """When."""
    available_bytes: int
    """What could be had without swapping."""
    swap_free_bytes: int
    """What is free of all swap."""


class Misses(TypedDict):
    """Exact misses of eviction policies in memories of given sizes."""

    schema: str
    """Name and version of this layout."""
    requests: int
    """Accesses of the trace."""
    pages: int
    """Distinct pages accessed."""
    misses: dict[str, dict[str, int]]
    """In the order asked for; in JSON an object {policy: {frames: misses}}."""
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
    """Something that a recording does not have."""

    what: str
    """What it is."""
    why: str
    """Why, and what that costs."""


class NeverReturned(TypedDict):
    """Page-outs that no page-in followed."""

    pages: float
    """Share of the pages that went out that stayed out at the end."""
    outs: float
    """Share of page-outs that were not read before the next page-out of the page or the end."""


class NoKillReason(TypedDict):
    """Why nobody died for a while."""

    from_s: float
    """From this moment."""
    to_s: float
    """To this one."""
    why: str
    """The rule that said so."""


class Origin(TypedDict):
    """Where a trace comes from, known before its first reference."""

    pagewise: str
    """The pagewise that wrote it."""
    format: str
    """`capture`, or the catalog name of the format that it was imported from."""
    command: list[str]
    """The captured command, or the imported file."""
    architecture: NotRequired[str | None]
    """The processor that the captured program is made for, as QEMU names it."""
    follows_threads: NotRequired[bool | None]
    """Whether a capture kept every thread, or the first alone."""
    block_bytes: int
    """Bytes of a block of the filter."""
    filter_blocks: int
    """Blocks that the filter holds."""


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
    """sha256 of the whole trace, however many slices lie between."""
    times_ns: list[list[int]]
    """The times that the part has all events of, each from its start to before its end, in
    nanoseconds on the recording's own clock; in order and apart."""


class PolicyReplay(TypedDict):
    """What one policy would have done."""

    policy: str
    """Its name."""
    decisions: list[Decision]
    """Its kills."""
    reasons: list[NoKillReason]
    """Why it did nothing, a row as long as the reason stays."""
    reasons_left_out: int
    """Rows of reasons beyond those kept."""
    false_alarms: int
    """Decisions after which the recording went on for the whole window without a freeze or a
    kill."""
    missed_freezes: int
    """Freezes ahead of which, and in which, it decided nothing."""
    victims_named: int
    """Recorded victims that it would have killed too, at that time or within the window before
    it."""
    victims_not_named: int
    """Recorded victims that it would not have killed by then."""
    victims_unknown: int
    """The rest of the recorded victims: their kills have no moment."""


class Process(TypedDict):
    """A process named by the recording."""

    pid: int
    """The kernel's number for it; 0 where the recording has none."""
    name: str
    """Its command name; empty where the recording has none."""


class ProcessAnalysis(TypedDict):
    """One process. The pages are those it accessed, with its own accesses alone."""

    pid: int
    """The kernel's number for it; 0 where the recording has none."""
    name: str
    """Its command name; empty where the recording has none."""
    accesses: int
    """Its accesses."""
    pages: int
    """Distinct pages among them."""
    writes: int
    """Writes among its accesses."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that takes 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class ProcessCounts(TypedDict):
    """What one process did."""

    pid: int
    """The kernel's number for it."""
    name: str
    """Its name."""
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
    """One process of a trace."""

    pid: int
    """The kernel's number for it; 0 where the recording has none."""
    name: str
    """Its command name; empty where the recording has none."""
    events: int
    """Events of its pages or requests."""


class ProcessRow(TypedDict):
    """A process, all threads of the kernel, or all processes that have no row of their own."""

    name: str
    """The command name of a process; `kernel workers`, `others`."""
    pid: int | None
    """The kernel's number for a process; none of several."""
    processes: int
    """How many processes it is."""
    accesses: int
    """Their accesses."""
    pages: int
    """Distinct pages among them."""
    writes: int
    """Writes among their accesses."""
    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that takes 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class Ranges(TypedDict):
    """Times over the range of the devices' latencies."""

    io_time_s: TimeRange
    """`io_time_s` over the range."""
    stall_time_s: TimeRange
    """`stall_time_s` over the range."""


class RecordedKill(TypedDict):
    """A process that was killed while it was recorded."""

    time_s: float
    """When."""
    process: int
    """Its number."""
    name: str | None
    """Its name, where it was seen alive."""
    is_of_kernel: bool
    """Whether the kernel's out-of-memory killer chose it."""
    has_moment: bool
    """Whether the recording has the moment of this kill: memory and processes before any of the
    victim's memory was given back. Without it the recording cannot tell what the killer saw."""


class References(TypedDict):
    """What a trace of memory references holds."""

    schema: str
    """Name and version of this layout."""
    origin: Origin
    """Where it comes from."""
    references: int
    """All references."""
    instructions: int
    """Instructions fetched."""
    reads: int
    """Data read."""
    writes: int
    """Data written, or read and written by one instruction."""
    steps: int
    """References that the filter did not absorb."""
    file_bytes: int
    """Bytes of the file; 0 where that is not known."""
    ending: ReferencesEnding | None
    """How it ends; null if the file was cut, so that the counts go up to its last whole frame."""
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


class Reject(TypedDict):
    """A line of a text recording that could not be read."""

    file: str
    """The file."""
    line: int
    """The line, counted from 1."""
    expected: str
    """What a good line has there."""
    found: str
    """How the line begins; empty in files of an earlier pagewise."""


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
    """All memory of the group or machine at the last moment."""
    has_watermarks: bool
    """Whether every moment has watermarks and what the kernel keeps; where not, `minfree` counts
    that as free and `lmkd` has no rule of low free memory."""
    has_weights: bool
    """Whether the recording has weights of processes. If not, memory that processes share by fork
    counts in full for each of them."""
    memory: list[MemoryPoint]
    """Available memory over time, thinned to its lowest within equal steps."""
    freezes: list[Freeze]
    """When no task got on."""
    recorded: list[RecordedKill]
    """Who was killed while it was recorded."""
    policies: list[PolicyReplay]
    """What each policy would have done, in the order asked for."""
    cgroup: str | None
    """The memory cgroup that was recorded; null for the whole machine."""
    command: list[str]
    """The command that was recorded; empty if there was none."""
    kernel: str
    """`uname -r` of the recorded machine."""
    is_cut: bool
    """Whether the end of the recording is missing."""


class SeenMemory(TypedDict):
    """Memory at one instant, in pages; what victims of earlier kills still hold is counted as held,
    and once more by itself."""

    free_pages: int
    """Frames that nobody has."""
    available_pages: int
    """What could be had without swapping, as the kernel reckons."""
    file_pages: int
    """Pages of files in memory."""
    anonymous_pages: int
    """Anonymous pages in memory."""
    swap_free_pages: int
    """Free slots of the swap area."""
    coming_pages: int
    """Pages in memory that are on their way back: those of victims that still die."""
    coming_swap_pages: int
    """Slots of the swap area that are."""


class Shortage(TypedDict):
    """Stalls for memory and processes that were killed, each in order of time on the recording's
    own clock."""

    is_of_cgroup: bool
    """Whether the stalls are those of the recorded cgroup; else they are the machine's."""
    stalls: list[Stall]
    """How long tasks had stalled for memory by each of some instants."""
    kills: list[Killed]
    """The first processes that were killed."""
    kills_left_out: int
    """How many more were killed."""


class Simulate(TypedDict):
    """What one swap architecture costs on a recording."""

    schema: str
    """Version of this object."""
    architecture: str
    """The architecture's name in the catalog."""
    profile: str | None
    """The profile that was asked for."""
    options: dict[str, str]
    """Every option with the value in effect."""
    readahead: str
    """How recorded readahead was treated."""
    clean_evictions: str
    """How clean evictions, which leave no event, were treated."""
    fast_bytes: int
    """Size of the fast tier in bytes."""
    fast_device: str
    """Name of the fast device."""
    slow_device: str
    """Name of the slow device."""
    page_bytes: int
    """Bytes of a page."""
    fast: TierCounts
    """Operations of the fast tier."""
    slow: TierCounts
    """Operations of the slow tier."""
    promotions: int
    """Known pages that entered the fast tier."""
    demotions: int
    """Pages that lost their frame in the fast tier to another page."""
    fast_only_pages: int
    """Pages whose only copy the fast tier holds when the trace ends. Taking the tier out would
    write each to the slow one; no count or time here has those writes."""
    zero_pages: NotRequired[ZeroPages | None]
    """Page-outs and page-ins of pages of zeros, which cost nothing; absent where the trace does not
    tell them from others."""
    io_time_s: float
    """Counts times latencies over both devices."""
    stall_time_s: float
    """The part between a swap-in and its completion: its read and the writes it forced."""
    wear: Wear
    """Wear of both devices."""
    ranges: Ranges | None
    """Times over the range of the devices' latencies; absent where the counts depend on them and
    were not replayed over the range."""
    processes: list[ProcessCounts]
    """Operations by process, for processes that did any."""
    slices: NotRequired[list[PageOperations]]
    """Operations by slice of the trace; absent where none was asked for."""
    notes: list[str]
    """What the reader must know beside the numbers."""
    losses: list[Loss]
    """What the recording lost."""
    trace: str
    """The path of the recording."""
    pagewise: str
    """Version of pagewise."""
    build: str
    """Hash of the sources that pagewise was built from."""
    at_4_kib: NotRequired[SimulatedAt4KiB | None]
    """The same for the recorded pages of 4 KiB; absent unless larger pages were asked for."""
    trace_sha256: NotRequired[str | None]
    """sha256 of the recording; null if it cannot be read twice, absent outside `--json`."""


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
    """Who looked."""
    why: str
    """The rule that named it."""
    adj: int
    """Its importance on the scale of `oom_score_adj`."""
    seen: SeenMemory
    """Memory when it was killed, before any of its own came back."""
    at_ns: int
    """Since the beginning of the life."""
    resident_pages: int
    """Pages that it had in memory."""
    threads: int
    """Its threads."""
    signal_ns: int
    """Delivery of the signal."""
    exit_ns: int
    """From then to the last thread's exit; 0 where the killer frees at once."""
    reclaim_ns: int | None
    """From then until the last page was free; absent where the life ended before."""
    others_dying: int
    """Victims that were still dying when it was killed."""


class SingleAccess(TypedDict):
    """Pages with exactly one access."""

    pages: float
    """Their share of pages."""
    accesses: float
    """Their share of accesses."""


class SingleOut(TypedDict):
    """Pages that went out exactly once."""

    pages: float
    """Their share of the pages that went out."""
    outs: float
    """Their share of page-outs."""


class SizeClass(TypedDict):
    """Blocks of similar size."""

    below_bytes: int | None
    """Blocks of less than so many bytes, and not less than the class before."""
    blocks: int
    """How many."""
    bytes: int
    """Their bytes."""


class Skew(TypedDict):
    """Skew of a set of pages. Shares are fractions; of nothing they are 0."""

    top_share: dict[str, float]
    """Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by share
    of pages ("0.01" ... "0.5")."""
    pages_for_80_percent: float
    """Smallest share of pages that takes 80 % of accesses."""
    single_access: SingleAccess
    """Pages with exactly one access."""


class Stall(TypedDict):
    """Sums of stall time (PSI) at one instant."""

    time_ns: int
    """When, in nanoseconds."""
    some_us: int
    """Microseconds in which some task stalled for memory, so far."""
    full_us: int
    """Microseconds in which every task stalled for memory, so far."""


class StartedProcesses(TypedDict):
    """What a captured program started."""

    threads: int
    """Threads, the first one included."""
    children: int
    """Child processes; none of them is followed."""
    programs: int
    """Other programs in its own place (execve); none of them is followed."""


class SwapArea(TypedDict):
    """A swap area."""

    path: str
    """The file or device."""
    kind: str
    """`file`, `partition` or `zram`."""
    bytes: int
    """Bytes it holds."""
    priority: int
    """Higher is used first."""
    disk: Disk | None
    """What it lies on; none where it is memory."""


class SwapTraffic(TypedDict):
    """Pages out and in."""

    outs: int
    """Pages that left memory, each time, anonymous or of a file, modified or not."""
    ins: int
    """Faults and reads that brought a page back."""
    outs_per_page: list[list[int]]
    """Pages by how often they went out; pages that never did are in the bucket of 0."""
    ins_per_page: list[list[int]]
    """Pages by how often they came in."""
    pages_in_swap_max: int
    """The most pages that were in swap at once."""
    never_returned: NeverReturned
    """What left for good."""
    device_reads: DeviceReads | None
    """What the device read; none where the recording has no device traffic."""


class System(TypedDict):
    """The swap of a machine when a recording begins."""

    limit_bytes: int | None
    """The memory that the recorded group may use, in bytes, where that is less than the machine
    has."""
    areas: list[SwapArea]
    """The swap areas in use."""
    root: Disk | None
    """The disk under `/`."""
    zram: dict[str, Zram]
    """Each zram device that is set up, by its name."""
    features: Features
    """What the kernel can do."""


class TierCounts(TypedDict):
    """Page operations of one tier."""

    reads: int
    """Pages read."""
    writes: int
    """Pages written."""
    bytes_written: int
    """Bytes written."""


class TimeRange(TypedDict):
    """The same quantity with every latency at its low and at its high figure."""

    low: float
    """Seconds with low latencies."""
    high: float
    """Seconds with high latencies."""


class Traffic(TypedDict):
    """Accesses by name of process and step of time, which begin with the first event."""

    step_s: float
    """Length of a step."""
    series: list[TrafficSeries]
    """Those with most accesses, the most first, and all others."""


class TrafficSeries(TypedDict):
    """What the processes of one name did."""

    name: str
    """Their name; that of several where it is `kernel workers` or `others`."""
    processes: int
    """How many they are."""
    reads: list[int]
    """Reads in each step; where the recording does not tell reads from writes, all accesses."""
    writes: list[int]
    """Writes in each step."""


class Transfer(TypedDict):
    """What reading, or writing, more or less than a page at once takes: a set-up and a time for
    every byte."""

    setup_ns: Latency
    """The part of a read that does not depend on its size."""
    bandwidth_mb_s: Figure
    """Megabytes (10^6 bytes) a second from then on."""
    write_bandwidth_mb_s: NotRequired[Figure | None]
    """The same of writes, where it is known."""


class Victim(TypedDict):
    """A candidate as a policy saw it."""

    process: int
    """Its number."""
    name: str
    """Its name."""
    adj: int
    """`oom_score_adj`."""
    resident_bytes: int
    """What it has in memory."""
    swapped_bytes: int
    """What it has in swap."""
    own_bytes: int | None
    """What of its memory is no file's and no shared memory's; absent where it was not recorded."""
    weight_bytes: int | None
    """What its end frees of its memory; None if it has no weight."""
    score: list[int]
    """What the policy gave it: the first number decides, the second between equals."""


class Visit(TypedDict):
    """One visit: a launch, and the use after it."""

    app: int
    """Index of the app."""
    kind: Literal["cold", "warm", "hot"]
    """How the launch found it."""
    launch_ns: int | None
    """From the request to the last page that the launch touches; absent where the kernel had to
    kill the app itself."""
    own_ns: int
    """What the launch takes with ample memory and all files in memory."""
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
    """Apps that the kernel ended because nothing was left to reclaim."""
    swap_ins: int
    """Pages that came back from the swap area."""
    file_reads: int
    """File pages read."""
    file_refaults: int
    """Of these, pages that had been evicted."""
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
    """Anonymous pages in memory at its end."""


class Volume(TypedDict):
    """Volume over swap accesses and over all block I/O, of which a trace records one."""

    swap: VolumeSplit | None
    """Over the accesses of a swap trace."""
    block: VolumeSplit | None
    """Over all reads and writes of a device."""


class VolumeSplit(TypedDict):
    """Bytes by whose they are."""

    top_10_percent_bytes: int
    """Of the busiest 10 % of pages."""
    rest_bytes: int
    """Of all other pages."""


class Wear(TypedDict):
    """Share of the tier's rated life that a day of this trace uses up; absent without a clock in
    the trace or a rating of the device."""

    fast: float | None
    """The fast tier; its capacity is the simulated size."""
    slow: float | None
    """The slow tier; its capacity is the device's."""


class ZeroPages(TypedDict):
    """Pages that went out and came back as zeros."""

    outs: int
    """Page-outs that wrote nothing."""
    ins: int
    """Page-ins that read nothing."""


class ZeroPagesBesideKernel(TypedDict):
    """Swap-outs and swap-ins of pages of zeros, as recorded and as the kernel counted them; the
    kernel's are none if its counters cover more than the recording, or less."""

    outs: int
    """Page-outs."""
    ins: int
    """Page-ins."""
    kernel_outs: int | None
    """Page-outs, by the kernel."""
    kernel_ins: int | None
    """Page-ins, by the kernel."""


class Zeros(TypedDict):
    """The kernel's counts over a trace that marks pages of zeros. A count is absent if the kernel's
    counter covers more than what was recorded, or less."""

    kernel_outs: NotRequired[int | None]
    """Pages of zeros that the kernel swapped out meanwhile, as it counted them (`swpout_zero`)."""
    kernel_ins: NotRequired[int | None]
    """Those that it brought back (`swpin_zero`)."""


class Zram(TypedDict):
    """Compressed memory. Its counts are the recording's fullest."""

    algorithm: str | None
    """What it compresses with."""
    bytes: int
    """Bytes of pages it takes."""
    orig_data_bytes: int
    """Bytes of the pages that it holds."""
    mem_used_bytes: int
    """Memory that they take."""
