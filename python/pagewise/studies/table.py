"""A table of a study's result, beside its figures: named columns, their units in their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float | None
"""None where it was not measured."""


@dataclass(frozen=True)
class Table:
    """``note`` says how to read it."""

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]

    def to_json(self) -> dict[str, Any]:
        """The form that results files and the report use."""
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
        }
