"""Columns of a foreign CSV file: those that are not read, and the --map to try."""

from __future__ import annotations

import csv
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pagewise import _core
from pagewise.errors import PagewiseError, UsageError
from pagewise.questions import OF_OBJECTS
from pagewise.recording import Trace

FORMAT = "blockcsv"
"""The format of CSV files whose columns have roles."""
SHOWN = 20
"""How many columns a line lists."""
COLUMNS_MAX = 256
"""How many columns of a file can have a role."""
ABSENT = "\N{REPLACEMENT CHARACTER}"
"""A column that no file has."""
LISTED = "; its columns are "
"""What stands before the names in the error about an absent column."""

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
    """The names in the header line of a CSV file; empty for pipes and for other formats.

    The names come from the error about an absent column, since only the core decompresses files.
    """
    if not os.path.isfile(trace.path):
        return []
    try:
        _core.info(trace.path, trace.format, None, [("id", ABSENT)])
    except UsageError as error:
        _, listed, names = str(error).rpartition(LISTED)
        found = names.split(", ")
        is_text = names.isprintable() and ABSENT not in names
        return found if listed and is_text and 1 < len(found) <= COLUMNS_MAX else []
    except PagewiseError:
        pass
    return []


def columns_not_read(trace: Trace) -> list[str]:
    """The columns to which the core gives no role by name; empty if the caller chose columns.

    The core imports a small file with the same header line. At least one of the lines below it is
    readable: the one with R in the column of operations or, without such a column, the first.
    """
    if trace.map or not (names := columns_of(trace)):
        return []
    lines = [
        ["R" if place == operation else "1" for place in range(len(names))]
        for operation in range(-1, len(names))
    ]
    try:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "header.csv"
            with table.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([names, *lines])
            output = str(table.with_suffix(".parquet"))
            report = _core.import_trace([str(table)], output, trace.format, trace.as_, [])
    except (PagewiseError, OSError):
        return []
    return report["unused_columns"]


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
