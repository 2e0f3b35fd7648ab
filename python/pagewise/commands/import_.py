"""`pagewise import`: convert recordings of any known format to one trace file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pagewise import recording
from pagewise.commands.columns import FORMAT, in_words, what_to_try
from pagewise.commands.info import lost_records
from pagewise.commands.options import Force, Format, Json, Map
from pagewise.commands.recordings import (
    check_losses,
    disorder,
    format_in_words,
    pairs,
    reject_lines,
)
from pagewise.commands.references import import_summary
from pagewise.errors import UnreadableInput, UsageError
from pagewise.questions import OF_OBJECTS
from pagewise.references import import_references
from pagewise.terminal import facts, say, show, show_json, watched
from pagewise.units import format_count, parse_share

if TYPE_CHECKING:
    from pagewise.types import ImportReferences, ImportReport

EXAMPLES = (
    "pagewise import trace.csv.gz -o trace.parquet --as block",
    "pagewise import a.csv -o a.parquet --as objects --map time=time,op=op,size=size,id=lbn",
    "pagewise import lackey.txt -o program.pwf --as refs",
)
REFERENCES = "refs"
As: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="swap|block|objects|refs",
        help="What a record is: block splits requests into 4 KiB pages; objects takes each record "
        "as one access to the object its id names; refs takes each as a memory reference of a "
        "program, and writes a .pwf file.",
    ),
]


def run(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Recordings, which are merged by time; .gz, .zst and .zip are decompressed; - is "
            "standard input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="TRACE", help="The trace file to write."),
    ],
    format: Format = None,
    as_: As = None,
    map_: Map = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail at a line that cannot be read; default: count it."),
    ] = False,
    loss_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with status 4 if more than this share of the records was lost, e.g. 1%.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Convert recordings of any known format to one trace file.

    Times are in nanoseconds and sizes in bytes; a page is 4 KiB. With --as refs, one file of memory
    references becomes a .pwf file.
    """
    limit = None if loss_limit is None else parse_share(loss_limit)
    if as_ == REFERENCES:
        if len(files) != 1 or map_:
            raise UsageError("--as refs takes one file, and no --map")
        with watched("importing") as progress:
            trace = import_references(
                files[0], output, format=format, strict=strict, force=force, progress=progress
            )
        show_result(trace, import_summary(trace, output), json)
        check_losses(trace["losses"], trace["references"], limit, output)
        return
    try:
        with watched("importing") as progress:
            result = recording.import_trace(
                files,
                output,
                format=format,
                as_=as_,
                map=map_,
                strict=strict,
                force=force,
                progress=progress,
            )
    except UnreadableInput as error:
        if f"no line can be read as {FORMAT}" in str(error) and len(files) == 1:
            source = recording.read(files[0], format=format, as_=as_, map=map_)
            command = ["pagewise", "import", *files, "-o", output]
            error.hint = what_to_try(command, source, str(error)) or error.hint
        raise
    show_result(result, summary(result, output), json)
    check_losses(result["losses"], result["events"], limit, output)


def show_result(
    result: ImportReport | ImportReferences, rows: list[tuple[str, str]], json: bool
) -> None:
    """Prints the bad lines, and the result as JSON or in words."""
    for line in reject_lines(result["rejects"]):
        say(line)
    if json:
        show_json(result)
    else:
        show(facts(rows))


def summary(result: ImportReport, output: str) -> list[tuple[str, str]]:
    """The rows that describe an import."""
    pages = result["pages"]
    rows = [
        ("written", output),
        ("format", format_in_words(str(result["format"]))),
        ("events", format_count(result["events"])),
        ("accesses", format_count(result["accesses"])),
        (
            "objects" if result["kind"] == OF_OBJECTS else "pages",
            "not numbered (too many for the table); analyses number them"
            if pages is None
            else format_count(pages),
        ),
    ]
    rows += [(f"skipped: {why}", format_count(count)) for why, count in pairs(result["skipped"])]
    if unused := result["unused_columns"]:
        rows.append(("columns not read", f"{in_words(unused)}; --map chooses columns"))
    rows += [*lost_records(result["losses"]), *disorder(result["disordered"])]
    if not result["accesses"]:
        seen = pairs(result["seen"])
        names = ", ".join(f"{name} ({format_count(count)})" for name, count in seen[:20])
        rows.append(("no usable event; found", names or "none"))
    return rows
