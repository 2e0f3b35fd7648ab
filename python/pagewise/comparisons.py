"""Results of sweeps, studies and `make bench-lazy`, field by field."""

from __future__ import annotations

from typing import NotRequired, TypeAlias, TypedDict

from pagewise.fleet import Fleet
from pagewise.ranges import Amount, Count
from pagewise.types import Loss


class FailedCell(TypedDict):
    """What a cell without an outcome asked, and its error."""

    trace: str
    """Name of the trace."""
    architecture: NotRequired[str]
    """The swap architecture; absent in a cell of a policy."""
    fast_tier_bytes: NotRequired[Count]
    """Size of the fast tier."""
    fast: NotRequired[str]
    """The fast device."""
    slow: NotRequired[str]
    """The slow device."""
    profile: NotRequired[str | None]
    """The profile, if one was asked for."""
    page_bytes: NotRequired[Count]
    """Bytes of a page, if not 4 KiB."""
    readahead: NotRequired[str]
    """Treatment of readahead, if the spec sets it."""
    clean_evictions: NotRequired[str]
    """Treatment of clean evictions, if the spec sets it."""
    queueing: NotRequired[str]
    """Whether operations wait while the slow device is busy, if the spec sets it."""
    ranges: NotRequired[str]
    """Whether to replay over the range of latencies, if the spec sets it."""
    policy: NotRequired[str]
    """The eviction policy; absent in a cell of an architecture."""
    size: NotRequired[str]
    """Size of the memory as in the spec."""
    options: dict[str, str]
    """The options in the spec."""
    error: str | None
    """The reason why the cell has no outcome."""


class SweepResult(TypedDict):
    """What a sweep did; the cells are in its table."""

    schema: str
    """Name and version of this layout."""
    output: str
    """The table."""
    cells: Count
    """Cells of the grid."""
    kept: Count
    """Cells that an earlier run had computed."""
    computed: Count
    """Cells that were computed now."""
    failed: list[FailedCell]
    """What each failed cell asked, with the `error`."""
    fleet: NotRequired[Fleet]
    """The figures of the traces in folders and patterns, and their spread; absent if the spec names
    only files."""


class SweepCell(TypedDict):
    """A cell of a sweep: a row of its table. Cells of policies have null in the columns of
    architectures, and the reverse; cells that failed have no figures."""

    key: str
    """Identifies the cell: a digest of all that its outcome depends on."""
    trace: str
    """Name of the trace."""
    trace_sha256: str
    """sha256 of the trace."""
    seed: Count | None
    """Seed of a generated trace."""
    architecture: str | None
    """The swap architecture."""
    profile: str | None
    """The profile, if one was asked for."""
    options: str | None
    """The options in the spec, as JSON text."""
    fast_tier_bytes: Count | None
    """Size of the fast tier."""
    fast: str | None
    """The fast device."""
    slow: str | None
    """The slow device."""
    fast_reads: Count | None
    """Pages read from the fast tier."""
    fast_writes: Count | None
    """Pages written to the fast tier."""
    fast_bytes_written: Count | None
    """Bytes written to the fast tier."""
    slow_reads: Count | None
    """Pages read from the slow tier."""
    slow_writes: Count | None
    """Pages written to the slow tier."""
    promotions: Count | None
    """Known pages that entered the fast tier."""
    demotions: Count | None
    """Pages that lost their frame in the fast tier to another page."""
    io_time_s: Amount | None
    """Counts times latencies over both devices."""
    stall_time_s: Amount | None
    """The part of the I/O time between a swap-in and its completion."""
    wear_fast: Amount | None
    """Share of the fast device's rated life that a day of this trace uses; null if unknown."""
    wear_slow: Amount | None
    """Share of the slow device's rated life that a day of this trace uses; null if unknown."""
    error: str | None
    """Why the cell has no outcome."""
    outcome: str | None
    """The result of `pagewise simulate` or `pagewise misses`, as JSON text."""
    policy: str | None
    """The eviction policy."""
    size: str | None
    """Size of the memory as in the spec."""
    frames: Count | None
    """Size of the memory in frames."""
    requests: Count | None
    """Accesses of the trace."""
    pages: Count | None
    """Distinct pages accessed."""
    misses: Count | None
    """Misses of the policy."""
    miss_ratio: Amount | None
    """Misses per access; null without accesses."""


class SweepTable(TypedDict):
    """The table of a sweep, row by row. The file is Parquet, with the columns of a cell."""

    cells: list[SweepCell]
    """Every cell of the grid."""


Scalar: TypeAlias = str | int | float | None
"""A value of a table; None if it was not measured."""


class StudyFigure(TypedDict):
    """A figure of a study as points."""

    name: str
    """The name of the figure, also that of its CSV file."""
    title: str
    """The title of the figure."""
    x_label: str
    """Label of the x axis."""
    y_label: str
    """Label of the y axis."""
    is_categorical: bool
    """Whether the values on the x axis are names."""
    is_stacked: bool
    """Whether the bars of one name are stacked."""
    is_joined: bool
    """Whether the names on the x axis have an order, so that lines join their points."""
    has_log_y: bool
    """Whether the y axis is logarithmic."""
    chart: str
    """Title of the chart that draws it; figures of one chart are its views."""
    view: str
    """Name of the view in that chart."""
    group: str
    """Charts of one group stand together; empty for a chart by itself."""
    columns: list[str]
    """Names of the columns."""
    rows: list[list[Scalar]]
    """The points, one row each."""


class StudyVerdict(TypedDict):
    """Whether a statement of a paper holds."""

    check: str
    """Name of the check."""
    part: str
    """Part of the check; empty if it has one part."""
    data: str
    """The data it was checked on."""
    statement: str
    """The statement."""
    paper: str
    """The figure in the paper."""
    ours: str
    """The range of our figure over all readings."""
    verdict: str
    """`holds`, `does not hold`, `needs a reading` or `not measurable`."""
    needs: dict[str, str]
    """The fewest choices under which it always holds."""
    readings: Count
    """Readings of what the paper leaves open."""
    holding: Count
    """Readings under which it holds."""
    why: str
    """The reason for the verdict."""


class StudyTable(TypedDict):
    """A table of a study."""

    name: str
    """The name of the table."""
    title: str
    """The title of the table."""
    note: str
    """How to read it."""
    columns: list[str]
    """Names of the columns, with units."""
    shares: list[str]
    """The columns whose numbers are shares."""
    rows: list[list[Scalar]]
    """The rows of the table; null where nothing was measured."""


class StudyCell(TypedDict):
    """Page operations of an architecture on a workload of a study, at one size of the fast tier."""

    workload: str
    """The recording or the scenario."""
    seed: Count | None
    """The seed of the scenario; null for a recording."""
    architecture: str
    """Name of the architecture."""
    options: dict[str, str]
    """The options that the study sets; others have their defaults."""
    fast_tier_mib: Count
    """Size of the fast tier in MiB."""
    fast_reads: Count
    """Pages read from the fast tier."""
    fast_writes: Count
    """Pages written to the fast tier."""
    slow_reads: Count
    """Pages read from the slow tier."""
    slow_writes: Count
    """Pages written to the slow tier."""
    fast_hit_share: float
    """Share of the swap-ins that the fast tier answers."""
    io_time_share_of_flash: float | None
    """I/O time over that of the slow tier only, at 90/40 us and 4/5 us; null if that is 0."""


class LaunchParts(TypedDict):
    """Mean seconds of a launch in short memory beyond those in ample memory, by what it waits for.

    The parts add up to ``slower_s``; a part is null if the runs did not measure it.
    """

    kill_wait_s: float | None
    """Kills, until the victims' memory was back."""
    direct_reclaim_s: float | None
    """The application's own reclaim."""
    kswapd_s: float | None
    """Processor time of kswapd."""
    refault_s: float | None
    """Waits for storage: mostly file pages that are read again, and pages from a swap area on a
    disk."""
    swapin_s: float | None
    """Swap-ins, as the kernel's delay accounting counts them: since Linux 5.17 without the wait for
    a disk."""
    cpu_s: float | None
    """The application's processor time, and its waits for a processor."""
    rest_s: float
    """What is left of ``slower_s``; negative if parts overlap. Waits and processor time are sums
    over all threads, and direct reclaim is also processor time."""


class StudyLaunch(TypedDict):
    """Cold launches of an application in a run with short memory, beside those in ample memory."""

    run: str
    """The run with short memory."""
    app: str
    """The application."""
    launches: Count
    """Launches in short memory."""
    slowdown: float
    """The median launch in short memory over the median launch in ample memory."""
    slower_s: float
    """The mean launch in short memory less that in ample memory."""
    free_before_bytes: Count | None
    """Median of the free memory before a launch in short memory; null if it was not measured."""
    parts: LaunchParts
    """What the launches wait for."""


class StudyResult(TypedDict):
    """The result of a study: figures, tables, verdicts, sensitivity and inputs."""

    schema: str
    """Name and version of this layout."""
    study: str
    """Name of the study."""
    title: str
    """The title of the study."""
    about: str
    """The claim of the paper, and how the study checks it."""
    pagewise: str
    """Version of pagewise."""
    command: str
    """The command that makes it."""
    seeds: list[Count]
    """Seeds of its random draws."""
    seeded: str
    """What the seeds are for."""
    inputs: dict[str, str]
    """sha256 of each input file, by its name."""
    verdicts: list[StudyVerdict]
    """Verdicts on the statements of the paper."""
    figures: list[StudyFigure]
    """The figures of the study."""
    tables: list[StudyTable]
    """The tables of the study."""
    sensitivity: list[dict[str, Scalar]]
    """The effect of each choice that the papers leave open; all rows have the same fields."""
    losses: dict[str, list[Loss]]
    """What each recording lost, by its name, without recordings that lost nothing."""
    invalid_runs: NotRequired[dict[str, list[str]]]
    """The reasons of each invalid run that was used, by the name of the run. Verdicts, tables and
    figures are then marked in every row."""
    launches: NotRequired[list[StudyLaunch]]
    """The applications of the study `launch`, by run."""
    cells: NotRequired[list[StudyCell]]
    """The cells that the figures show, in studies that count them."""
    unjudged_runs: NotRequired[list[str]]
    """Names of the runs that do not say whether they can carry a verdict, made before runs judged
    themselves."""


class Interval(TypedDict):
    """A median and its 95 % interval."""

    low: float
    """Lower end of the interval."""
    typical: float
    """The median."""
    high: float
    """Upper end of the interval."""


class LoadRange(TypedDict):
    """The load average of the machine over some runs."""

    low: float
    """The lowest."""
    high: float
    """The highest."""


class BenchRow(TypedDict):
    """A program under one allocator; a figure is null if no run measured it."""

    program: str
    """The program."""
    allocator: str
    """The allocator."""
    is_ours: bool
    """Whether the allocator is the preload library of pagewise."""
    runs: Count
    """Runs that succeeded."""
    failure: str | None
    """Why a run failed; null if none did."""
    traps: Interval | None
    """Page-fault traps."""
    cpu_s: Interval | None
    """CPU time in seconds."""
    cpu_ratio: NotRequired[Interval | None]
    """CPU time divided by that of glibc in the same round; absent in earlier results."""
    steps_per_s: Interval | None
    """Steps per second."""
    peak_bytes: Interval | None
    """Most resident memory."""
    freed_bytes: Interval | None
    """Resident memory when the program has freed its blocks."""
    idle_bytes: Interval | None
    """Resident memory after some idle seconds."""
    response_s: NotRequired[Interval | None]
    """Seconds from a swipe to its last frame; absent for other programs than the browser."""
    fault_share: NotRequired[Interval | None]
    """Share of the response time that faults take; absent for other programs."""
    call_share: NotRequired[Interval | None]
    """Share of the response time that calls of mmap and its relatives take; absent for other
    programs."""


class BenchPressure(TypedDict):
    """How an allocator comes through a burst of allocations under a memory limit."""

    allocator: str
    """The allocator."""
    runs: Count
    """Runs that came to their end."""
    survived: Count
    """Runs whose program was not killed."""
    failure: str | None
    """Why a run failed; null if none did."""
    burst_s: Interval | None
    """Seconds that the burst took."""


class BenchFork(TypedDict):
    """What a fork costs a program under one allocator; medians, null if nothing was measured."""

    allocator: str
    """The allocator."""
    failure: str | None
    """Why a run failed; null if none did."""
    warm_s: float | None
    """CPU time of a block before the fork."""
    fork_s: float | None
    """CPU time of the fork."""
    shared_s: float | None
    """CPU time of a block after the fork."""
    shared_traps: float | None
    """Traps of a block after the fork."""


class BenchTimeline(TypedDict):
    """One swipe under one allocator, frame by frame."""

    allocator: str
    """The allocator."""
    frames: list[tuple[Amount, Count]]
    """Seconds since the input event, and traps so far."""


class BenchClaim(TypedDict):
    """A goal of lazy unmapping, and whether it is reached."""

    what: str
    """What is compared."""
    target: str
    """The goal."""
    measured: str
    """The figure that was measured."""
    is_reached: bool | None
    """Whether the value reaches the goal; null if nothing was measured."""


class BenchLazy(TypedDict):
    """Lazy unmapping beside other allocators, as `make bench-lazy` measures it."""

    schema: str
    """Name and version of this layout."""
    place: str
    """The machine and the commit."""
    load: LoadRange
    """Load average over all runs."""
    loads: dict[str, LoadRange]
    """Load average by part of the comparison."""
    rows: list[BenchRow]
    """Every program under each allocator."""
    pressure: list[BenchPressure]
    """Who survives a burst of allocations."""
    forks: list[BenchFork]
    """What a fork costs."""
    timelines: list[BenchTimeline]
    """One swipe of some allocators, frame by frame."""
    claims: list[BenchClaim]
    """The goals."""
