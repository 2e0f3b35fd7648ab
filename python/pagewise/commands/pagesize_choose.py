"""`pagewise pagesize [OPTIONS] TRACE | -- COMMAND`: recommend the page size of a program.

`pagewise advise pagesize` is the same command.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from pagewise.advice.page_size import TARGETS
from pagewise.commands.captured import captured
from pagewise.commands.options import Force, Json
from pagewise.commands.pagesize_verify import described as described_trial
from pagewise.commands.pagesize_verify import tried
from pagewise.errors import UsageError
from pagewise.references import is_references
from pagewise.storage import refuse_unwritable
from pagewise.terminal import Part, facts, figures, pasted, say, show, show_json, watched
from pagewise.units import (
    PAGE_BYTES,
    format_figure,
    format_percent,
    format_range,
    format_share,
    format_size,
    parse_share,
    parse_size,
)

if TYPE_CHECKING:
    from pagewise.answers import AdvicePageSize, AdvicePageSizeResult, Forecast, PageSize

EXAMPLES = (
    "pagewise pagesize --memory 80% --storage ufs-3.1 -- xz -k -c /bin/bash",
    "pagewise pagesize --storage optane-ssd --report photo.html examples/page-size/photo.pwf",
)
ADVISE_EXAMPLES = (
    "pagewise advise pagesize examples/page-size/photo.pwf --memory 80% --storage optane-ssd",
    "pagewise advise pagesize --memory 80% --storage ufs-3.1 --verify -- xz -k -c /bin/bash",
)
NAME = "choose"
"""The command that `pagewise pagesize` runs if its arguments name no other."""

Memory: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="SIZE|SHARE",
        help="Memory that the program has: a size such as 64MiB, or a share of its footprint such "
        "as 80%.",
    ),
]
Storage: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Storage that page faults read from: a name from `pagewise devices`, such as "
        "optane-ssd, or a file of `pagewise devices probe`.",
    ),
]
TargetName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help=f"Where to set the page size: {', '.join(row.name for row in TARGETS)}; default: "
        "transparent huge pages of the program's architecture.",
    ),
]
Verify: TypeAlias = Annotated[
    bool,
    typer.Option("--verify", help="Also run the program with this page size; needs root."),
]
Rounds: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, max=1000, help="With --verify: runs of each page size.")
]


def choose(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE | -- COMMAND...",
            help="A reference trace (.pwf), or a program to capture. For --verify, give the "
            "program, or its trace and then the program.",
            show_default=False,
        ),
    ],
    memory: Memory = "80%",
    storage: Storage = "ufs-3.1",
    target: TargetName = None,
    model: Annotated[
        Literal["exact", "paper", "sampled"],
        typer.Option(
            help="exact: count every page size; paper: the paper's fits to these counts; sampled: "
            "a curve through four sizes."
        ),
    ] = "exact",
    references: Annotated[
        Literal["memory", "cpu"],
        typer.Option(
            help="Give times per reference that misses a filter of 64 blocks of 512 bytes "
            "(memory), or per reference of the processor (cpu). The best size is the same, but cpu "
            "makes gains smaller; if the best gain is below 3 %, the answer is 4 KiB."
        ),
    ] = "memory",
    first_touches: Annotated[
        Literal["counted", "zero-fill", "file-only"],
        typer.Option(
            help="Cost of a first touch. counted: a read from storage; zero-fill: clearing a page; "
            "file-only: clearing a page for a write, a read from storage otherwise."
        ),
    ] = "file-only",
    tlb_levels: Annotated[
        int,
        typer.Option(
            metavar="1|2",
            min=1,
            max=2,
            help="1: a TLB of 64 entries (--tlb); 2: another of 1536 (--l2-tlb) behind it.",
        ),
    ] = 2,
    readahead: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that a fault reads, e.g. 32KiB; 0: one page.")
    ] = "0",
    walk: Annotated[
        Literal["native", "nested"],
        typer.Option(
            help="Page walks of the machine itself (native), or of a virtual machine, whose host "
            "translates the address of each entry as well (nested)."
        ),
    ] = "native",
    walk_levels: Annotated[
        int, typer.Option(metavar="N", help="Levels of the page tables, 1 to 5.")
    ] = 4,
    cached_levels: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Upper levels that the processor caches. With 3 of 4, a walk takes 1 memory "
            "access natively and 3 nested; with 0, it takes 4 and 24.",
        ),
    ] = 3,
    tlb: Annotated[
        str,
        typer.Option(
            metavar="N|ENTRIESxWAYS",
            help="First TLB: N entries, fully associative, or entries in sets, as in 64x4.",
        ),
    ] = "64",
    l2_tlb: Annotated[
        str,
        typer.Option(
            "--l2-tlb",
            metavar="N|ENTRIESxWAYS",
            help="Second TLB, in the same form, as in 1536x12.",
        ),
    ] = "1536",
    dram: Annotated[
        float,
        typer.Option(metavar="NS", min=0, max=1e6, help="Time of a memory access, in nanoseconds."),
    ] = 50.0,
    fault: Annotated[
        float,
        typer.Option(
            metavar="NS", min=0, max=1e9, help="The kernel's time for a fault, in nanoseconds."
        ),
    ] = 1500.0,
    margin: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Choose for the mean over memory sizes within this share of --memory. Use 25% if "
            "inputs differ in size, 0 for exactly this run.",
        ),
    ] = "15%",
    from_reference: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Leave out the first N references, the start-up of the program: they fill TLB and "
            "memory, and are not counted.",
        ),
    ] = 0,
    max_refs: Annotated[
        int | None,
        typer.Option("--max-refs", metavar="N", min=1, help="Stop the capture after N references."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE.pwf", help="Keep the captured trace.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write the answer as HTML.")
    ] = None,
    verify: Verify = False,
    rounds: Rounds = 5,
    force: Force = False,
    json: Json = False,
) -> None:
    """Recommend a page size for a program, with its gain, its cost and its settings.

    Captures the program's memory references, and counts the TLB misses and page faults of every
    page size and memory size. Times are nanoseconds per reference.
    """
    from pagewise.huge_pages.forecast import forecast, transparent_sizes
    from pagewise.huge_pages.settings import GENERAL, UNDO, changed
    from pagewise.huge_pages.verify import check
    from pagewise.models.page_size_time import Hardware, Terms
    from pagewise.page_size_answer import answer
    from pagewise.reference_curves import curves, tlb_of

    if verify and from_reference:
        raise UsageError("--verify measures the whole run", hint="leave out --from-reference")
    has_trace = is_references(words[0])
    command = words[1:] if has_trace else words
    if has_trace:
        is_captured = keep is not None or max_refs is not None
        refuse_of_trace(words[0], command, verify, is_captured=is_captured)
    if report is not None:
        refuse_as_report(report, words, force)
    terms = Terms(
        references=references,
        cold=first_touches,
        tlb_levels=1 if tlb_levels == 1 else 2,
        readahead_bytes=parse_size(readahead),
        walk=walk,
        walk_levels=walk_levels,
        cached_levels=cached_levels,
    )
    (entries, ways), (second_entries, second_ways) = tlb_of(tlb), tlb_of(l2_tlb)
    hardware = Hardware(
        tlb_entries=entries,
        tlb_ways=ways,
        second_tlb_entries=second_entries,
        second_tlb_ways=second_ways,
        dram_ns=dram,
        fault_ns=fault,
    )
    with nullcontext(words[0]) if has_trace else captured(words, keep, max_refs, force) as trace:
        with watched("counting") as progress:
            counts = curves(
                trace,
                tlb=hardware.tlb,
                second_tlb=hardware.second_tlb,
                huge_pages=transparent_sizes() if verify else (),
                from_reference=from_reference,
                progress=progress,
            )
        result = answer(
            counts,
            str(trace),
            memory=memory,
            storage=storage,
            target=target,
            terms=terms,
            model=model,
            margin=parse_share(margin),
            hardware=hardware,
            heat=counts.heat,
        )
    if verify:
        page_bytes = result["advice"]["page_bytes"]
        requesting = None
        if not has_trace and page_bytes != PAGE_BYTES:
            check(command, page_bytes)
            say(
                "note: the second capture runs with the general switch of huge pages on madvise, "
                f"which is then restored; {UNDO} has the old settings"
            )
            with (
                changed({GENERAL: "madvise"}),
                captured(words, max_refs=max_refs, requests_huge_pages=True) as trace,
            ):
                requesting = curves(trace, huge_pages=transparent_sizes())
        of_page = forecast(counts, page_bytes, hardware, terms, requesting)
        verify_advice(result["advice"], of_page, command, rounds)
    if report is not None:
        from pagewise.report import report as write_report

        write_report([result], report, force=True)
    if json:
        show_json(result if context.info_name == NAME else with_advice_outside(result))
    else:
        show(*described(result))


def with_advice_outside(result: PageSize) -> AdvicePageSizeResult:
    """What `pagewise advise pagesize --json` prints: the advice, and the answer that it is from."""
    return {**result, **result["advice"]}


def refuse_as_report(report: Path, words: list[str], force: bool) -> None:
    """Raises UsageError if the report would replace an input or, without ``force``, any file.

    The name must end in .html, and must not be another name of the trace or the program.
    """
    from pagewise.capture.run import is_among

    if report.suffix != ".html":
        raise UsageError(f"--report {report}: must end in .html")
    if is_among(report, words):
        raise UsageError(f"--report {report} is also an input", hint="name another file")
    refuse_unwritable(report, force=force)


def refuse_of_trace(trace: str, command: list[str], verify: bool, *, is_captured: bool) -> None:
    """Raises UsageError for options and words that do not fit a trace."""
    if verify and not command:
        raise UsageError(
            "--verify needs the program", hint="give it after the trace: TRACE -- COMMAND"
        )
    if command and not verify:
        raise UsageError(
            f"{trace} is a trace, and only --verify runs {command[0]}",
            hint="leave out the command, or add --verify",
        )
    if is_captured:
        raise UsageError(
            "--keep and --max-refs work only with a capture",
            hint=f"{trace} is a trace; leave them out",
        )


def described(result: PageSize) -> list[Part]:
    """The answer as text and tables."""
    program, assumed = result["program"], result["assumed"]
    memory_bytes = result["memory_bytes"]
    asked = next(each for each in result["memories"] if each["memory_bytes"] == memory_bytes)
    factors = program["footprint_factors"]
    rows = [
        [
            format_size(size),
            format_figure(asked["translation_ns"][at]),
            format_figure(asked["data_ns"][at]),
            format_figure(asked["first_touch_ns"][at]),
            format_figure(asked["translation_ns"][at] + asked["data_ns"][at]),
            f"{factors[str(size)]:.2f}",
        ]
        for at, size in enumerate(asked["sizes_bytes"])
    ]
    terms = assumed["terms"]
    return [
        *advised(result["advice"]),
        "",
        f"Time per reference with {format_size(result['memory_bytes'])}, ns "
        f"({format_share(program['steps'] / program['references'])} of "
        f"{program['references']:,} references miss the filter; times are per "
        f"{'one of those' if terms['references'] == 'memory' else 'reference of the processor'}):",
        figures(
            ["page size", "translation", "data", "first touches", "together", "memory x"],
            rows,
        ),
    ]


def verify_advice(
    advice: AdvicePageSize, of_page: Forecast, command: list[str], rounds: int
) -> None:
    """Runs the program with the advised size, and adds the measurements and the forecast to the
    advice."""
    page_bytes = advice["page_bytes"]
    if page_bytes == PAGE_BYTES:
        advice["notes"].append("nothing to verify: the advice is to stay with 4 KiB pages")
        return
    trial = tried(command, page_bytes, rounds)
    trial["forecast"] = of_page
    advice["verification"] = trial


def advised(advice: AdvicePageSize) -> list[Part]:
    """Size, gain, cost and settings as text and tables."""
    sizes = ", ".join(format_size(size) for size in advice["sizes_bytes"])
    parts: list[Part] = [
        facts(
            [
                ("memory", f"{format_size(advice['memory_bytes'])} of {footprint(advice)}"),
                ("storage", advice["storage"]),
                ("target", f"{advice['target']}: {sizes}"),
                ("take", f"pages of {format_size(advice['page_bytes'])}"),
                ("  gain over 4 KiB", format_range(advice["gain"], format_percent)),
                ("  ideal size", ideal(advice)),
                (
                    "  memory it takes",
                    f"up to {advice['footprint_factor']:.2f} times that of 4 KiB",
                ),
            ]
        )
    ]
    parts += pasted(advice["settings"])
    if trial := advice.get("verification"):
        parts += ["", *described_trial(trial)]
    return [*parts, *(f"note: {note}" for note in advice["notes"])]


def footprint(advice: AdvicePageSize) -> str:
    """The footprint of the program in words."""
    return f"{format_size(advice['footprint_bytes'])} that the program uses in 4 KiB pages"


def ideal(advice: AdvicePageSize) -> str:
    """How the chosen size compares with the best of 1 to 32 KiB."""
    best = format_size(advice["ideal_bytes"])
    if advice["regret"] == 0:
        return f"none better of 1 to 32 KiB ({best})"
    return f"{best}, which gains {format_percent(advice['gain']['typical'] + advice['regret'])}"
