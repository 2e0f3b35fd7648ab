"""What an advice hands over: lines ready to paste, and the lines that take them back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """Commands and files that set something up, and the commands that take it back."""

    title: str
    note: str
    apply: str
    undo: str
    architecture: str | None = None
    """The swap architecture that it sets up, where it is one of the catalog's."""

    def to_json(self) -> dict[str, Any]:
        """The form in results."""
        return {"title": self.title, "note": self.note, "apply": self.apply, "undo": self.undo}
