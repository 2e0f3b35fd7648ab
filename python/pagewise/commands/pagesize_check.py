"""`pagewise pagesize check`: whether programs run with larger pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Json
from pagewise.terminal import Verbatim, printable, say, show, show_json
from pagewise.units import format_count, format_size

if TYPE_CHECKING:
    from pagewise.measurements import CheckResult

EXAMPLES = ("pagewise pagesize check /usr/bin/env",)
X86 = ("x86", "x86-64")
"""Machines whose base pages are always 4 KiB."""
PATHS_SHOWN = 20
"""How many files are listed for a problem."""


def check(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Programs, libraries and APKs, or folders of them.",
            show_default=False,
        ),
    ],
    page_size: Annotated[
        str, typer.Option("--page-size", metavar="SIZE", help="Base page size of the kernel.")
    ] = "16KiB",
    json: Json = False,
) -> int:
    """Find what fails on a kernel with larger pages, and say how to fix it.

    Checks the alignment of every program, shared library and APK, and finds allocators that are
    built for a single page size. Exits with status 1 if anything would fail.
    """
    from pagewise.binaries.check import check as checked

    result = checked(paths, page_size)
    if json:
        show_json(result)
        return int(bool(result["fails"]))
    # Lines are never wrapped, so that grep finds whole paths.
    show(*(Verbatim(printable(line)) for line in _problems(result)))
    if result["fails"] and all(file["machine"] in X86 for file in result["files"]):
        say(
            "note: x86 has only 4 KiB base pages; for x86 files, this check matters only to "
            "Android's emulator and store"
        )
    if not result["files"]:
        say("note: no program, library or package was found")
    return int(bool(result["fails"]))


def _problems(result: CheckResult) -> list[str]:
    """Each problem once, with its fix and its files, then the totals.

    Certain failures come first, and of these the problems of most files.
    """
    files: dict[tuple[bool, str, str], list[str]] = {}
    for file in result["files"]:
        for problem in file["problems"]:
            kind = (bool(problem["is_certain"]), problem["what"], problem["fix"])
            files.setdefault(kind, []).append(file["path"])
    lines = []
    for (is_certain, what, fix), paths in sorted(
        files.items(), key=lambda found: (not found[0][0], -len(found[1]))
    ):
        verdict = "fails" if is_certain else "may fail"
        lines += [f"{verdict}: {what}", f"  fix: {fix}"]
        lines += [f"  {path}" for path in paths[:PATHS_SHOWN]]
        if len(paths) > PATHS_SHOWN:
            lines.append(f"  and {format_count(len(paths) - PATHS_SHOWN)} more, all with --json")
    counts = f"{result['fails']} would fail, {result['may_fail']} may"
    size = format_size(result["page_bytes"])
    return [*lines, f"{format_count(len(result['files']))} checked for pages of {size}: {counts}"]
