"""The table of a finished grid: one row per cell, in an order that depends only on the inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, cast, get_args, get_type_hints

from pagewise import _core
from pagewise.comparisons import SweepCell
from pagewise.errors import PagewiseError, UnreadableInput, UnwritableOutput
from pagewise.grids.cells import Cell
from pagewise.grids.requests import CellResult
from pagewise.grids.spec import SCHEMA
from pagewise.grids.traces import escaped
from pagewise.storage import readable, replacing
from pagewise.tables import Table


class SimulatedCell(TypedDict):
    """A cell of a sweep that simulates an architecture and has an outcome, or a simulation."""

    trace: str
    trace_sha256: NotRequired[str]
    architecture: str
    options: NotRequired[str | dict[str, str] | None]
    fast_tier_bytes: int
    fast: str
    slow: str
    fast_reads: int
    fast_writes: int
    slow_reads: int
    slow_writes: int
    io_time_s: float
    stall_time_s: NotRequired[float | None]
    wear_fast: NotRequired[float | None]
    wear_slow: NotRequired[float | None]
    seed: NotRequired[int | None]
    outcome: NotRequired[str | None]


class CountedCell(TypedDict):
    """A cell of a sweep that counts misses of a policy and has an outcome."""

    trace: str
    policy: str
    options: NotRequired[str | dict[str, str] | None]
    frames: int
    requests: int
    pages: int
    misses: int
    seed: NotRequired[int | None]
    outcome: NotRequired[str | None]


def write(output: str, cells: Sequence[Cell], results: Mapping[str, CellResult]) -> None:
    """Writes the results of ``cells`` to a path or fsspec address, completely or not at all."""
    found = sorted((row_of(cell, results[cell.key]) for cell in cells), key=_order)
    values: dict[str, list[object]] = {name: [] for name in columns()}
    for row in found:
        for name, value in row.items():
            values[name].append(value)
    listed = [
        {"name": name, "type": kind, "values": values[name]} for name, kind in columns().items()
    ]
    metadata = [["schema", SCHEMA], ["pagewise", _core.version()]]
    table = json.dumps({"metadata": metadata, "columns": listed})
    with replacing(output) as path:
        try:
            _core.write_table(str(path), table)
        except PagewiseError as error:  # names the file that would have become the results
            reason = str(error).replace(str(path), output).replace(" External:", "")
            raise UnwritableOutput(reason, path=output) from error


def read(address: str) -> list[SweepCell]:
    """The rows of a results file."""
    with readable(address) as path:
        table = _core.read_table(str(path))
    metadata = dict(table["metadata"])
    if metadata.get("schema") != SCHEMA:
        raise UnreadableInput(f"{address}: not results of pagewise sweep", path=address)
    return rows(table)


def rows(table: Table) -> list[SweepCell]:
    """The rows of a table of cells."""
    names = [column["name"] for column in table["columns"]]
    values = [column["values"] for column in table["columns"]]
    found = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    return [cast("SweepCell", row) for row in found]


TYPES = {str: "text", int: "integer", float: "number"}


def columns() -> dict[str, str]:
    """Name and type of every column."""
    hints = get_type_hints(SweepCell)
    return {
        name: TYPES[get_args(hint)[0] if get_args(hint) else hint] for name, hint in hints.items()
    }


def row_of(cell: Cell, result: CellResult) -> SweepCell:
    """The row of a cell."""
    row = cast("SweepCell", dict.fromkeys(get_type_hints(SweepCell)))
    row["key"] = cell.key
    row["trace"] = cell.trace.name
    row["trace_sha256"] = cell.trace_sha256
    row["seed"] = cell.trace.seed
    row["error"] = None if result.error is None else escaped(result.error)
    row["outcome"] = result.outcome
    cell.request.fill(row, result.outcome)
    return row


def _order(row: SweepCell) -> tuple[str | int, ...]:
    return (
        row["trace"],
        -1 if row["seed"] is None else row["seed"],
        row["architecture"] or "",
        row["policy"] or "",
        row["profile"] or "",
        row["options"] or "",
        row["fast"] or "",
        row["slow"] or "",
        row["fast_tier_bytes"] or 0,
        row["frames"] or 0,
        row["size"] or "",
        row["key"],
    )
