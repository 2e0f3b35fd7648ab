"""A trace of a program's memory references that exists only while a command needs it."""

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
    *,
    threads: bool = False,
    requests_huge_pages: bool = False,
) -> Iterator[str]:
    """Captures ``command``, and yields the path of the trace.

    Removes the trace afterwards, unless ``keep`` names a file for it; ``force`` lets it replace an
    existing file. ``threads``: keep the references of all threads. ``requests_huge_pages`` is that
    of `capture`. The output of the command goes to /dev/null: a terminal would mix it with the
    answer, and compressors refuse to write to a terminal.

    Raises UnreadableInput for a single word that is neither a trace nor a program, Ended if a
    signal ended the capture, and what `capture` raises.
    """
    name = Path(command[0])
    is_program = shutil.which(command[0]) is not None
    is_there = os.path.exists(command[0])
    if len(command) == 1 and not is_program and (name.suffix == TRACE_SUFFIX or is_there):
        raise UnreadableInput(
            f"{name}: neither a trace of memory references nor a program",
            hint="a program must be executable; give its path, or a name in PATH",
            path=str(name),
        )
    with scratch() as folder:
        trace = str(keep or folder / f"{name.name}{TRACE_SUFFIX}")
        result = capture.captured(
            command,
            trace,
            max_references=max_refs,
            threads=threads,
            requests_huge_pages=requests_huge_pages,
            force=force,
            stdout=subprocess.DEVNULL,
        )
        capture.summarize(result, is_kept=keep is not None)
        if result["ended_by"] is not None:
            if keep is None:
                say(
                    "note: the captured trace was deleted; to keep it even when interrupted, run "
                    "`pagewise capture -o FILE.pwf -- COMMAND`, then give FILE.pwf to this command"
                )
            raise Ended(result["ended_by"])
        yield trace
