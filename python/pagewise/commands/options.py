"""Arguments and options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pagewise.errors import UsageError
from pagewise.recording import Trace, read
from pagewise.terminal import say
from pagewise.units import format_count

if TYPE_CHECKING:
    from pagewise.types import Loss

TracePath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace file made by `pagewise import`, or any recording it can import; "
        "- is standard input.",
        show_default=False,
    ),
]
TracePaths: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="Trace files made by `pagewise import`, or any recordings it can import; "
        "- is standard input.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to standard output and nothing else.")
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the recording (see `pagewise list formats`); default: by content.",
    ),
]
As: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="swap|block|objects",
        help="What a record is: block splits requests into 4 KiB pages; objects takes each record "
        "as one access to the object its id names.",
    ),
]
Map: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="ROLE=COLUMN,...",
        help="Columns of a CSV file by role: time, op, id, sector, offset (bytes), sectors, "
        "size (bytes), process and device.",
    ),
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Overwrite the output file if it exists.")
]
PageSize: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--page-size",
        metavar="SIZE",
        help="Group accesses into larger pages, which move as a whole: a power of two from 4KiB "
        "up, e.g. 16KiB.",
    ),
]
SampleOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="SHARE|PAGES",
        help="Estimate from a sample of the pages, chosen by a hash: a share such as 1%, but at "
        "least 16,000 pages, or at most a number of pages such as 32k. Results state their 95 % "
        "confidence intervals.",
    ),
]
MemoryLimit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Stay below this memory, e.g. 2GiB, with exact results: pages are numbered on disk "
        "(in TMPDIR) if necessary. A recording that needs more is refused.",
    ),
]
Options: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Set an option of the architecture (see `pagewise list architectures --json`), or "
        "readahead=off|recorded|kernel, queueing=no|yes, or clean_evictions=none|inferred. May be "
        "given several times.",
    ),
]


def epilog(examples: Sequence[str]) -> str:
    """Examples as the epilog of a help text."""
    return "\n".join(examples)


def opened(path: str, format: str | None, as_: str | None, map_: str | None) -> Trace:
    """The recording that the shared options describe.

    Prints to standard error which columns of a CSV file are not read.
    """
    from pagewise.commands.columns import columns_not_read, in_words

    trace = read(path, format=format, as_=as_, map=map_)
    if names := columns_not_read(trace):
        say(f"note: {path}: columns not read: {in_words(names)}; --map chooses columns", path=path)
    return trace


def tell_losses(all_losses: Sequence[Loss], name: str = "the recording") -> None:
    """Prints to standard error what a recording lost, if it lost anything."""
    losses = [loss for loss in all_losses if loss["count"]]
    if losses:
        total = sum(loss["count"] for loss in losses)
        parts = ", ".join(f"{loss['what']}: {format_count(loss['count'])}" for loss in losses)
        records = "record" if total == 1 else "records"
        say(f"note: {name} lost {format_count(total)} {records} ({parts}); see pagewise info")


def tell_unchecked(folder: str | Path) -> None:
    """Prints to standard error which tables of a run have no checksums."""
    from pagewise.launch_runs import unchecked_tables

    for path in unchecked_tables(Path(folder)):
        say(f"note: {path} has no checksums, so a flipped bit may go unnoticed", path=str(path))


def name_values(pairs: list[str] | None) -> dict[str, str]:
    """``["entry_bit=0"]`` as a dictionary."""
    values = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"not NAME=VALUE: {pair!r}", hint="for example: --option entry_bit=0")
        if name.strip() in values:
            raise UsageError(f"--option {name.strip()} is given twice")
        values[name.strip()] = value.strip()
    return values
