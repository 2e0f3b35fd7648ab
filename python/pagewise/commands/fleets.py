"""How commands answer for a folder of recordings, and print the spread of figures over them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pagewise.commands.fleet_tables import lines
from pagewise.engines.recordings import runner_named
from pagewise.errors import UsageError
from pagewise.fleet import (
    REASONS_MAX,
    FiguresOf,
    Fleet,
    Unreadable,
    by_reason,
    error_of,
    files_in_words,
    files_of,
    lossy,
    summary,
)
from pagewise.fleet_figures import ERRORS, SAMPLE_ERROR_MAX
from pagewise.storage import is_remote, local_path, refuse_unwritable
from pagewise.terminal import say, show, show_json, watched
from pagewise.units import format_count, format_counted, format_share, format_size

FleetReport: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="For a folder or a pattern: also write a page with the spread of each figure, every "
        "recording, and those that are unlike the others.",
    ),
]
FleetEngine: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray",
        help="For a folder or a pattern: read recordings on this machine, or on a Ray cluster.",
    ),
]
FleetAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster, e.g. ray://head:10001; default: start one on this machine.",
    ),
]
FleetJobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        max=1024,
        help="For a folder or a pattern: how many recordings are read at once; default: 1, on Ray "
        "all cores.",
    ),
]


@dataclass(frozen=True)
class FleetOptions:
    """The options that only a folder or a pattern takes."""

    report: str | None = None
    force: bool = False
    engine: str = "local"
    address: str | None = None
    jobs: int | None = None

    def refuse_for_single(self, traces: Sequence[str], instead: str | None = None) -> None:
        """Raises UsageError if one of the options is given, since no recording is a folder.

        ``instead``: how to make a report of single recordings; default: by `pagewise report`.
        """
        if self.report is not None:
            made = shlex.join(["pagewise", "report", *traces, "-o", self.report])
            raise UsageError(
                "--report works only for a folder or a pattern",
                hint=instead or f"for one recording: {made}",
            )
        if self.force:
            raise UsageError("--force needs --report")
        self.refuse_engine()

    def refuse_engine(self) -> None:
        """Raises UsageError if an engine is chosen."""
        if self.engine != "local" or self.address is not None or self.jobs is not None:
            raise UsageError("--engine, --address and --jobs work only for a folder or a pattern")


def show_fleet(
    command: str,
    paths: Sequence[str],
    figures_of: FiguresOf,
    options: FleetOptions,
    *,
    json: bool,
) -> Fleet:
    """Computes the figures of all recordings in folders and patterns, and prints their spread.

    With a report also writes the page. If no file can be read, prints nothing and raises
    UnreadableInput with the reasons, or UsageError if each file rules out the request.
    """
    files = list(dict.fromkeys(file for path in paths for file in files_of(path)))
    refuse_page(options, files)
    with (
        to_stderr(options.engine != "local"),
        watched("reading", counted="recordings") as progress,
        runner_named(options.engine, address=options.address, jobs=options.jobs) as run,
    ):
        result = summary(command, files, figures_of, run=run, progress=progress)
    if json:
        show_json(result)
    else:
        show(*lines(result))
    tell_unreadable(result["unreadable"])
    tell_lossy(result)
    tell_small_samples(result)
    if options.report is not None:
        from pagewise.report import report as build

        made = build([dict(result)], options.report, force=options.force)
        say(f"{made['path']}: {format_size(made['bytes'])}", path=made["path"])
    return result


def refuse_page(options: FleetOptions, files: Sequence[str]) -> None:
    """Raises UsageError if the page of a report cannot be written, or would replace an input."""
    if options.report is None:
        if options.force:
            raise UsageError("--force needs --report")
        return
    page = Path(options.report)
    refuse_unwritable(page, force=options.force)
    local = [local_path(file) for file in files if not is_remote(file)]
    if page.exists() and any(page.samefile(file) for file in local):
        raise UsageError(
            f"{options.report} is also an input",
            hint="name a file outside the folder for --report",
        )


@contextmanager
def to_stderr(is_wanted: bool) -> Iterator[None]:
    """Prints to standard error meanwhile, if wanted: Ray prints when a worker dies."""
    if is_wanted:
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield


def tell_unreadable(unreadable: Sequence[Unreadable]) -> None:
    """Prints to standard error which files were left out, by reason."""
    grouped = by_reason(unreadable)
    for why, traces in grouped[:REASONS_MAX]:
        say(f"note: left out {files_in_words(traces)}: {why}", path=traces[0])
    if more := sum(len(traces) for _, traces in grouped[REASONS_MAX:]):
        say(
            f"note: left out {format_counted(more, 'more file')} for other reasons; --json lists "
            "all"
        )


def tell_lossy(result: Fleet) -> None:
    """Prints to standard error how many recordings lost records, and the one that lost most."""
    found = lossy(result["recordings"])
    if found:
        trace = found[0]["trace"]
        such = ", such as" if len(found) > 1 else ":"
        say(
            f"note: {format_counted(len(found), 'recording')} lost records{such} {trace} "
            f"({format_count(found[0].get('lost', 0))}); `pagewise info FILE` lists them",
            path=trace,
        )


def tell_small_samples(result: Fleet) -> None:
    """Prints to standard error that samples are too small for good estimates, if half are."""
    for name, what in ERRORS.items():
        error = error_of(result["recordings"], name)
        if error > SAMPLE_ERROR_MAX:
            say(
                f"note: in half of the recordings the sample is so small that {what} may be off by "
                f"{format_share(error)} or more, so there are neither outliers nor groups; "
                "--sample 32k takes 32,000 pages of large recordings, and small ones whole"
            )
