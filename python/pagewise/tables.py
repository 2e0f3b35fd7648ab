"""Small result tables as the core reads and writes them (crates/trace/src/table.rs)."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

Value: TypeAlias = str | int | float | bool | None


class Column(TypedDict):
    """A named column."""

    name: str
    """Name of the column, unique in the table."""
    type: Literal["text", "integer", "number", "flag"]
    """Type of the values."""
    values: list[Value]
    """Values of the column, one per row; None is a gap."""


class Table(TypedDict):
    """A table: columns of equal length, and metadata."""

    metadata: list[tuple[str, str]]
    """Names and values stored beside the columns."""
    columns: list[Column]
    """The columns in order."""
