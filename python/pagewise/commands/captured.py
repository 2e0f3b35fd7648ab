"""A trace of a program's memory references, captured for as long as a command needs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pagewise.commands import capture
from pagewise.errors import UnreadableInput
from pagewise.scratch import scratch
from pagewise.signals import Ended
from pagewise.terminal import say

TRACE_SUFFIX = ".pwf"


@contextmanager
def captured(
    command: Sequence[str],
    keep: Path | None = None,
    max_refs: int | None = None,
    force: bool = False,
) -> Iterator[str]:
    """The path of a trace of this command, by `pagewise capture`; gone afterwards unless kept
    (``keep``, which replaces a file with ``force`` alone).

    What the command prints is thrown away: on a terminal it would stand between the answers, and
    compressors refuse to write there.

    Raises UnreadableInput for a path alone that is no trace and no program either, what a capture
    raises, and Ended after one that a signal ended.
    """
    name = Path(command[0])
    is_program = shutil.which(command[0]) is not None
    is_there = os.path.exists(command[0])
    if len(command) == 1 and not is_program and (name.suffix == TRACE_SUFFIX or is_there):
        raise UnreadableInput(
            f"{name}: neither a trace of memory references nor a program",
            hint="a program is executable, and is given by its path or found in PATH",
            path=str(name),
        )
    with scratch() as folder:
        trace = str(keep or folder / f"{name.name}{TRACE_SUFFIX}")
        result = capture.captured(
            command, trace, max_references=max_refs, force=force, stdout=subprocess.DEVNULL
        )
        capture.tell(result, is_kept=keep is not None)
        if result["ended_by"] is not None:
            if keep is None:
                say(
                    "note: what was captured is gone: `pagewise capture -o FILE.pwf -- COMMAND` "
                    "keeps it however it ends, and FILE.pwf then gets the answer"
                )
            raise Ended(result["ended_by"])
        yield trace
