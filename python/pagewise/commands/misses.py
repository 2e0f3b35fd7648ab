"""`pagewise misses`: exact miss counts of eviction policies."""

from __future__ import annotations

from typing import Annotated

import typer

from pagewise import questions
from pagewise.commands.options import As, Format, Json, Map, TracePath, opened, tell_losses
from pagewise.terminal import figures, show, show_json, watched
from pagewise.units import PAGE_BYTES, format_count, format_share, format_size

EXAMPLES = (
    "pagewise misses trace.parquet --policy lru,s3-fifo,opt --frames 1000,10000",
    "pagewise misses trace.parquet --policy arc --frames 64MiB,256MiB --json",
)


def run(
    trace: TracePath,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]", help="Eviction policies; see `pagewise list policies`."
        ),
    ],
    frames: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]", help="Memory in pages of 4 KiB, or as a size such as 64MiB."
        ),
    ],
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Count the misses of eviction policies in memories of given sizes, exactly.

    Every access counts, the memory starts empty, and each page or object takes one frame.
    """
    with watched("replaying") as progress:
        result = questions.misses(
            opened(trace, format, as_, map_), policy=policy, frames=frames, progress=progress
        )
    tell_losses(result)
    if json:
        show_json(result)
        return
    requests = result["requests"]
    rows = [
        [
            name,
            f"{format_count(int(size))} ({format_size(int(size) * PAGE_BYTES)})",
            format_count(count),
            share,
        ]
        for name, counts in result["misses"].items()
        for size, count in counts.items()
        for share in [format_share(count / requests if requests else None)]
    ]
    show(
        f"{format_count(requests)} requests to {format_count(result['pages'])} pages",
        figures(["policy", "frames", "misses", "of requests"], rows),
    )
