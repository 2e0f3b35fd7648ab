"""Columns of a foreign CSV file: those that are not read, and the --map to try."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from pagewise import _core
from pagewise.errors import PagewiseError
from pagewise.questions import OF_OBJECTS
from pagewise.recording import Trace

FORMAT = "blockcsv"
"""The format of CSV files whose columns have roles."""
SHOWN = 20
"""How many columns a line lists."""
COLUMNS_MAX = 256
"""How many columns of a file can have a role."""

USUAL = {
    "time": re.compile(r"time|stamp|clock|when|date|^ts?$"),
    "op": re.compile(r"op(eration|_name|code)?$|^rw|^(io_)?type$|^cmd$|kind"),
    "sector": re.compile(r"sector$|lba|lbn"),
    "id": re.compile(r"(block|object|obj|page|item)(_?id)?$|^id$|key$"),
}
"""Usual names of columns, to suggest a --map. The names that need no --map are in
crates/trace/src/formats/csv_columns.rs."""


def in_words(names: Sequence[str]) -> str:
    """The first of the columns, with commas."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def columns_of(trace: Trace) -> list[str]:
    """The names in the header line of a CSV file; empty for pipes and for other formats."""
    return _columns(trace)[0]


def columns_not_read(trace: Trace) -> list[str]:
    """The columns of a CSV file that are not read; empty if the caller chose columns."""
    return [] if trace.map else _columns(trace)[1]


def _columns(trace: Trace) -> tuple[list[str], list[str]]:
    """All columns of a CSV file in order, and those that are not read, sorted.

    Empty for a pipe, which cannot be read twice, and for a file that cannot be read.
    """
    if not os.path.isfile(trace.path):
        return [], []
    try:
        names, unread = _core.csv_columns(trace.path, trace.format, trace.as_) or ([], [])
    except PagewiseError:
        return [], []
    is_table = 1 < len(names) <= COLUMNS_MAX
    return (names, sorted(set(unread))) if is_table else ([], [])


def what_to_try(command: Sequence[str], trace: Trace, expected: str) -> str | None:
    """The columns of a file of which no line can be read, and the ``command`` with a --map to try.

    ``expected`` is what the first line lacks, whose column is left out. None if the file has no
    header line, or if the caller chose columns.
    """
    if trace.map or not (names := columns_of(trace)):
        return None
    chosen: dict[str, str] = {}
    for role, usual in USUAL.items():
        free = (
            name for name in names if name not in chosen.values() and not re.search("[,=]", name)
        )
        name = next(filter(usual.search, free), None)
        if name and f"as {role}" not in expected:
            chosen[role] = name
    is_of_requests = "sector" in chosen and trace.as_ != OF_OBJECTS
    chosen.pop("id" if is_of_requests else "sector", None)
    chosen.setdefault("sector" if is_of_requests else "id", "COLUMN")
    mapping = "block" if is_of_requests else OF_OBJECTS
    columns = ",".join(f"{role}={name}" for role, name in chosen.items())
    words = shlex.join([*command, "--as", mapping, "--map", columns])
    return f"its columns are {in_words(names)}; choose those to read, for example:\n  {words}"
