"""A table of a study's result; the names of its columns include units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pagewise.comparisons import Scalar, StudyTable

Row: TypeAlias = Mapping[str, Scalar]
"""Cells by column, in the order of the columns."""


@dataclass(frozen=True)
class Table:
    """Rows with the same columns; ``note`` explains how to read them.

    ``shares``: the columns with shares, which pages print as percentages.
    """

    name: str
    title: str
    note: str
    rows: Sequence[Row]
    shares: Sequence[str] = ()

    def marked(self, mark: str) -> Table:
        """The table with ``mark`` in the first cell of every row."""
        rows = [
            {
                name: f"{cell}{mark}" if index == 0 else cell
                for index, (name, cell) in enumerate(row.items())
            }
            for row in self.rows
        ]
        return replace(self, rows=rows)

    def to_json(self) -> StudyTable:
        """The table as results files and the report have it."""
        columns = list(self.rows[0]) if self.rows else []
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "columns": columns,
            "shares": [column for column in columns if column in self.shares],
            "rows": [[row[column] for column in columns] for row in self.rows],
        }
