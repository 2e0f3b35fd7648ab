"""What the commands on system traces share: the argument, losses, and what a trace lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import typer

from pagewise.commands.options import tell_losses
from pagewise.terminal import say, show
from pagewise.types import TraceKills, TraceLaunches, TracePressure
from pagewise.units import format_count, format_size

SystemTrace: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace of a whole system, such as one of Perfetto, plain or packed.",
        show_default=False,
    ),
]
Report: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Also write launches, kills and pressure on one time axis.",
    ),
]
RECIPES = "`pagewise list recipes` prints configurations that record more"
ROWS_SHOWN = 12
"""How many rows of a table a screen shows; --json has all."""


def tell(result: TraceLaunches | TraceKills | TracePressure) -> None:
    """Prints to standard error what the trace lost."""
    tell_losses(result["losses"], result["trace"])
    if result["disordered"]:
        count = format_count(result["disordered"])
        say(f"note: {count} events come after later ones, so some times may be too short")


def show_lacks(lacks: Sequence[str]) -> None:
    """Prints what the trace lacks."""
    if lacks:
        show("", f"The trace lacks: {'; '.join(lacks)}.", f"({RECIPES})")


def write_report(trace: str, path: str | None) -> None:
    """Writes the report on a trace, if one is asked for."""
    if path is None:
        return
    from pagewise.report import report
    from pagewise.system_traces import kills, launches, pressure

    results: list[Mapping[str, object]] = [
        dict(found) for found in (launches(trace), kills(trace), pressure(trace))
    ]
    written = report(results, path)
    say(f"{written['path']}: {format_size(written['bytes'])}")
