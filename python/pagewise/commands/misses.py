"""`pagewise misses`: exact miss counts of eviction policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from pagewise import questions
from pagewise.commands.options import As, Format, Json, Map, TracePaths, opened, tell_losses
from pagewise.questions import OF_OBJECTS
from pagewise.report.inputs import recording_name
from pagewise.terminal import Lines, Part, figures, show, show_json, watched
from pagewise.types import Misses
from pagewise.units import PAGE_BYTES, format_count, format_share, format_size

EXAMPLES = (
    "pagewise misses trace.parquet --policy lru,s3-fifo,opt --frames 1000,10000",
    "pagewise misses phone-1g.parquet phone-2g.parquet --policy lru,lru-k:k=3,random:seed=7 "
    "--frames 64MiB --ratio",
    "pagewise misses trace.parquet --policy arc --frames 64MiB,256MiB --json",
)


def run(
    traces: TracePaths,
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:OPTION=VALUE,...][,...]",
            help="Eviction policies, with options as in lru-k:k=3; see `pagewise list policies`.",
        ),
    ],
    frames: Annotated[
        list[str],
        typer.Option(
            metavar="N[,N...]",
            help="Memory sizes, in frames of 4 KiB or in bytes such as 64MiB; for a cache trace in "
            "objects.",
        ),
    ],
    ratio: Annotated[
        bool, typer.Option("--ratio", help="Print hit ratios instead of miss ratios.")
    ] = False,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    json: Json = False,
) -> None:
    """Count the exact misses of eviction policies at given memory sizes.

    Every access counts, the memory starts empty, and each page or object takes one frame. The
    tables show the share of requests that miss; --json has the counts.
    """
    sources = [opened(trace, format, as_, map_) for trace in traces]
    with watched("replaying") as progress:
        together = questions.misses(
            sources, policy=",".join(policy), frames=",".join(frames), progress=progress
        )
    results = together["traces"]
    for counted in results:
        tell_losses(counted["losses"], *([counted["trace"]] if len(results) > 1 else []))
    if json:
        show_json(together if len(results) > 1 else results[0])
        return
    names = names_of(results)
    show(*totals(results, names))
    for lines in pivots(results, names, is_hits=ratio):
        show("", *lines)


def names_of(results: Sequence[Misses]) -> list[str]:
    """The names of the traces in tables: without folders and endings, if these differ."""
    short = [recording_name(result["trace"]) for result in results]
    return short if len(set(short)) == len(short) else [result["trace"] for result in results]


def totals(results: Sequence[Misses], names: Sequence[str]) -> Iterator[Part]:
    """The number of requests and of pages or objects of each trace."""
    counts = [(format_count(each["requests"]), format_count(each["pages"])) for each in results]
    noun = "objects" if is_of_objects(results[0]) else "pages"
    if len(results) == 1:
        [(requests, pages)] = counts
        yield f"{requests} requests to {pages} {noun}"
        return
    rows = [[name, *count] for name, count in zip(names, counts, strict=True)]
    yield figures(["trace", "requests", noun], rows)


def is_of_objects(result: Misses) -> bool:
    """Whether a frame holds an object of a cache, not a page."""
    return result["kind"] == OF_OBJECTS


def pivots(
    results: Sequence[Misses], names: Sequence[str], *, is_hits: bool
) -> Iterator[list[Part]]:
    """One trace: a row for each size. Several: a table for each size, a row for each trace.

    Every table has a column for each policy.
    """
    what = "hits" if is_hits else "misses"
    policies = list(results[0]["misses"])
    sizes = list(next(iter(results[0]["misses"].values())))

    def row(name: str, result: Misses, size: str) -> list[str]:
        return [name, *(share(result, policy, size, is_hits=is_hits) for policy in policies)]

    if len(results) == 1:
        rows = [row(room_for(results[0], size), results[0], size) for size in sizes]
        first = "objects" if is_of_objects(results[0]) else "frames"
        yield [f"{what}, of requests", table(first, policies, rows)]
        return
    for size in sizes:
        rows = [row(name, result, size) for name, result in zip(names, results, strict=True)]
        title = f"{what}, of requests, with {room_for(results[0], size, is_named=True)}"
        yield [title, table("trace", policies, rows)]


def room_for(result: Misses, size: str, *, is_named: bool = False) -> str:
    """A number of frames: of pages with their bytes, or of objects."""
    if is_of_objects(result):
        return (
            f"room for {format_count(int(size))} objects" if is_named else format_count(int(size))
        )
    noun = " frames" if is_named else ""
    return f"{format_count(int(size))}{noun} ({format_size(int(size) * PAGE_BYTES)})"


def share(result: Misses, policy: str, size: str, *, is_hits: bool) -> str:
    """The share of requests that miss, or that hit."""
    requests, misses = result["requests"], result["misses"][policy][size]
    counted = requests - misses if is_hits else misses
    return format_share(counted / requests if requests else None)


def table(first: str, policies: Sequence[str], rows: Sequence[list[str]]) -> Part:
    """The rows under their headings."""
    return figures([first, *(Lines(heading(policy)) for policy in policies)], rows)


def heading(policy: str) -> str:
    """A policy with each of its options on a separate line."""
    return policy.replace(":", "\n").replace(",", "\n")
