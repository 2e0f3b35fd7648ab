"""`pagewise simulate`: the cost of one swap architecture on a recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from pagewise import _core, catalog, questions
from pagewise.advice.costs import TIERS, Devices, Tier
from pagewise.commands import as_recorded
from pagewise.commands.fleets import (
    FleetAddress,
    FleetEngine,
    FleetJobs,
    FleetOptions,
    FleetReport,
    show_fleet,
)
from pagewise.commands.options import (
    As,
    Format,
    Json,
    Map,
    MemoryLimit,
    Options,
    PageSize,
    SampleOption,
    TracePath,
    name_values,
    opened,
    tell_losses,
)
from pagewise.errors import UsageError
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures, figures_of_simulation
from pagewise.grids.simulations import OF_THE_REPLAY
from pagewise.recording import Progress, Trace, read
from pagewise.samples import count_within, sample_in_words
from pagewise.terminal import Part, facts, figures, show, show_json, watched
from pagewise.units import (
    DAYS_PER_YEAR,
    format_count,
    format_range,
    format_seconds,
    format_share,
    format_size,
    format_years,
    parse_size,
)

if TYPE_CHECKING:
    from pagewise.answers import Spread
    from pagewise.types import Simulate, SimulatedAt4KiB, TimeRange

Time: TypeAlias = Literal["io_time_s", "stall_time_s"]
EXAMPLES = (
    "pagewise simulate trace.parquet --architecture adaptive --fast-tier 256MiB "
    "--fast zram-lz4 --slow ufs-3.1",
    "pagewise simulate trace.parquet --architecture hybrid --option entry_bit=0 --fast-tier 64MiB "
    "--fast 4/5us --slow 90/40us",
    "pagewise simulate trace.parquet --architecture priority --fast-tier 256MiB --fast zram-lz4 "
    "--slow ufs-3.1 --page-size 16KiB",
    "pagewise simulate trace.parquet --architecture hybrid --fast-tier 128MiB --fast zram-lz4 "
    "--slow emmc-5.1 --option readahead=kernel --option queueing=yes",
    "pagewise simulate big.parquet --architecture hierarchical --fast-tier 2GiB --fast zram-lz4 "
    "--slow ufs-3.1 --sample 1%",
    "pagewise simulate swapd.pgr --as-recorded --moves moves.csv",
    "pagewise simulate fleet --architecture adaptive --fast-tier 256MiB --fast zram-lz4 "
    "--slow ufs-3.1 --report fleet.html",
)
REQUEST = ("architecture", "fast_tier", "fast", "slow")
"""What a simulation needs beside the recording, unless --as-recorded takes it from there."""


def require_request(context: typer.Context, is_as_recorded: bool) -> bool:
    """Makes `REQUEST` required without --as-recorded, so that one message names all missing."""
    for param in context.command.params:
        if param.name in REQUEST and not is_as_recorded:
            param.required = True
    return is_as_recorded


def run(
    trace: TracePath,
    architecture: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Swap architecture; see `pagewise list architectures`."),
    ] = None,
    fast_tier: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of the fast tier, e.g. 256MiB; 0: none."),
    ] = None,
    fast: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name from `pagewise devices`, or READ/WRITE times such as 4/5us.",
        ),
    ] = None,
    slow: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="Slow device, e.g. ufs-3.1 or 90/40us.")
    ] = None,
    option: Options = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="faithful|practical",
            help="Set all options as in the paper, or as a real device would.",
        ),
    ] = None,
    page_size: PageSize = None,
    sample: SampleOption = None,
    memory_limit: MemoryLimit = None,
    as_recorded_: Annotated[
        bool,
        typer.Option(
            "--as-recorded",
            is_eager=True,
            callback=require_request,
            help="Decide a recording of `pagewise-agent swapd` again, with its own policy, sizes "
            "and latencies. The exit status is 1 if other pages move.",
        ),
    ] = False,
    moves: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --as-recorded: write each move as CSV, as `swapd --moves` does.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite the file of --moves or --report if it exists."),
    ] = False,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    report: FleetReport = None,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Replay a recording on two tiers of swap, and count reads, writes, time and wear.

    Needs --architecture, --fast-tier, --fast and --slow, or --as-recorded.

    Counts are pages of 4 KiB, or --page-size. Life is the time until the device's rated writes are
    used up, if this traffic continues day and night, with a write amplification of 2 (1 to 5)
    inside the device. The wear in --json is the share of the rated writes used per day, without
    write amplification. With --sample all figures are estimates, with 95 % confidence intervals.
    For a folder or a pattern in quotes, show how the figures are spread over its recordings.
    """
    options = FleetOptions(report, force, engine, address, jobs)
    if as_recorded_:
        others = {
            "--architecture": architecture,
            "--fast-tier": fast_tier,
            "--fast": fast,
            "--slow": slow,
            "--option": option,
            "--profile": profile,
            "--page-size": page_size,
            "--sample": sample,
            "--memory-limit": memory_limit,
            "--format": format,
            "--as": as_,
            "--map": map_,
            "--report": report,
        }
        refuse_beside_recorded(others)
        options.refuse_engine()
        if is_many(trace):
            raise UsageError("--as-recorded takes one recording, neither a folder nor a pattern")
        as_recorded.run(trace, moves, force=force, json=json)
        return
    if moves is not None:
        raise UsageError("--moves needs --as-recorded")
    # `require_request` has refused what is missing.
    assert architecture is not None and fast_tier is not None
    assert fast is not None and slow is not None
    values = name_values(option)
    asked = Asked(
        architecture, fast_tier, fast, slow, values, profile, page_size, sample, memory_limit
    )
    if is_many(trace):

        def figures_of(path: str) -> Figures:
            source = read(path, format=format, as_=as_, map=map_)
            return asked.figures(source)

        show_fleet("simulate", [trace], figures_of, options, json=json)
        return
    if force and report is None:
        raise UsageError("--force needs --moves or --report")
    if report is not None:
        hint = "`pagewise report` draws the result that --json prints"
        options.refuse_for_single([trace], hint)
    options.refuse_engine()
    source = opened(trace, format, as_, map_)
    with watched("simulating") as progress:
        result = asked.of(source, progress)
    tell_losses(result["losses"])
    if json:
        show_json({**result, "trace_sha256": source.sha256()})
        return
    with watched("flash only") as progress:
        alone = asked.flash_only(source, progress)
    show(*described(result, alone, parse_size(fast_tier), asked.devices()))


@dataclass(frozen=True)
class Asked:
    """The simulation that the options ask for."""

    architecture: str
    fast_tier: str
    fast: str
    slow: str
    values: Mapping[str, str]
    profile: str | None
    page_size: str | None
    sample: str | None = None
    memory_limit: str | None = None

    def of(self, source: Trace, progress: Progress | None = None) -> Simulate:
        """The outcome for a recording."""
        return questions.simulate(
            source,
            architecture=self.architecture,
            fast_tier=self.fast_tier,
            option=self.values,
            profile=self.profile,
            page_size=self.page_size,
            sample=self.sample,
            memory_limit=self.memory_limit,
            fast=self.fast,
            slow=self.slow,
            progress=progress,
        )

    def flash_only(self, source: Trace, progress: Progress | None = None) -> Simulate:
        """The outcome without a fast tier."""
        return questions.simulate(
            source,
            architecture=catalog.baseline(),
            fast_tier=0,
            fast=self.fast,
            slow=self.slow,
            page_size=self.page_size,
            sample=self.sample,
            memory_limit=self.memory_limit,
            option={name: self.values[name] for name in OF_THE_REPLAY if name in self.values},
            progress=progress,
        )

    def devices(self) -> Devices:
        """The descriptions of both devices."""
        return Devices(_core.device(self.fast), _core.device(self.slow))

    def figures(self, source: Trace) -> Figures:
        """The figures of a recording among many, at the typical latencies unless asked for."""
        asked = replace(self, values={"ranges": "no", **self.values})
        result = asked.of(source)
        years = self.devices().life_years(result.get("wear"), "slow")
        life_days = None if years is None else years["typical"] * DAYS_PER_YEAR
        return figures_of_simulation(result, asked.flash_only(source), life_days)


def refuse_beside_recorded(options: Mapping[str, object]) -> None:
    """Raises UsageError for options that the recording of a swap server has itself."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"--as-recorded takes policy, sizes and latencies from the recording, so it goes "
            f"without {', '.join(given)}"
        )


def described(
    result: Simulate, alone: Simulate, fast_tier_bytes: int, devices: Devices
) -> list[Part]:
    """The outcome as tables, compared with flash-only."""
    rows = [*((tier, result, tier) for tier in TIERS), ("flash-only", alone, TIERS[1])]
    tiers = [
        [name, *operations(outcome, tier), life(outcome, tier, devices)]
        for name, outcome, tier in rows
    ]
    return [
        f"{result['architecture']}, fast tier {format_size(fast_tier_bytes)}",
        "",
        figures(["tier", "pages read", "pages written", "life"], tiers),
        "",
        facts(
            [
                (
                    "promotions, demotions",
                    f"{format_count(result['promotions'])}, {format_count(result['demotions'])}",
                ),
                ("I/O time", beside(result, alone, "io_time_s")),
                ("stall time", beside(result, alone, "stall_time_s")),
                *waits(result, alone),
                *sampled(result),
                *[("note", note) for note in result.get("notes", [])],
            ]
        ),
        *larger_pages(result, alone),
        "",
        figures(["option", "value", "meaning"], options(result), words=3),
    ]


def operations(outcome: Simulate, tier: Tier) -> Iterator[str]:
    """The pages that a tier read and wrote; of a sample with half of the width of the interval."""
    counts, sample = outcome[tier], outcome.get("sample")
    error = sample and sample["error"][tier]
    yield count_within(counts["reads"], error and error["reads"])
    yield count_within(counts["writes"], error and error["writes"])


def sampled(result: Simulate) -> list[tuple[str, str]]:
    """The sample that the figures come from, and how exact the times are."""
    sample = result.get("sample")
    if not sample:
        return []
    error = sample["error"]
    return [
        ("sample", sample_in_words(sample)),
        ("error of I/O time", f"+/- {format_seconds(error['io_time_s'])}"),
        ("error of stall time", f"+/- {format_seconds(error['stall_time_s'])}"),
    ]


def waits(result: Simulate, alone: Simulate) -> list[tuple[str, str]]:
    """The time in the queue of the slow device, and the pages read ahead, if asked for."""
    found = []
    queue_time_s, ranges = result.get("queue_time_s"), result["ranges"]
    if queue_time_s is not None:
        times = spread(queue_time_s, None if ranges is None else ranges.get("queue_time_s"))
        found.append(("queue time", with_share(times, alone.get("queue_time_s") or 0.0)))
    pages = result.get("readahead_pages")
    if pages is not None:
        used = format_share(pages["used"] / pages["read"] if pages["read"] else None)
        found.append(("pages read ahead", f"{format_count(pages['read'])}, {used} of them used"))
    return found


def larger_pages(result: Simulate, alone: Simulate) -> list[Part]:
    """The cost of larger pages and of 4 KiB, with the fast tier and without it."""
    if "at_4_kib" not in result:
        return []
    with_tier = (result["architecture"], result)
    found = [with_tier] if result["fast_bytes"] else []
    rows = [
        moved(name, pages)
        for name, outcome in [*found, ("flash-only", alone)]
        for pages in (outcome.get("at_4_kib"), outcome)
        if pages is not None
    ]
    return ["", figures(["", "pages of", "read", "written", "I/O time"], rows)]


def moved(name: str, outcome: Simulate | SimulatedAt4KiB) -> list[str]:
    """The bytes that both devices move with pages of one size, and their I/O time."""
    page_bytes = outcome["page_bytes"]
    fast, slow = outcome["fast"], outcome["slow"]
    read = format_size((fast["reads"] + slow["reads"]) * page_bytes)
    written = format_size((fast["writes"] + slow["writes"]) * page_bytes)
    time = format_range(time_range(outcome, "io_time_s"), format_seconds)
    return [name, format_size(page_bytes), read, written, time]


def time_range(outcome: Simulate | SimulatedAt4KiB, name: Time) -> Spread:
    """A time with its range over the latencies of the devices, if that is known."""
    ranges = outcome["ranges"]
    return spread(outcome[name], None if ranges is None else ranges[name])


def spread(typical: float, over: TimeRange | None) -> Spread:
    """A time with its range, if that is known."""
    if over is None:
        return {"low": typical, "typical": typical, "high": typical}
    return {"low": over["low"], "typical": typical, "high": over["high"]}


def options(result: Simulate) -> list[list[str]]:
    """Every option with its value and its meaning."""
    meanings = {
        option["name"]: option["meaning"]
        for row in _core.architectures()
        if row["name"] == result["architecture"]
        for option in row["options"]
    }
    replay = {
        "readahead": "which pages are read ahead of their faults",
        "queueing": "whether operations wait while the slow device is busy",
        "clean_evictions": "whether page-outs of unmodified pages are inferred",
    }
    values = {name: str(value) for name, value in result["options"].items()}
    values |= {"readahead": result["readahead"], "clean_evictions": result["clean_evictions"]}
    if "queue_time_s" in result:
        values["queueing"] = "yes"
    meanings |= replay
    return [[name, value, meanings.get(name, "")] for name, value in values.items()]


def life(result: Simulate, tier: Tier, devices: Devices) -> str:
    """How long a device lasts at this traffic, computed as in `pagewise advise`."""
    wear = result.get("wear")
    years = devices.life_years(wear, tier)
    if years is None:
        return "unknown" if devices.wear(wear, tier) is None else "nothing written"
    return format_range(years, format_years)


def beside(result: Simulate, alone: Simulate, name: Time) -> str:
    """A time with its range, and its share of the time of flash-only.

    The range covers the latencies of the devices.
    """
    return with_share(time_range(result, name), alone[name])


def with_share(times: Spread, alone: float) -> str:
    """A time with its range, and its share of the time of flash-only."""
    share = times["typical"] / alone if alone else None
    return f"{format_range(times, format_seconds)}, {format_share(share)} of flash-only"
