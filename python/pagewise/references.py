"""Traces of memory references: import them, say what is inside, and what is missing."""

from __future__ import annotations

import os
import signal

from pagewise import _core
from pagewise.recording import PathLike, Progress
from pagewise.types import ImportReferences, References

SCHEMA = "pagewise.references/1"
MAGIC = b"PWREFS"
"""First bytes of a trace of references."""
CAPTURE = "capture"
"""The format of a trace that was captured, among the names of formats that are imported."""


def is_references(path: PathLike) -> bool:
    """Whether a regular file is a trace of references; of a pipe nothing is read."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def import_references(
    path: PathLike,
    output: PathLike,
    *,
    format: str | None = None,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> ImportReferences:
    """Reads a foreign file of references (``-`` is standard input) into a trace of references.

    ``format``: ``lackey``, ``refs3`` or ``addresses``, otherwise recognised by content. ``strict``:
    a line that cannot be read is an error, not counted. ``force``: overwrite ``output``.

    Returns counts of references, instructions, reads, writes, steps and rejected lines. Raises
    UnreadableInput, UsageError; ``output`` appears whole or not at all.
    """
    return _core.import_references(
        os.fspath(path),
        os.fspath(output),
        format,
        strict=strict,
        force=force,
        progress=progress,
    )


def references_info(path: PathLike, *, progress: Progress | None = None) -> References:
    """What a trace of references holds, where it comes from and how it ends.

    ``ending`` {``stop``, ...} is None where the file was cut; the counts then go up to its last
    whole frame. ``cut`` says why there is less than the whole run, None where there is not. Of a
    captured program ``ending`` has ``exit_status``, or ``signal``, the name of what ended it.
    """
    return _core.references_info(os.fspath(path), progress=progress)


def named_signal(number: int | None) -> str | None:
    """``SIGSEGV`` of 11; real-time signals, which have no names, by their number."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
