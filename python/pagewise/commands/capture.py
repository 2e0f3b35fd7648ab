"""`pagewise capture`: a program's memory references, as it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from pagewise.commands.options import Force, Json
from pagewise.commands.references import bits_per_reference, counts, how_it_ended
from pagewise.signals import Ended
from pagewise.terminal import facts, say, show_aside, show_json, watched

EXAMPLES = (
    "pagewise capture -o xz.pwf -- xz -k -c /bin/bash > /dev/null",
    "pagewise capture --max-refs 100000000 -o play.pwf -- ./game-arm64 --demo",
)
STDERR = 2


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...",
            help="The program and its arguments: of this processor, or of another that QEMU knows "
            "(i386, x86_64, arm, aarch64, riscv64); of a script, its interpreter is captured.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="TRACE.pwf", help="The trace file to write.")
    ],
    max_refs: Annotated[
        int | None,
        typer.Option(
            "--max-refs", metavar="N", min=1, help="End the program after so many references."
        ),
    ] = None,
    threads: Annotated[
        bool,
        typer.Option(
            "--threads",
            help="Keep the references of all threads, in the order in which they came, as of one "
            "core that runs them all. Default: the first thread's; others are counted.",
        ),
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a program and record what it does to its memory: instructions, reads and writes.

    It runs under QEMU, many times slower than without. Forked children and programs that take its
    place are counted and not followed. Ctrl-C ends it and keeps what was captured (status 130);
    so do SIGTERM (143), SIGHUP (129) and SIGQUIT (131). The program's own exit status is told. With
    --json its output goes to standard error.
    """
    result = captured(
        command,
        output,
        max_references=max_refs,
        threads=threads,
        force=force,
        stdout=STDERR if json else None,
    )
    if json:
        show_json(result)
    else:
        tell(result)
    if result["ended_by"] is not None:
        raise Ended(result["ended_by"])


def captured(command: Sequence[str], output: str, **options: Any) -> dict[str, Any]:
    """`capture` with its progress shown, and its notes said."""
    from pagewise.capture.run import capture

    with watched("capturing", counted="references") as progress:
        result = capture(command, output, progress=progress, **options)
    for note in result["notes"]:
        say(f"note: {note}")
    return result


def tell(result: Mapping[str, Any], *, is_kept: bool = True) -> None:
    """Says what was captured, and where it is if that is not for a while alone; standard output is
    the program's."""
    written = [("written", result["trace"])] if is_kept else []
    show_aside(facts([*written, *summary(result)]))


def summary(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was captured, in a few lines."""
    return [
        ("architecture", result["architecture"]),
        *counts(result),
        ("bits per reference", bits_per_reference(result)),
        ("ending", how_it_ended(result, result["cut"])),
    ]
