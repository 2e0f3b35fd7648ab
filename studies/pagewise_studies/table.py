"""A table of a study's result, beside its figures; units stand in the names of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float | None
"""None where it was not measured."""
Row: TypeAlias = Mapping[str, Cell]
"""Cells by column, in the order of the columns."""


@dataclass(frozen=True)
class Table:
    """Rows with the same columns; ``note`` says how to read them.

    ``shares``: the columns whose figures are shares, which people read as percentages.
    """

    name: str
    title: str
    note: str
    rows: Sequence[Row]
    shares: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The form that results files and the report use."""
        columns = list(self.rows[0]) if self.rows else []
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "columns": columns,
            "shares": [column for column in columns if column in self.shares],
            "rows": [[row[column] for column in columns] for row in self.rows],
        }
