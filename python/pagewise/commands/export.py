"""`pagewise export`: results for other programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from pagewise.commands.options import Force
from pagewise.errors import UnreadableInput, UsageError
from pagewise.openmetrics import exposition, kind_of
from pagewise.storage import (
    parse_json,
    read_json,
    refuse_special,
    refuse_unwritable,
    write_text,
)
from pagewise.terminal import say
from pagewise.timelines import TIMED, exported

EXAMPLES = (
    "pagewise export adaptive.json --to openmetrics -o adaptive.prom",
    "pagewise export busy.json kills.json --to perfetto -o timeline.json",
)

HINT = "give the output of --json of a command"


def run(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT...",
            help="Outputs of --json of any command; - is standard input.",
            show_default=False,
        ),
    ],
    to: Annotated[
        Literal["openmetrics", "perfetto"],
        typer.Option(
            metavar="openmetrics|perfetto",
            help="Write numbers as OpenMetrics, for Prometheus, or what has times for "
            "ui.perfetto.dev.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write; default: standard output."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write results as metrics for Prometheus, or as a timeline for ui.perfetto.dev.

    OpenMetrics has a gauge for each number of a result, named after its field and described by
    it; curves and distributions are left out. A timeline can be made of analyze --by process,
    replay-kills, launches, kills and pressure.
    """
    if output is not None:
        refuse_special(output)
        refuse_unwritable(output, force=force)
        if any(
            each != "-" and os.path.realpath(each) == os.path.realpath(output) for each in results
        ):
            raise UsageError(f"{output} is one of the results", hint="name another file with -o")
    elif force:
        raise UsageError("--force needs -o")
    if len(set(results)) < len(results):
        raise UsageError("a result is given twice", hint="give each result once")
    held = [(name, read_result(name)) for name in results]
    if to == "openmetrics":
        text = exposition(held)
    else:
        for name, result in held:
            if kind_of(result) not in TIMED:
                raise UsageError(
                    f"{name}: a result of {kind_of(result)} has no times",
                    path=name,
                    hint=f"give results of {', '.join(TIMED.values())}",
                )
        text = json.dumps(exported(held)) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    write_text(output, text)
    say(f"written: {output}")


def read_result(name: str) -> Mapping[str, object]:
    """A result of any command. Raises UnreadableInput for anything else."""
    if name == "-":
        found = parse_json(sys.stdin.buffer.read(), name, HINT)
    else:
        found = read_json(name, HINT)
    if not isinstance(found, dict) or not kind_of(found):
        schema = str(found.get("schema", "absent"))[:60] if isinstance(found, dict) else "absent"
        raise UnreadableInput(
            f"{name}: not a result of pagewise (schema {schema})",
            path=name,
            hint=HINT,
        )
    return found
