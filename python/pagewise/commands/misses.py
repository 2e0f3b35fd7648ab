"""`pagewise misses`: exact miss counts of eviction policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.text import Text

from pagewise import questions
from pagewise.commands.options import As, Format, Json, Map, TracePaths, opened, tell_losses
from pagewise.report.inputs import recording_name
from pagewise.terminal import Part, figures, room, show, show_json, watched
from pagewise.types import Misses
from pagewise.units import PAGE_BYTES, format_count, format_share, format_size

EXAMPLES = (
    "pagewise misses trace.parquet --policy lru,s3-fifo,opt --frames 1000,10000",
    "pagewise misses phone-1g.parquet phone-2g.parquet --policy lru,lru-k:k=3,random:seed=7 "
    "--frames 64MiB --ratio",
    "pagewise misses trace.parquet --policy arc --frames 64MiB,256MiB --json",
)
GAP = 2
"""Blank columns behind each column."""


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
            metavar="N[,N...]", help="Memory in pages of 4 KiB, or as a size such as 64MiB."
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
    """Count the misses of eviction policies in memories of given sizes, exactly.

    Every access counts, the memory starts empty, and each page or object takes one frame. Prints
    the share of requests that miss; --json has the counts.
    """
    sources = [opened(trace, format, as_, map_) for trace in traces]
    with watched("replaying") as progress:
        together = questions.misses(
            sources, policy=",".join(policy), frames=",".join(frames), progress=progress
        )
    results = together["traces"]
    for one in results:
        tell_losses(one, *([one["trace"]] if len(results) > 1 else []))
    if json:
        show_json(together if len(results) > 1 else results[0])
        return
    names = names_of(results)
    show(*totals(results, names))
    for lines in pivots(results, names, is_hits=ratio):
        show("", *lines)


def names_of(results: Sequence[Misses]) -> list[str]:
    """What tables call the traces: without folders and endings, where that tells them apart."""
    short = [recording_name(one["trace"]) for one in results]
    return short if len(set(short)) == len(short) else [one["trace"] for one in results]


def totals(results: Sequence[Misses], names: Sequence[str]) -> Iterator[Part]:
    """How many requests each trace has, to how many pages."""
    counts = [(format_count(one["requests"]), format_count(one["pages"])) for one in results]
    if len(results) == 1:
        [(requests, pages)] = counts
        yield f"{requests} requests to {pages} pages"
        return
    rows = [[name, *count] for name, count in zip(names, counts, strict=True)]
    yield figures(["trace", "requests", "pages"], rows)


def pivots(
    results: Sequence[Misses], names: Sequence[str], *, is_hits: bool
) -> Iterator[list[Part]]:
    """A column for each policy and a row for each size; of several traces a table for each size
    with a row for each trace."""
    what = "hits" if is_hits else "misses"
    policies = list(results[0]["misses"])
    sizes = list(next(iter(results[0]["misses"].values())))

    def row(name: str, one: Misses, size: str) -> list[str]:
        return [name, *(share(one, policy, size, is_hits=is_hits) for policy in policies)]

    if len(results) == 1:
        rows = [row(frames_and_bytes(size), results[0], size) for size in sizes]
        yield [f"{what}, of requests", *table("frames", policies, rows)]
        return
    for size in sizes:
        rows = [row(name, one, size) for name, one in zip(names, results, strict=True)]
        title = f"{what}, of requests, with {frames_and_bytes(size, ' frames')}"
        yield [title, *table("trace", policies, rows)]


def frames_and_bytes(size: str, noun: str = "") -> str:
    """A number of frames, and what they hold."""
    return f"{format_count(int(size))}{noun} ({format_size(int(size) * PAGE_BYTES)})"


def share(one: Misses, policy: str, size: str, *, is_hits: bool) -> str:
    """The share of requests that miss, or that hit."""
    requests, misses = one["requests"], one["misses"][policy][size]
    counted = requests - misses if is_hits else misses
    return format_share(counted / requests if requests else None)


def table(first: str, policies: Sequence[str], rows: Sequence[list[str]]) -> Iterator[Part]:
    """The rows under their headings, as several tables where one would be too wide."""
    names, *columns = zip([first, *map(heading, policies)], *rows, strict=True)
    widths = [GAP + max(map(text_width, column)) for column in columns]
    start = 0
    while start < len(columns):
        end = fitting(widths, start, room() - max(map(text_width, names)))
        headings = [Text(first), *(Text(column[0]) for column in columns[start:end])]
        figured = [[row[0], *row[1 + start : 1 + end]] for row in rows]
        yield from ([""] if start else [])
        yield figures(headings, figured)
        start = end


def fitting(widths: Sequence[int], start: int, width: float) -> int:
    """The end of the columns that fit from ``start`` on, one at least."""
    end = start + 1
    while end < len(widths) and sum(widths[start : end + 1]) <= width:
        end += 1
    return end


def heading(policy: str) -> str:
    """A policy with its options each on a line of its own."""
    return policy.replace(":", "\n").replace(",", "\n")


def text_width(text: str) -> int:
    """Columns of the terminal that a text takes."""
    return max(map(len, text.splitlines()))
