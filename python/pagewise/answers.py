"""Results that Python computes, field by field; those of Rust are in `pagewise.types`.

Those of sweeps, studies and benches are in `pagewise.comparisons`, those of captures, probes and
checks in `pagewise.measurements`. tools/schemas.py makes the JSON Schemas and the tables of
docs/results.md from all of them.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from pagewise.ranges import Amount, Count, Share
from pagewise.types import (
    AccessHeat,
    CountedReferences,
    Device,
    Disk,
    Features,
    Gap,
    Loss,
    MinorFaults,
    ReadAheadFaults,
    SwapArea,
    Zram,
)


class Spread(TypedDict):
    """A figure over the ranges of what it is computed from."""

    low: float
    """The lowest."""
    typical: float
    """With typical figures throughout."""
    high: float
    """The highest."""


class Setting(TypedDict):
    """Commands that set something up, and the commands that take it back."""

    title: str
    """The thing that the setting sets up."""
    note: str
    """What to know before it is pasted."""
    apply: str
    """The commands."""
    undo: str
    """The commands that take it back."""


class Halves(TypedDict):
    """The sizes chosen from each half of the recording, and what they cost on the other half."""

    first_bytes: Count | None
    """The size chosen from the first half; null is no fast tier."""
    second_bytes: Count | None
    """The size chosen from the second half; null is no fast tier."""
    cost_share: float
    """The larger of the two costs, in I/O share."""


class SizeRange(TypedDict):
    """The range that holds the size."""

    low_bytes: Count | None
    """The lower end of the range; null is no fast tier."""
    high_bytes: Count | None
    """The upper end of the range; null is no fast tier."""
    level: Share
    """Share of the resampled sizes that it holds."""


class EvidenceResult(TypedDict):
    """Whether the recording can carry a size."""

    verdict: str
    """`enough`, `not swap`, `too short` or `unstable`."""
    reason: str
    """The verdict in words, with the figures that led to it."""
    remedy: str | None
    """What to record instead; null if the evidence is enough."""
    reaccesses: int
    """Accesses to pages that were accessed before."""
    active_s: Amount | None
    """Seconds without idle gaps; null without a clock."""
    traffic_s: Amount | None
    """The least seconds that hold nine tenths of the events; null without a clock."""
    gaps: list[Gap]
    """Idle gaps."""
    halves: Halves
    """The sizes of both halves."""
    range: SizeRange
    """The range that holds the size."""


class Machine(TypedDict):
    """The recorded machine, as far as the recording tells."""

    architecture: str
    """`uname -m`."""
    kernel: str
    """`uname -r`."""
    processors: Count
    """Processors online."""
    memory_bytes: Count
    """Memory of the machine."""
    limit_bytes: Count | None
    """The memory that the recorded group may use, if that is less than the machine has."""
    areas: list[SwapArea]
    """Swap areas in use."""
    root: Disk | None
    """The disk under `/`."""
    zram: dict[str, Zram]
    """Each zram device that is set up, by its name."""
    features: Features
    """What the kernel can do."""


class Taken(TypedDict):
    """An option that follows from the recorded machine."""

    option: str
    """The option of the command."""
    value: str | float
    """The value of the option."""
    why: str
    """Why, as a clause about the recorded machine."""


class Compression(Spread):
    """Bytes of pages per byte of memory."""

    source: str
    """Where the figure comes from."""


class BoardMemory(TypedDict):
    """The memory that a fast tier lives in."""

    board_bytes: Count | None
    """All memory of the board; null if it is not known."""
    compression: Compression
    """Bytes of pages per byte of memory."""
    share_max: Share
    """The largest share of the board's memory that a tier may take."""


class Strain(TypedDict):
    """What the traffic does to the slow device."""

    wear_slow: Spread | None
    """Share of the rated life used up per day, before write amplification; null if unknown."""
    life_slow_years: Spread | None
    """Years until the rated writes are used up; null if the wear is unknown or nothing is written.
    """
    busy_slow: Spread | None
    """I/O time as a share of the active time; null without a clock."""


class BothStrain(Strain):
    """What the traffic does to both devices."""

    wear_fast: Spread | None
    """Share of the rated life used up per day, before write amplification; null if unknown."""
    life_fast_years: Spread | None
    """Years until the rated writes are used up; null if the wear is unknown or nothing is written.
    """
    busy_fast: Spread | None
    """I/O time as a share of the active time; null without a clock."""


class Alone(Strain):
    """The slow device without a fast tier."""

    io_time_s: Spread
    """Counts times latencies."""
    io_bytes: Count
    """Bytes read and written."""


class HoldsIn(TypedDict):
    """In how many combinations of latencies an architecture is the best."""

    combinations: Count
    """Combinations in which it is."""
    of: Count
    """All combinations."""


class ChosenArchitecture(TypedDict):
    """The architecture with the lowest mean I/O time over all sizes."""

    name: str
    """The name of the architecture in the catalog."""
    options: dict[str, str]
    """Every option with the value in effect."""
    mean_io_share: Amount
    """Mean over the sizes of the I/O time as a share of that without a fast tier."""
    stock_linux: str | None
    """What gives it on stock Linux; null if nothing does."""
    holds_in: HoldsIn
    """How sure its place is."""
    meanwhile: str
    """The best that stock Linux has today."""


class Regret(TypedDict):
    """A choice, and how much more I/O time it takes."""

    architecture: str
    """The architecture."""
    regret: Spread
    """More I/O time, as a share."""


class Cheaper(TypedDict):
    """The best at the next smaller size, and how much more I/O time it takes."""

    architecture: str | None
    """The architecture with the least I/O time at that size; of stock Linux only, if the choice is
    of stock Linux. Null without a fast tier."""
    fast_tier_bytes: Count
    """The size of the fast tier; 0 is no fast tier."""
    regret: Spread
    """More I/O time, as a share; negative if the smaller size takes less."""


class TakenMemory(TypedDict):
    """What a tier in memory takes, and what it leaves."""

    taken_bytes: Spread
    """Memory that a full tier takes."""
    share_of_board: Spread | None
    """The bytes as a share of the board's memory; null if that is not known."""
    net_bytes: Count
    """What the tier holds beyond the memory it takes."""
    io_share_in_use: Spread | None
    """I/O time as a share of that without a fast tier if the memory was in use."""


class AtSize(BothStrain):
    """What an architecture costs at one size, and what cheaper choices would cost more."""

    fast_tier_bytes: Count
    """Size of the fast tier."""
    io_time_s: Spread
    """Counts times latencies of both devices."""
    io_share: Spread
    """I/O time as a share of that without a fast tier."""
    slow_bytes: Count
    """Bytes read from and written to the slow device."""
    memory: TakenMemory | None
    """What a tier in memory takes; null if the tier is none."""
    next_cheaper: Cheaper
    """The best at the next smaller size."""
    stock_linux: Regret
    """The best that stock Linux has at this size."""


class Today(AtSize):
    """The best that stock Linux has, at its size."""

    architecture: str
    """The architecture."""
    by: str | None
    """What gives it on stock Linux."""
    can_run: bool
    """Whether the choice can be run today."""


class Best(TypedDict):
    """The least I/O time at the size that is taken today."""

    architecture: str
    """The architecture."""
    by: str | None
    """What gives it: a part of stock Linux, or `swapd`; null if nothing surely does."""
    can_run: bool
    """Whether the best choice can be run today."""
    missing: str | None
    """Why nothing surely gives it; null if something does."""
    fast_tier_bytes: Count
    """Size of the fast tier."""
    io_time_s: Spread
    """Counts times latencies of both devices."""
    io_share: Spread
    """I/O time as a share of that without a fast tier."""


class AgainstReference(TypedDict):
    """The size that brings the slow tier's I/O down to a given amount."""

    what: str
    """What the amount is."""
    io_bytes: Count
    """The amount."""
    fast_tier_bytes: Count | None
    """The smallest size that reaches it; null if none does."""
    at: AtSize | None
    """What that size costs."""
    lowest_io_bytes: Count
    """The least I/O at any size."""


class CandidateSize(TypedDict):
    """An architecture at one size, at typical latencies."""

    fast_tier_bytes: Count
    """Size of the fast tier."""
    io_time_s: Amount
    """Counts times latencies of both devices."""
    io_share: Amount
    """I/O time as a share of that without a fast tier."""
    slow_bytes: Count
    """Bytes read from and written to the slow device."""
    fast_bytes_written: Count
    """Bytes written to the fast device."""
    wear_fast: Amount | None
    """Share of the rated life of the fast device used up per day; null if unknown."""


class Candidate(TypedDict):
    """An architecture at every size."""

    architecture: str
    """The architecture."""
    mean_io_share: Amount
    """Mean over the sizes of the I/O time as a share of that without a fast tier."""
    sizes: list[CandidateSize]
    """The costs of the candidate at each size."""


class Moved(TypedDict):
    """I/O with the recorded pages."""

    io_time_s: Spread
    """Counts times latencies of both devices."""
    slow_bytes: Count
    """Bytes read from and written to the slow device."""


class AdviceAt4KiB(TypedDict):
    """The costs without a fast tier, and of the choice for today, with the recorded pages."""

    footprint_bytes: Count
    """Bytes of all pages."""
    alone: Moved
    """The slow device without a fast tier."""
    today: Moved | None
    """The choice for today; null if there is none."""


class Advice(TypedDict):
    """Which swap architecture to take on two devices, and how large its fast tier should be."""

    schema: str
    """Name and version of this layout."""
    pagewise: str
    """Version of pagewise."""
    trace: str
    """Name of the recording's file."""
    losses: list[Loss]
    """What the recording lost."""
    duration_s: Amount | None
    """Seconds from the first event to the last; null without a clock."""
    evidence: EvidenceResult
    """Whether the recording can carry a size."""
    footprint_bytes: Count
    """Bytes of all pages."""
    page_bytes: Count
    """Bytes of a page."""
    fast: Device
    """The fast device."""
    slow: Device
    """The slow device."""
    machine: Machine | None
    """The recorded machine; null if the recording does not say."""
    defaults: list[Taken]
    """Options that follow from the recorded machine."""
    memory: BoardMemory | None
    """The memory that the fast tier lives in; null if it is a device of its own."""
    write_amplification: Spread
    """Bytes that a device writes for each byte it is given, assumed."""
    alone: Alone
    """The slow device without a fast tier."""
    architecture: ChosenArchitecture
    """The best of all architectures."""
    worth: AtSize | None
    """The size worth buying for it; null if none is."""
    today: Today | None
    """The best that stock Linux has, at its size; null if no size of it saves anything."""
    best: Best | None
    """The least I/O time at the size of `today`, whether it can be run or not."""
    reference: AgainstReference | None
    """The size that reaches a given amount of I/O; null if none was given."""
    candidates: list[Candidate]
    """Every architecture at every size, the best first."""
    settings: list[Setting]
    """Commands for `today`; empty without evidence."""
    warnings: list[str]
    """What speaks against the advice."""
    notes: list[str]
    """What the figures assume."""
    at_4_kib: NotRequired[AdviceAt4KiB]
    """The recorded pages; absent unless larger pages were asked for."""


class ForecastFaults(TypedDict):
    """Minor faults that were forecast."""

    base: Count
    """With 4 KiB."""
    chosen: Count
    """With the larger pages."""


class ForecastSaving(TypedDict):
    """CPU seconds that were forecast to be saved."""

    low: float
    """By fewer faults only."""
    high: float
    """By fewer faults and TLB misses, each miss at the full price of a walk."""


class Forecast(TypedDict):
    """What the counts of a program say that a page size saves."""

    minor_faults: ForecastFaults
    """Minor faults."""
    cpu_s_saved: ForecastSaving
    """CPU seconds."""


class PageSizeTrial(TypedDict):
    """What a page size saves a program, measured."""

    schema: str
    """Name and version of the trial's layout."""
    command: list[str]
    """The program and its arguments."""
    page_bytes: Count
    """The larger size."""
    rounds: Count
    """Runs of each page size."""
    base: dict[str, Spread]
    """Figures with 4 KiB, by measure: minor faults, CPU seconds, peak resident bytes."""
    chosen: dict[str, Spread]
    """Figures with the larger pages."""
    saved: dict[str, Spread]
    """Saving as a share of `base`, round by round."""
    kernel: dict[str, int]
    """Pages of this size that the kernel allocated and that it could not, on the whole machine."""
    undo_file: str
    """The file that held the old settings."""
    forecast: NotRequired[Forecast]
    """What was forecast; absent without a trace."""


class AdvicePageSize(TypedDict):
    """Which of a target's page sizes a program should have, its gain and cost, and settings."""

    schema: str
    """Name and version of this layout."""
    pagewise: str
    """Version of pagewise."""
    target: str
    """Where the size is set."""
    sizes_bytes: list[Count]
    """The sizes that the target has."""
    storage: str
    """The device that faults read."""
    memory_bytes: Count
    """Memory of the program."""
    footprint_bytes: Count
    """What the program touches, in pages of 4 KiB."""
    page_bytes: Count
    """The size to take."""
    gain: Spread
    """Time saved against 4 KiB, as a share."""
    ideal_bytes: Count
    """The best of all sizes."""
    regret: float
    """Gain of `ideal_bytes` minus `gain`, both over 4 KiB."""
    footprint_factor: Amount
    """Footprint in pages of this size by that in pages of 4 KiB."""
    time_ns: dict[str, Amount]
    """Nanoseconds per reference, by page size."""
    unjudged_bytes: list[Count]
    """Sizes too large for this memory to be judged."""
    settings: list[Setting]
    """Commands that set the size."""
    notes: list[str]
    """What stands between the figures and the machine."""
    host_page_bytes: NotRequired[Count]
    """With nested page walks: the smallest page of the host with which the gain is reached."""
    verification: NotRequired[PageSizeTrial]
    """The measurement; absent without `--verify`."""


class ProgramPages(TypedDict):
    """The program in pages."""

    references: Count
    """References that it made."""
    steps: Count
    """References that the filter let through."""
    footprint_bytes: Count
    """The memory that the program touches, in pages of 4 KiB."""
    footprint_factors: dict[str, Amount]
    """Footprint by page size, as a multiple of that in pages of 4 KiB."""


class HardwareTimes(TypedDict):
    """Times of the processor and the kernel, and the size of its TLB."""

    tlb_ns: Amount
    """A lookup of the first level."""
    second_tlb_ns: Amount
    """A lookup of the second level."""
    dram_ns: Amount
    """One access of memory."""
    tlb_entries: Count
    """Entries of the first level."""
    tlb_ways: Count
    """Entries of a set of the first level; 0 if it is fully associative."""
    second_tlb_entries: Count
    """Entries of the second level."""
    second_tlb_ways: Count
    """Entries of a set of the second level; 0 if it is fully associative."""
    fault_ns: Amount
    """The kernel's part of a fault."""
    zero_ns_per_byte: Amount
    """Clearing a byte of a new page."""


class AssumedTerms(TypedDict):
    """What counts."""

    references: Literal["memory", "cpu"]
    """References that miss a filter of 64 blocks of 512 bytes, or all of them."""
    cold: str
    """What first touches cost."""
    tlb_levels: Count
    """Levels of the TLB."""
    readahead_bytes: Count
    """What a fault reads at once; 0 is a page."""
    walk: NotRequired[Literal["native", "nested"]]
    """Whether page walks are those of the machine itself or of a virtual machine."""
    walk_levels: NotRequired[Count]
    """Levels of the page tables."""
    cached_levels: NotRequired[Count]
    """Upper levels that the processor's page-walk caches hold."""


class Assumed(TypedDict):
    """What the answer takes for granted."""

    storage: str
    """The device that faults read."""
    hardware: HardwareTimes
    """Times of the processor and the kernel."""
    terms: AssumedTerms
    """What counts."""
    model: str
    """How counts become rates."""
    margin: Share
    """How much less memory a size must bear."""


class MemoryTimes(TypedDict):
    """Time over page size with one memory, in nanoseconds per reference."""

    memory_bytes: Count
    """The memory."""
    share: Amount
    """The memory as a share of the footprint in pages of 4 KiB."""
    sizes_bytes: list[Count]
    """The page sizes judged; the lists below have a figure for each."""
    translation_ns: list[Amount]
    """Address translation."""
    data_ns: list[Amount]
    """Reading data, faults included."""
    first_touch_ns: list[Amount]
    """First touches, a part of `data_ns`."""
    paper_ns: list[Amount] | None
    """The sum as the paper's fit has it; null with too few sizes."""
    sampled_ns: list[Amount] | None
    """The sum as the fit through sampled points has it; null with too few sizes."""


class PageSize(TypedDict):
    """Which page size a program should have, and its time over page sizes and memories."""

    schema: str
    """Name and version of this layout."""
    pagewise: str
    """Version of pagewise."""
    trace: str
    """The path of the trace."""
    program: ProgramPages
    """The program in pages."""
    assumed: Assumed
    """What the answer takes for granted."""
    memory_bytes: Count
    """Memory of the program."""
    advice: AdvicePageSize
    """The size to take."""
    memories: list[MemoryTimes]
    """Time over page size, by memory."""
    heat: NotRequired[AccessHeat | None]
    """References that missed the filter of the trace, by place in the trace and address; absent in
    files of an earlier pagewise."""


class AdvicePageSizeResult(AdvicePageSize):
    """Which of a target's page sizes a program should have, its gain and cost, and settings.

    `pagewise advise pagesize` also prints what [page-size](#page-size) has.
    """

    trace: NotRequired[str]
    """The path of the trace; absent in what `advise_page_size` returns, as the fields below."""
    program: NotRequired[ProgramPages]
    """The program in pages."""
    assumed: NotRequired[Assumed]
    """What the answer takes for granted."""
    advice: NotRequired[AdvicePageSize]
    """The fields of this result that are not marked *, and `verification`."""
    memories: NotRequired[list[MemoryTimes]]
    """Time over page size, by memory."""
    heat: NotRequired[AccessHeat | None]
    """References that missed the filter of the trace, by place in the trace and address."""


class CountsByPageSize(TypedDict):
    """LRU misses by page size."""

    cold: dict[str, Count]
    """First references to a page, by page size."""
    faults: dict[str, dict[str, Count]]
    """Page faults, by page size and frames."""
    tlb_misses: dict[str, dict[str, Count]]
    """Misses of a first TLB, by page size and entries, or ENTRIESxWAYS."""


class CurvesResult(CountsByPageSize, CountedReferences):
    """TLB misses and page faults of a program over page sizes."""

    schema: str
    """Name and version of this layout."""
    trace: str
    """The path of the trace."""
    references: Count
    """References that were counted: all but the first `from_reference`."""
    steps: Count
    """References counted that miss a filter of 64 blocks of 512 bytes, of all kinds."""
    from_reference: Count
    """References at the start that were not counted; they fill TLBs and memories."""
    exact_from: Count
    """Frames or entries from which counts are exact; with fewer they are lower bounds."""
    lower_bounds: dict[str, list[str]]
    """First TLBs that may miss more often than was counted, by page size."""
    minor_faults: dict[str, MinorFaults] | None
    """Minor faults with ample memory, by bytes of a huge page; null if the trace has no
    mappings."""
    heat: AccessHeat | None
    """References that missed the filter of the trace, by place in the trace and address, of the
    whole trace."""
    pages: dict[str, Count]
    """Distinct pages, by page size."""
    write_backs: dict[str, dict[str, Count]]
    """Dirty pages evicted, by page size and frames."""
    second_tlb_misses: dict[str, dict[str, Count]]
    """Misses of a second TLB, by page size and ENTRIESxWAYS."""
    policy_faults: dict[str, dict[str, dict[str, Count]]]
    """Page faults under other policies, by page size, policy and frames: close, not exact."""
    read_ahead: dict[str, dict[str, dict[str, ReadAheadFaults]]]
    """Memories that read ahead, by page size, pages of the window and frames."""
    by_kind: dict[str, CountsByPageSize]
    """The counts by what a reference does: instruction, read, write."""


class ReportResult(TypedDict):
    """What a report holds."""

    schema: str
    """Name and version of this layout."""
    path: str
    """The HTML file."""
    bytes: Count
    """The size of the report."""
    panels: list[str]
    """The panels of the report, in order."""
    losses: dict[str, list[Loss]]
    """What each recording lost, by its name, without recordings that lost nothing."""
