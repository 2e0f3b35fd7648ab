"""`pagewise simulate`: the cost of one swap architecture on a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pagewise import _core, catalog, questions
from pagewise.advice.costs import Devices
from pagewise.commands.options import (
    As,
    Format,
    Json,
    Map,
    Options,
    PageSize,
    TracePath,
    name_values,
    opened,
    tell_losses,
)
from pagewise.grids.simulations import OF_THE_REPLAY
from pagewise.terminal import facts, figures, show, show_json, watched
from pagewise.units import (
    format_count,
    format_range,
    format_seconds,
    format_share,
    format_size,
    format_years,
    parse_size,
)

EXAMPLES = (
    "pagewise simulate trace.parquet --architecture adaptive --fast-tier 256MiB "
    "--fast zram-lz4 --slow ufs-3.1",
    "pagewise simulate trace.parquet --architecture hybrid --option entry_bit=0 --fast-tier 64MiB "
    "--fast 4/5us --slow 90/40us",
    "pagewise simulate trace.parquet --architecture priority --fast-tier 256MiB --fast zram-lz4 "
    "--slow ufs-3.1 --page-size 16KiB",
)


def run(
    trace: TracePath,
    architecture: Annotated[
        str,
        typer.Option(metavar="NAME", help="Swap architecture; see `pagewise list architectures`."),
    ],
    fast_tier: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of the fast tier, e.g. 256MiB; 0: none.")
    ],
    fast: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name from `pagewise devices`, or READ/WRITE times such as 4/5us.",
        ),
    ],
    slow: Annotated[
        str, typer.Option(metavar="DEVICE", help="Slow device, e.g. ufs-3.1 or 90/40us.")
    ],
    option: Options = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="faithful|practical",
            help="Set all options as in the paper, or as a real device would.",
        ),
    ] = None,
    page_size: PageSize = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Replay a recording on two tiers of swap, and count reads, writes, time and wear.

    Counts are pages of 4 KiB, or --page-size. Life is the time until the device's rated writes are
    used up, if this traffic continues day and night, with a write amplification of 2 (1 to 5)
    inside the device. The wear in --json is the share of the rated writes used per day, without
    write amplification.
    """
    source = opened(trace, format, as_, map_)
    values = name_values(option)
    with watched("simulating") as progress:
        result = questions.simulate(
            source,
            architecture=architecture,
            fast_tier=fast_tier,
            option=values,
            profile=profile,
            page_size=page_size,
            fast=fast,
            slow=slow,
            progress=progress,
        )
    tell_losses(result)
    if json:
        show_json({**result, "trace_sha256": source.sha256()})
        return
    with watched("flash only") as progress:
        alone = questions.simulate(
            source,
            architecture=catalog.baseline(),
            fast_tier=0,
            fast=fast,
            slow=slow,
            page_size=page_size,
            option={name: values[name] for name in OF_THE_REPLAY if name in values},
            progress=progress,
        )
    devices = Devices(_core.device(fast), _core.device(slow))
    show(*described(result, alone, parse_size(fast_tier), devices))


def described(
    result: Mapping[str, Any], alone: Mapping[str, Any], fast_tier_bytes: int, devices: Devices
) -> list[Any]:
    """The outcome as tables, compared with the slow device alone."""
    tiers = [
        [
            tier,
            format_count(result[tier]["reads"]),
            format_count(result[tier]["writes"]),
            life(result, tier, devices),
        ]
        for tier in ("fast", "slow")
    ]
    tiers.append(
        [
            "slow device alone",
            format_count(alone["slow"]["reads"]),
            format_count(alone["slow"]["writes"]),
            life(alone, "slow", devices),
        ]
    )
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
                *[("note", note) for note in result.get("notes", [])],
            ]
        ),
        *larger_pages(result, alone),
        "",
        figures(["option", "value", "meaning"], options(result), words=3),
    ]


def larger_pages(result: Mapping[str, Any], alone: Mapping[str, Any]) -> list[Any]:
    """The cost of larger pages and of 4 KiB, with the fast tier and without it."""
    if "at_4_kib" not in result:
        return []
    with_tier = (result["architecture"], result)
    found = [with_tier] if result["fast_bytes"] else []
    rows = [
        moved(name, pages)
        for name, outcome in [*found, ("slow device alone", alone)]
        for pages in (outcome["at_4_kib"], outcome)
    ]
    return ["", figures(["", "pages of", "read", "written", "I/O time"], rows)]


def moved(name: str, outcome: Mapping[str, Any]) -> list[str]:
    """The bytes that both devices move with pages of one size, and their I/O time."""
    page_bytes = outcome["page_bytes"]
    read, written = (
        format_size(sum(outcome[tier][what] for tier in ("fast", "slow")) * page_bytes)
        for what in ("reads", "writes")
    )
    alike = {"low": outcome["io_time_s"], "high": outcome["io_time_s"]}
    times = (outcome["ranges"] or {"io_time_s": alike})["io_time_s"]
    time = format_range({"typical": outcome["io_time_s"], **times}, format_seconds)
    return [name, format_size(page_bytes), read, written, time]


def options(result: Mapping[str, Any]) -> list[list[str]]:
    """Every option with its value and its meaning."""
    meanings = {
        option["name"]: option["meaning"]
        for row in _core.architectures()
        if row["name"] == result["architecture"]
        for option in row["options"]
    }
    replay = {
        "readahead": "whether recorded readahead counts as reads of the slow tier",
        "clean_evictions": "whether page-outs of unmodified pages are inferred",
    }
    values = {name: str(value) for name, value in result["options"].items()}
    values |= {name: str(result[name]) for name in replay}
    meanings |= replay
    return [[name, value, meanings.get(name, "")] for name, value in values.items()]


def life(result: Mapping[str, Any], tier: str, devices: Devices) -> str:
    """How long a device lasts at this traffic, computed as in `pagewise advise`."""
    years = devices.life_years(result, tier)
    if years is None:
        return "unknown" if devices.wear(result, tier) is None else "nothing written"
    return format_range(years, format_years)


def beside(result: Mapping[str, Any], alone: Mapping[str, Any], name: str) -> str:
    """A time with its range, and its share of the time that the slow device alone takes.

    The range covers the latencies of the devices.
    """
    alike = {"low": result[name], "high": result[name]}
    times = {"typical": result[name], **(result["ranges"] or {name: alike})[name]}
    share = result[name] / alone[name] if alone[name] else None
    return f"{format_range(times, format_seconds)}, {format_share(share)} of the slow device alone"
