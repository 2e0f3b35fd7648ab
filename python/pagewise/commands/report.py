"""`pagewise report`: write results as one HTML file."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from pagewise.commands.options import Force, Json, tell_losses
from pagewise.terminal import show, show_json, watched
from pagewise.units import format_size

EXAMPLES = ("pagewise report phone-1g.parquet sweep-results.parquet advice.json -o report.html",)


def run(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT",
            help="Any mix of recordings, tables of sweep, and --json outputs of analyze, misses, "
            "simulate, advise swap, pagesize, replay-kills, launches, kills, pressure and study, "
            "and of `pagewise-agent killtrace`.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="REPORT.html", help="The file to write.")
    ] = "report.html",
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading of the report.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write any mix of results as one HTML file, which needs no network to open."""
    from pagewise.report import report

    with watched("reading results") as progress:
        written = report(
            results, output, title=title, command=command_line(), force=force, progress=progress
        )
    for name, losses in written["losses"].items():
        tell_losses(losses, name)
    if json:
        show_json(written)
    else:
        show(
            f"{written['path']}: {format_size(written['bytes'])}, {len(written['panels'])} sections"
        )


def command_line() -> str:
    """The command line, quoted for a shell."""
    return shlex.join(["pagewise", *sys.argv[1:]])
