"""`pagewise capture`: run a program and record its memory references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Force, Json
from pagewise.commands.references import bits_per_reference, counts, how_it_ended
from pagewise.signals import Ended
from pagewise.terminal import facts, say, show_aside, show_json, watched

if TYPE_CHECKING:
    from pagewise.measurements import CaptureResult

EXAMPLES = (
    "pagewise capture -o xz.pwf -- xz -k -c /bin/bash > /dev/null",
    "pagewise capture --max-refs 100000000 -o play.pwf -- ./game-arm64 --demo",
    "pagewise capture --filter 4 -o ls.pwf -- ls -l",
)
STDERR = 2


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...",
            help="The program and its arguments. It may be for this processor or for another that "
            "QEMU emulates (i386, x86_64, arm, aarch64, riscv64). For a script, the interpreter "
            "is captured.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="TRACE.pwf", help="The trace file to write.")
    ],
    max_refs: Annotated[
        int | None,
        typer.Option("--max-refs", metavar="N", min=1, help="End the program after N references."),
    ] = None,
    threads: Annotated[
        bool,
        typer.Option(
            "--threads",
            help="Keep the references of all threads, in the order in which they ran, as if on "
            "one core. Default: keep the first thread's, and only count the other threads.",
        ),
    ] = False,
    filter_blocks: Annotated[
        int,
        typer.Option(
            "--filter",
            metavar="N",
            min=4,
            max=64,
            help="Blocks that the filter holds. TLBs with at least N ways are counted exactly; "
            "fewer blocks make a larger trace.",
        ),
    ] = 64,
    request_huge_pages: Annotated[
        bool,
        typer.Option(
            "--request-huge-pages",
            help="Let glibc's malloc request huge pages, as `pagewise pagesize verify` does.",
        ),
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a program and record its memory references: instructions, reads and writes.

    The program runs under QEMU, many times slower than natively. Forked children and programs that
    it executes are counted but not followed. Ctrl-C ends the program and keeps what was captured
    (status 130); so do SIGTERM (143), SIGHUP (129) and SIGQUIT (131). The summary includes the
    program's exit status. With --json, the program's output goes to standard error.
    """
    result = captured(
        command,
        output,
        max_references=max_refs,
        threads=threads,
        filter_blocks=filter_blocks,
        requests_huge_pages=request_huge_pages,
        force=force,
        stdout=STDERR if json else None,
    )
    if json:
        show_json(result)
    else:
        summarize(result)
    if result["ended_by"] is not None:
        raise Ended(result["ended_by"])


def captured(
    command: Sequence[str],
    output: str,
    *,
    max_references: int | None,
    threads: bool = False,
    filter_blocks: int = 64,
    requests_huge_pages: bool = False,
    force: bool,
    stdout: int | None,
) -> CaptureResult:
    """Runs `pagewise.capture.run.capture`, shows its progress and prints its notes."""
    from pagewise.capture.run import capture

    with watched("capturing", counted="references") as progress:
        result = capture(
            command,
            output,
            max_references=max_references,
            threads=threads,
            filter_blocks=filter_blocks,
            requests_huge_pages=requests_huge_pages,
            force=force,
            stdout=stdout,
            progress=progress,
        )
    for note in result["notes"]:
        say(f"note: {note}")
    return result


def summarize(result: CaptureResult, *, is_kept: bool = True) -> None:
    """Prints what was captured to standard error, since standard output is the program's.

    Names the trace file only if it is kept.
    """
    written = [("written", result["trace"])] if is_kept else []
    show_aside(facts([*written, *summary(result)]))


def summary(result: CaptureResult) -> list[tuple[str, str]]:
    """The rows that describe a capture."""
    return [
        ("architecture", result["architecture"]),
        *counts(result),
        ("bits per reference", bits_per_reference(result)),
        ("ending", how_it_ended(result, result["cut"])),
    ]
