"""Reference traces: import them, describe them, and say what is missing."""

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
"""First bytes of a reference trace."""
CAPTURE = "capture"
"""The format of a captured trace; imported traces have other formats."""
CUT = {
    "limit": "the capture ended at the requested number of references",
    "interrupt": "the capture was interrupted",
    "closed": "the program closed the file that its references went to",
    None: "the file was cut off",
}
"""Why a trace has less than the whole run, by the ``stop`` of its ending; None: no ending."""


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
) -> dict[str, Any]:
    """Imports a foreign file of references (``-`` is standard input) as a reference trace.

    ``format``: ``lackey``, ``refs3`` or ``addresses``; by default, by content. ``strict``: fail at
    a line that cannot be read, instead of counting it. ``force``: replace ``output``.

    Returns counts of references, instructions, reads, writes, steps and rejected lines. Raises
    UnreadableInput, UsageError; ``output`` is written completely or not at all.
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
    """What a reference trace holds, where it comes from and how it ends.

    ``ending`` {``stop``, ...} is None if the file was cut off; the counts then cover its whole
    frames. ``cut`` says why there is less than the whole run, and is None if there is not. For a
    captured program, ``ending`` has ``exit_status``, or ``signal``, the name of the signal that
    ended it.
    """
    return answer(_core.references_info(os.fspath(path), progress=progress))


def answer(text: str) -> dict[str, Any]:
    """The core's JSON answer as the result of `references_info`."""
    result: dict[str, Any] = json.loads(text)
    ending = ending_of(result)
    return {"schema": SCHEMA, **result, "ending": ending, "cut": cut(ending)}


def ending_of(answered: Mapping[str, Any]) -> dict[str, Any] | None:
    """How a trace ends, with signals by name."""
    ending: dict[str, Any] | None = answered["ending"]
    if ending is None or "signal" not in ending:
        return ending
    return {**ending, "signal": named_signal(ending["signal"])}


def cut(ending: Mapping[str, Any] | None) -> str | None:
    """Why a trace with this ending has less than the whole run; None if it has the whole run."""
    stop = None if ending is None else ending["stop"]
    if stop in CUT:
        return CUT[stop]
    if ending is not None and ending.get("signal"):
        return f"the program was ended by {ending['signal']}"
    return None


def named_signal(number: int | None) -> str | None:
    """``SIGSEGV`` for 11; the number for real-time signals, which have no names."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
