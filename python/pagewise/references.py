"""Traces of memory references: import them, and say what is inside."""

from __future__ import annotations

import json
import os
from typing import Any

from pagewise import _core
from pagewise.recording import PathLike, Progress

MAGIC = b"PWREFS"
"""First bytes of a trace of references."""


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
) -> dict[str, Any]:
    """Reads a foreign file of references (``-`` is standard input) into a trace of references.

    ``format``: ``lackey``, ``refs3`` or ``addresses``, otherwise recognised by content. ``strict``:
    a line that cannot be read is an error, not counted. ``force``: overwrite ``output``.

    Returns counts of references, instructions, reads, writes, steps and rejected lines. Raises
    UnreadableInput, UsageError; ``output`` appears whole or not at all.
    """
    report: dict[str, Any] = json.loads(
        _core.import_references(
            os.fspath(path),
            os.fspath(output),
            format,
            strict=strict,
            force=force,
            progress=progress,
        )
    )
    return {"schema": "pagewise.import-references/1", **report}


def references_info(path: PathLike, *, progress: Progress | None = None) -> dict[str, Any]:
    """What a trace of references holds, where it comes from and how it ends.

    ``ending`` is None where the file was cut; the counts then go up to its last whole frame.
    """
    result: dict[str, Any] = json.loads(_core.references_info(os.fspath(path), progress=progress))
    return {"schema": "pagewise.references/1", **result}
