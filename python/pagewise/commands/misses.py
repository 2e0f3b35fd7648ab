"""`pagewise misses`: miss counts of eviction policies, exact or from a sample of the pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pagewise import questions
from pagewise.commands.fleets import (
    FleetAddress,
    FleetEngine,
    FleetJobs,
    FleetOptions,
    FleetReport,
    show_fleet,
)
from pagewise.commands.options import (
    As,
    Force,
    Format,
    Json,
    Map,
    MemoryLimit,
    SampleOption,
    TracePaths,
    opened,
    tell_losses,
)
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures, figures_of_misses
from pagewise.questions import OF_OBJECTS
from pagewise.recording import read
from pagewise.report.inputs import recording_name
from pagewise.samples import sample_in_words, share_within
from pagewise.terminal import Lines, Part, figures, show, show_json, watched
from pagewise.units import PAGE_BYTES, format_count, format_size

if TYPE_CHECKING:
    from pagewise.types import Misses

EXAMPLES = (
    "pagewise misses trace.parquet --policy lru,s3-fifo,opt --frames 1000,10000",
    "pagewise misses phone-1g.parquet phone-2g.parquet --policy lru,lru-k:k=3,random:seed=7 "
    "--frames 64MiB --ratio",
    "pagewise misses trace.parquet --policy arc --frames 64MiB,256MiB --json",
    "pagewise misses trace.parquet --policy lru,s3-fifo --frames 1GiB,4GiB --sample 1%",
    "pagewise misses 'fleet/*.parquet' --policy lru,sieve --frames 64MiB --report fleet.html",
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
    sample: SampleOption = None,
    memory_limit: MemoryLimit = None,
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    report: FleetReport = None,
    force: Force = False,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Count the exact misses of eviction policies at given memory sizes.

    Every access counts, the memory starts empty, and each page or object takes one frame. The
    tables show the share of requests that miss; --json has the counts. With --sample counts are
    estimates: 28.4 % +/- 1.2 means from 27.2 to 29.6 %, with a confidence of 95 %. For a folder
    or a pattern in quotes, show how the ratios are spread over its recordings.
    """
    options = FleetOptions(report, force, engine, address, jobs)
    if any(map(is_many, traces)):

        def figures_of(path: str) -> Figures:
            source = read(path, format=format, as_=as_, map=map_)
            counted = questions.misses(
                source,
                policy=",".join(policy),
                frames=",".join(frames),
                sample=sample,
                memory_limit=memory_limit,
            )
            return figures_of_misses(counted, is_hits=ratio)

        show_fleet("misses", traces, figures_of, options, json=json)
        return
    options.refuse_for_single(traces)
    sources = [opened(trace, format, as_, map_) for trace in traces]
    with watched("replaying") as progress:
        together = questions.misses(
            sources,
            policy=",".join(policy),
            frames=",".join(frames),
            sample=sample,
            memory_limit=memory_limit,
            progress=progress,
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
        if sample := results[0].get("sample"):
            yield f"sample: {sample_in_words(sample)}"
        return
    rows = [[name, *count] for name, count in zip(names, counts, strict=True)]
    titles = ["trace", "requests", noun]
    samples = [sample for each in results if (sample := each.get("sample"))]
    if samples:
        titles.append("in the sample")
        for row, sample in zip(rows, samples, strict=True):
            row.append(format_count(sample["pages"]))
    yield figures(titles, rows)


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
    sample = result.get("sample")
    error = sample["error"][policy][size] if sample else None
    return share_within(counted / requests if requests else None, error)


def table(first: str, policies: Sequence[str], rows: Sequence[list[str]]) -> Part:
    """The rows under their headings."""
    return figures([first, *(Lines(heading(policy)) for policy in policies)], rows)


def heading(policy: str) -> str:
    """A policy with each of its options on a separate line."""
    return policy.replace(":", "\n").replace(",", "\n")
