"""`pagewise advise`: what to set, with the evidence and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from pagewise.commands.options import As, Format, Json, Map, TracePath, opened
from pagewise.terminal import facts, figures, show, show_json, watched
from pagewise.units import format_seconds, format_share, format_size

app = typer.Typer(help="Say what to set, with the evidence and the way back.", no_args_is_help=True)

EXAMPLES = (
    "pagewise advise swap examples/swap700.pgw.zst --fast zram-lz4 --slow ufs-3.1",
    "pagewise advise swap trace.parquet --fast 4/5us --slow 90/40us --reference 3.9GiB",
)


@app.callback()
def _group() -> None:
    """Say what to set, with the evidence and the way back."""


@app.command("swap", epilog="\n\n".join(f"Example: {example}" for example in EXAMPLES))
def swap(
    trace: TracePath,
    fast: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="Fast device: a name of `pagewise devices`, or READ/WRITE as 4/5us.",
        ),
    ],
    slow: Annotated[
        str, typer.Option(metavar="DEVICE", help="Slow device, likewise, e.g. ufs-3.1 or 90/40us.")
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="RESULT|SIZE",
            help="What the slow tier's I/O should come down to: the visit log or recording of a "
            "run without swap, a simulate --json result, or a size as 4GiB.",
        ),
    ] = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Say which swap architecture to take, how large, what it gains and wears, how to set it."""
    from pagewise.advice.swap import advise_swap

    with watched("advising") as progress:
        advice = advise_swap(
            opened(trace, format, as_, map_),
            fast=fast,
            slow=slow,
            reference=reference,
            progress=progress,
        )
    if json:
        show_json(advice)
        return
    show(*described(advice))


def described(advice: dict[str, Any]) -> list[Any]:
    """The advice as text and tables."""
    architecture, worth = advice["architecture"], advice["worth"]
    parts: list[Any] = [facts([*_choice(advice), *_sizes(advice)]), "", _curves(advice)]
    for setting in advice["settings"]:
        parts += [
            "",
            f"{setting['title']}. {setting['note']}",
            setting["apply"],
            f"undo: {setting['undo']}",
        ]
    if worth and architecture["stock_linux"] is None:
        parts += [
            "",
            f"Stock Linux has no {architecture['name']}: it needs the pager of a later pagewise. "
            f"Until then the first setting above gives {architecture['meanwhile']}, whose I/O time "
            f"differs by {_percent(worth['stock_linux']['regret'])} at this size.",
        ]
    return [*parts, *(f"note: {note}" for note in advice["notes"])]


def _choice(advice: dict[str, Any]) -> list[tuple[str, str]]:
    architecture, alone = advice["architecture"], advice["alone"]
    holds = architecture["holds_in"]
    return [
        (
            "architecture",
            f"{architecture['name']} "
            f"(best in {holds['combinations']} of {holds['of']} latency combinations)",
        ),
        (
            "on stock Linux",
            architecture["stock_linux"] or f"not available; meanwhile {architecture['meanwhile']}",
        ),
        ("footprint", format_size(advice["footprint_bytes"])),
        ("I/O time, slow device alone", _seconds(alone["io_time_s"])),
    ]


def _sizes(advice: dict[str, Any]) -> list[tuple[str, str]]:
    worth, reference = advice["worth"], advice["reference"]
    if worth is None:
        rows = [("fast tier worth buying", "none: no size saves I/O time on this recording")]
    else:
        cheaper = worth["next_cheaper"]
        rows = [
            ("fast tier worth buying", format_size(worth["fast_tier_bytes"])),
            (
                "I/O time with it",
                f"{_seconds(worth['io_time_s'])}, "
                f"{_share(worth['io_share'])} of the slow device alone",
            ),
            (
                "wear per day, fast and slow",
                f"{_wear(worth['wear_fast'])}; {_wear(worth['wear_slow'])}",
            ),
            (
                "next cheaper choice",
                f"{_cheaper(cheaper)}: {_percent(cheaper['regret'])} more I/O time",
            ),
        ]
    if reference is not None:
        rows.append((f"to reach {format_size(reference['io_bytes'])} of I/O", _reached(reference)))
    return rows


def _reached(reference: dict[str, Any]) -> str:
    """The size that reaches the reference, or how close the largest comes."""
    size = reference["fast_tier_bytes"]
    if size is None:
        least = format_size(reference["lowest_io_bytes"])
        return f"no size is enough; the least is {least} ({reference['what']})"
    return f"{'no fast tier' if size == 0 else format_size(size)} ({reference['what']})"


def _curves(advice: dict[str, Any]) -> Any:
    """I/O time as a share of the slow device's alone, by architecture and size."""
    sizes = [row["fast_tier_bytes"] for row in advice["candidates"][0]["sizes"]]
    step = max(1, -(-len(sizes) // 8))
    shown = range(len(sizes) - 1, -1, -step)[::-1]
    return figures(
        ["I/O time, share of slow alone", *(format_size(sizes[index]) for index in shown)],
        [
            [
                candidate["architecture"],
                *(format_share(candidate["sizes"][index]["io_share"]) for index in shown),
            ]
            for candidate in advice["candidates"]
        ],
    )


def _cheaper(cheaper: dict[str, Any]) -> str:
    size = cheaper["fast_tier_bytes"]
    return format_size(size) if size else "no fast tier"


def _seconds(value: dict[str, float]) -> str:
    return _spread(value, format_seconds)


def _share(value: dict[str, float]) -> str:
    return _spread(value, format_share)


def _spread(value: dict[str, float], written: Callable[[float], str]) -> str:
    low, high = written(value["low"]), written(value["high"])
    typical = written(value["typical"])
    return typical if low == high else f"{typical} ({low} to {high})"


def _percent(value: dict[str, float]) -> str:
    return (
        f"{value['typical'] * 100:.0f} % ({value['low'] * 100:.0f} to {value['high'] * 100:.0f} %)"
    )


def _wear(value: dict[str, float] | None) -> str:
    if value is None:
        return "unknown"
    return f"{value['typical']:.2g} of its life ({value['low']:.2g} to {value['high']:.2g})"
