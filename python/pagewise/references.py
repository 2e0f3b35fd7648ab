"""Traces of memory references: import them, say what is inside, and what is missing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import Any

from pagewise import _core
from pagewise.recording import PathLike, Progress

SCHEMA = "pagewise.references/1"
MAGIC = b"PWREFS"
"""First bytes of a trace of references."""
CAPTURE = "capture"
"""The format of a trace that was captured, among the names of formats that are imported."""
CUT = {
    "limit": "the capture ended at the number of references asked for",
    "interrupt": "the capture was interrupted",
    "closed": "the program closed the file that its references went to",
    None: "the file was cut off",
}
"""By the ``stop`` of a trace's ending, why there is less than the whole run; None: no ending."""


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

    ``ending`` {``stop``, ...} is None where the file was cut; the counts then go up to its last
    whole frame. ``cut`` says why there is less than the whole run, None where there is not. Of a
    captured program ``ending`` has ``exit_status``, or ``signal``, the name of what ended it.
    """
    return answer(_core.references_info(os.fspath(path), progress=progress))


def answer(text: str) -> dict[str, Any]:
    """The core's answer as `references_info` gives it."""
    result: dict[str, Any] = json.loads(text)
    ending = ending_of(result)
    return {"schema": SCHEMA, **result, "ending": ending, "cut": cut(ending)}


def ending_of(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """How a trace ends, from what the core tells of it: signals by name."""
    ending: dict[str, Any] | None = told["ending"]
    if ending is None or "signal" not in ending:
        return ending
    return {**ending, "signal": named_signal(ending["signal"])}


def cut(ending: Mapping[str, Any] | None) -> str | None:
    """Why a trace with this ending has less than a whole run; None of a whole one."""
    stop = None if ending is None else ending["stop"]
    if stop in CUT:
        return CUT[stop]
    if ending is not None and ending.get("signal"):
        return f"the program was ended by {ending['signal']}"
    return None


def named_signal(number: int | None) -> str | None:
    """``SIGSEGV`` of 11; real-time signals, which have no names, by their number."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
