"""A trace of a program's memory references, captured for as long as a command needs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from pagewise.__main__ import INTERRUPTED
from pagewise.errors import UnreadableInput


@contextmanager
def captured(
    command: Sequence[str], keep: Path | None = None, max_refs: int | None = None
) -> Iterator[str]:
    """The path of a trace of this command, by `pagewise capture`; gone afterwards unless kept.

    Ends the command line as the capture ended where it was interrupted or failed. Raises
    UnreadableInput for what is no program; a damaged trace ends here too.
    """
    name = command[0]
    if shutil.which(name) is None:
        raise UnreadableInput(
            f"{name}: neither a trace of memory references nor a program",
            hint="a program is executable, and is given by its path or found in PATH",
            path=name,
        )
    with TemporaryDirectory(prefix="pagewise-") as folder:
        trace = str(keep or Path(folder) / f"{Path(name).name}.pwf")
        limit = [] if max_refs is None else ["--max-refs", str(max_refs)]
        capture = [sys.executable, "-m", "pagewise", "capture", *limit, "-o", trace]
        ended = subprocess.run([*capture, "--", *command], check=False, stdout=sys.stderr)
        if ended.returncode == INTERRUPTED:
            raise KeyboardInterrupt
        if ended.returncode != 0:
            raise typer.Exit(ended.returncode)
        yield trace
