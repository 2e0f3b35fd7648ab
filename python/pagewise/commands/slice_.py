"""`pagewise slice`: a part of a trace by time."""

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
            help="First moment kept, from the first event: 10s, 1500ms, 2min.",
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="First moment no longer kept; default: to the end."
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Copy the events between two moments of a trace into a new one."""
    with watched("slicing") as progress:
        result = recording.slice_trace(
            trace, output, start=start, stop=stop, force=force, progress=progress
        )
    if result["events"] == 0:
        command = f"pagewise info {shlex.quote(trace)}"
        say(f"warning: nothing in that time; how long {trace} is: {command}")
    if json:
        show_json(result)
    else:
        show(facts([("written", output), ("events", format_count(result["events"]))]))
