"""The table of a finished grid: one row per cell, in an order that depends only on the inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pagewise import _core
from pagewise.errors import UnreadableInput
from pagewise.grids.cells import Cell, CellResult
from pagewise.grids.spec import SCHEMA
from pagewise.storage import readable, replacing


def write(output: str, cells: Sequence[Cell], results: Mapping[str, CellResult]) -> None:
    """Writes the results of ``cells`` to a path or fsspec address, completely or not at all."""
    rows = sorted((_row(cell, results[cell.key]) for cell in cells), key=_order)
    columns = [
        {"name": name, "type": kind, "values": [row[name] for row in rows]}
        for name, kind in COLUMNS.items()
    ]
    metadata = [["schema", SCHEMA], ["pagewise", _core.version()]]
    table = json.dumps({"metadata": metadata, "columns": columns})
    with replacing(output) as path:
        _core.write_table(str(path), table)


def read(address: str) -> list[dict[str, Any]]:
    """The rows of a results file, each a dictionary by column name."""
    with readable(address) as path:
        table = _core.read_table(str(path))
    metadata = dict(table["metadata"])
    if metadata.get("schema") != SCHEMA:
        raise UnreadableInput(f"{address}: not results of pagewise sweep", path=address)
    names = [column["name"] for column in table["columns"]]
    values = [column["values"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


COLUMNS = {
    "key": "text",
    "trace": "text",
    "trace_sha256": "text",
    "seed": "integer",
    "architecture": "text",
    "profile": "text",
    "options": "text",
    "fast_tier_bytes": "integer",
    "fast": "text",
    "slow": "text",
    "fast_reads": "integer",
    "fast_writes": "integer",
    "fast_bytes_written": "integer",
    "slow_reads": "integer",
    "slow_writes": "integer",
    "promotions": "integer",
    "demotions": "integer",
    "io_time_s": "number",
    "stall_time_s": "number",
    "wear_fast": "number",
    "wear_slow": "number",
    "error": "text",
    "outcome": "text",
    "policy": "text",
    "size": "text",
    "frames": "integer",
    "requests": "integer",
    "pages": "integer",
    "misses": "integer",
    "miss_ratio": "number",
}
"""Name and type of every column. ``options`` are those in the spec, and ``outcome`` is the output
of `pagewise simulate --json` or `misses --json`; both are JSON text."""


def _row(cell: Cell, result: CellResult) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "key": cell.key,
        "trace": cell.trace.name,
        "trace_sha256": cell.trace_sha256,
        "seed": cell.trace.seed,
        "error": result.error,
        "outcome": result.outcome,
        **cell.request.inputs(),
    }
    if result.outcome is not None:
        row |= cell.request.figures(json.loads(result.outcome))
    return row


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        row["trace"],
        -1 if row["seed"] is None else row["seed"],
        row["architecture"] or "",
        row["policy"] or "",
        row["profile"] or "",
        row["options"],
        row["fast"] or "",
        row["slow"] or "",
        row["fast_tier_bytes"] or 0,
        row["frames"] or 0,
        row["size"] or "",
        row["key"],
    )
