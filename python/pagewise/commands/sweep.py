"""`pagewise sweep`: a grid of simulator runs."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from shlex import quote
from typing import Annotated

import typer

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
            metavar="SPEC.toml", help="What to run; docs/sweep.md shows one.", show_default=False
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="RESULTS.parquet",
            help="Where the table goes: a path, or an address as s3://...",
        ),
    ],
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="All cores of this machine, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The Ray cluster, e.g. ray://head:10001; default: one on this machine.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1024, help="Workers; default: all cores.")
    ] = None,
    json: Json = False,
) -> int:
    """Run all combinations of traces, architectures or policies, options, sizes, devices and seeds.

    The spec is checked before the first cell runs: status 2 if anything in it cannot be run.
    Finished cells are kept whatever interrupts the run: start it again and it goes on. A cell that
    fails is reported and does not stop the others; the exit status is then 1.
    """
    with (
        redirect_stdout(sys.stderr),  # Ray prints there, too, as when a worker dies
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
                else [f"to see them: pagewise report {quote(output)} -o sweep.html"]
            ),
        )
    for failure in result["failed"][:SHOWN_FAILURES]:
        inputs = ", ".join(f"{name}={value}" for name, value in failure.items() if name != "error")
        say(f"failed: {inputs}: {failure['error']}")
    if len(result["failed"]) > SHOWN_FAILURES:
        say(f"and {len(result['failed']) - SHOWN_FAILURES} more; column error of the table has all")
    return 1 if result["failed"] else 0
