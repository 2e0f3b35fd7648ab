"""`pagewise sweep`: run a grid of simulations."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from shlex import quote
from typing import Annotated

import typer

from pagewise.commands.fleet_tables import lines
from pagewise.commands.fleets import tell_unreadable
from pagewise.commands.options import Json
from pagewise.grids.run import sweep
from pagewise.terminal import say, show, show_json, watched
from pagewise.units import format_counted

EXAMPLES = (
    "pagewise sweep grid.toml -o results.parquet",
    "pagewise sweep s3-grid.toml -o s3://bucket/results.parquet --engine ray --address ray://head:10001",
)
SHOWN_FAILURES = 10
PARTS = 1000
"""Steps of progress per cell."""


def run(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC.toml",
            help="The grid to run; docs/sweep.md has an example.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="RESULTS.parquet",
            help="The table to write: a path, or an address such as s3://...",
        ),
    ],
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="Run on this machine, or on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The Ray cluster, e.g. ray://head:10001; default: start one on this machine.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1024, help="Workers; default: all cores.")
    ] = None,
    json: Json = False,
) -> int:
    """Run all combinations of traces, architectures or policies, options, sizes, devices and seeds.

    The spec is checked before the first cell runs; an invalid spec exits with status 2. Finished
    cells survive an interruption: run the same command again to continue. A cell that fails is
    reported and does not stop the others; the exit status is then 1. If the spec names a folder or
    a pattern of traces, also show how the figures of each cell are spread over them.
    """
    with (
        redirect_stdout(sys.stderr),  # Ray prints to stdout, for example when a worker dies
        watched("sweeping", counted="cells", parts=PARTS) as progress,
    ):
        result = sweep(spec, output, engine=engine, address=address, jobs=jobs, progress=progress)
    if json:
        show_json(result)
    else:
        output = result["output"]
        show(
            f"{output}: {format_counted(result['cells'], 'cell')}, "
            f"{result['computed']} run now, {result['kept']} kept, {len(result['failed'])} failed",
            *(
                []
                if "://" in output
                else [f"to see the results: pagewise report {quote(output)} -o sweep.html"]
            ),
        )
    if fleet := result.get("fleet"):
        if fleet["traces"] and not json:
            show("", *lines(fleet))
        tell_unreadable(fleet["unreadable"])
    for failure in result["failed"][:SHOWN_FAILURES]:
        inputs = ", ".join(f"{name}={value}" for name, value in failure.items() if name != "error")
        say(f"failed: {inputs}: {failure['error']}")
    if len(result["failed"]) > SHOWN_FAILURES:
        more = len(result["failed"]) - SHOWN_FAILURES
        say(f"and {more} more; the table has all errors, in its column `error`")
    return 1 if result["failed"] else 0
