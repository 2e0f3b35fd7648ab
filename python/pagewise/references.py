"""Reference traces: import them, describe them, and say what is missing."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from pagewise import _core
from pagewise.recording import PathLike, Progress

if TYPE_CHECKING:
    from pagewise.types import ImportReferences, References

SCHEMA = "pagewise.references/1"
MAGIC = b"PWREFS"
"""First bytes of a reference trace."""
CAPTURE = "capture"
"""The format of a captured trace; imported traces have other formats."""


def is_references(path: PathLike) -> bool:
    """Whether a regular file is a reference trace; reads nothing from a pipe."""
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
    """Imports a foreign file of references (``-`` is standard input) as a reference trace.

    ``format``: ``drmemtrace``, ``lackey``, ``refs3`` or ``addresses``; by default, by content.
    ``strict``: fail at a line that cannot be read, instead of counting it. ``force``: replace
    ``output``.

    Returns counts of references, instructions, reads, writes, steps and rejected lines. Raises
    UnreadableInput, UsageError; ``output`` is written completely or not at all.
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
    """What a reference trace holds, where it comes from and how it ends.

    ``ending`` {``stop``, ...} is None if the file was cut off; the counts then cover its whole
    frames. ``cut`` says why there is less than the whole run, and is None if there is not. For a
    captured program, ``ending`` has ``exit_status``, or ``signal``, the name of the signal that
    ended it.
    """
    return _core.references_info(os.fspath(path), progress=progress)


def named_signal(number: int | None) -> str | None:
    """``SIGSEGV`` for 11; the number for real-time signals, which have no names."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
