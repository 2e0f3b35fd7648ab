"""`pagewise analyze`: skew, single accesses and reuse of a recording."""

from __future__ import annotations

import shlex
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
    PageSize,
    SampleOption,
    TracePath,
    opened,
    tell_losses,
)
from pagewise.errors import UsageError
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures, figures_of_analysis
from pagewise.recording import read
from pagewise.samples import sample_in_words, share_within
from pagewise.terminal import Part, facts, figures, say, show, show_json, watched
from pagewise.units import (
    format_count,
    format_counted,
    format_share,
    format_size,
)

if TYPE_CHECKING:
    from pagewise.types import Analysis, AnalyzedAt4KiB, ProcessRow

EXAMPLES = (
    "pagewise analyze trace.parquet",
    "pagewise analyze trace.parquet --by process --top 5",
    "pagewise analyze trace.csv.gz --as block --json",
    "pagewise analyze trace.parquet --page-size 16KiB",
    "pagewise analyze trace.parquet --sample 1%",
    "pagewise analyze 'fleet/*.parquet' --report fleet.html",
    "pagewise analyze s3://bucket/fleet --sample 32k --jobs 4",
)


def run(
    trace: TracePath,
    by: Annotated[
        str | None, typer.Option(metavar="process", help="Show the figures of each process too.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"With --by process: how many of the busiest processes get their own row, by "
            f"default {questions.TOP_PROCESSES}. Kernel threads share one row, and all other "
            "processes another.",
        ),
    ] = None,
    page_size: PageSize = None,
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
    """Show how skewed the accesses are, how many pages are used once, and what memory would help.

    Figures are shares of pages and of accesses; a page is 4 KiB, or --page-size. One pass gives
    exact LRU miss ratios of every memory size; --json and the report have all curves. With --sample
    figures are estimates: 28.4 % +/- 1.2 means from 27.2 to 29.6 %, with a confidence of 95 %. For
    a folder or a pattern in quotes, show how the figures are spread over its recordings.
    """
    if top is not None and by is None:
        raise UsageError("--top works only with --by process", hint="add --by process")
    options = FleetOptions(report, force, engine, address, jobs)
    if is_many(trace):
        if by is not None:
            raise UsageError("--by process works only for one recording")

        def figures_of(path: str) -> Figures:
            source = read(path, format=format, as_=as_, map=map_)
            result = questions.analyze(
                source, page_size=page_size, sample=sample, memory_limit=memory_limit
            )
            return figures_of_analysis(result)

        show_fleet("analyze", [trace], figures_of, options, json=json)
        return
    options.refuse_for_single([trace])
    source = opened(trace, format, as_, map_)
    with watched("analyzing") as progress:
        rows = top or questions.TOP_PROCESSES
        result = questions.analyze(
            source,
            by=by,
            top=rows,
            page_size=page_size,
            sample=sample,
            memory_limit=memory_limit,
            progress=progress,
        )
    tell_losses(result["losses"])
    if result["accesses"] == 0:
        say(
            f"warning: {trace} has no accesses; to see what it holds: "
            f"pagewise info {shlex.quote(trace)}"
        )
    if json:
        show_json(result)
    else:
        show(facts(summary(result)), *by_process(result))


def by_process(result: Analysis) -> list[Part]:
    """The busiest processes and the rest, if the analysis has them (--by process)."""
    rows = [
        [
            process["name"] or "unnamed",
            process_number(process),
            format_count(process["accesses"]),
            format_count(process["pages"]),
            format_share(process["top_share"]["0.1"]),
            format_share(process["single_access"]["pages"]),
        ]
        for process in result.get("top_processes") or []
    ]
    titles = ["process", "pid", "accesses", "pages", "busiest tenth", "accessed once"]
    return ["", figures(titles, rows, words=1)] if rows else []


def process_number(process: ProcessRow) -> str:
    """The pid of a process, or how many processes share the row."""
    pid, count = process["pid"], process["processes"]
    return format_counted(count, "process") if pid is None else str(pid)


def summary(result: Analysis) -> list[tuple[str, str]]:
    """The main figures, in about ten lines."""
    noun = "objects" if result["kind"] == questions.OF_OBJECTS else "pages"
    count = format_count(result["pages"])
    footprint = format_size(result["pages"] * result["page_bytes"])
    single = result["single_access"]
    sample = result.get("sample")
    error = sample and sample["error"]
    single_error = error and error["single_access"]
    rows = [
        (
            "accesses",
            f"{format_count(result['accesses'])} ({format_count(result['writes'])} writes)",
        ),
        (noun, count if noun == "objects" else f"{count} ({footprint})"),
        *sampled(result, noun),
        *larger_pages(result),
    ]
    if result["accesses"] == 0:
        return rows
    rows += [
        (
            f"busiest {float(share) * 100:g} % of {noun}",
            f"{share_within(value, error and error['top_share'][share])} of accesses",
        )
        for share, value in result["top_share"].items()
    ]
    most = share_within(result["pages_for_80_percent"], error and error["pages_for_80_percent"])
    rows += [
        ("80 % of accesses", f"go to {most} of {noun}"),
        (
            "accessed exactly once",
            f"{share_within(single['pages'], single_error and single_error['pages'])} of {noun}, "
            f"{share_within(single['accesses'], single_error and single_error['accesses'])} "
            "of accesses",
        ),
    ]
    return rows + swap_rows(result)


def sampled(result: Analysis, noun: str) -> list[tuple[str, str]]:
    """The sample that the figures come from, and how exact they are."""
    sample = result.get("sample")
    if not sample:
        return []
    error = sample["error"]
    widest = max((width for _, width in error["miss_ratio_curve"]), default=0.0)
    return [
        ("sample", sample_in_words(sample)),
        (f"error of {noun}", f"+/- {format_count(round(error['pages']))}"),
        ("error of miss ratios", f"at most +/- {widest * 100:.1f} %"),
    ]


def larger_pages(result: Analysis) -> list[tuple[str, str]]:
    """What larger pages and recorded ones move and hold."""
    recorded = result.get("at_4_kib")
    if recorded is None:
        return []

    def in_words(found: Analysis | AnalyzedAt4KiB) -> str:
        counted = (found["accesses"], found["pages"])
        moved, held = (format_size(count * found["page_bytes"]) for count in counted)
        swapped = found["swap"] and format_size(
            found["swap"]["pages_in_swap_max"] * found["page_bytes"]
        )
        peak = f", at most {swapped} in swap" if swapped else ""
        return f"{format_count(found['accesses'])} accesses move {moved}; {held} of pages{peak}"

    sizes = [(f"pages of {format_size(each['page_bytes'])}", each) for each in (recorded, result)]
    return [(name, in_words(each)) for name, each in sizes]


def swap_rows(result: Analysis) -> list[tuple[str, str]]:
    """The rows that only a recording of swap has."""
    swap, single = result.get("swap"), result.get("single_out")
    if not swap or not single:
        return []
    gone, reads = swap["never_returned"], swap.get("device_reads")
    rows = [
        (
            "left memory once",
            f"{format_share(single['pages'])} of pages that left, "
            f"{format_share(single['outs'])} of all swap-outs",
        ),
        ("never came back", f"{format_share(gone['pages'])} of pages that left"),
    ]
    if reads:
        rows.append(("readahead", f"{format_share(reads['readahead_share'])} of device reads"))
    return rows
