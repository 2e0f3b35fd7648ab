"""`pagewise slice`: copy a part of a trace by time."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from pagewise import recording
from pagewise.commands.options import Force, Json
from pagewise.terminal import facts, say, show, show_json, watched
from pagewise.units import format_count

EXAMPLES = ("pagewise slice trace.parquet --from 10s --to 1min -o part.parquet",)


def run(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE", help="A trace file made by `pagewise import`.", show_default=False
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT.parquet", help="The trace file to write.")
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Start of the part, counted from the first event: 10s, 1500ms, 2min; default: the "
            "first event. After a step back of the clock, times can be negative: -10s.",
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TIME",
            help="End of the part, itself excluded; default: the last event.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Copy the events between two times of a trace to a new trace."""
    with watched("slicing") as progress:
        result = recording.slice_trace(
            trace, output, start=start, stop=stop, force=force, progress=progress
        )
    if result["events"] == 0:
        command = f"pagewise info {shlex.quote(trace)}"
        say(f"warning: no events in that time; to see how long {trace} is: {command}")
    if json:
        show_json(result)
    else:
        show(facts([("written", output), ("events", format_count(result["events"]))]))
