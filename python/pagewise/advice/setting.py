"""A setting: lines ready to paste, and the lines that undo them."""

from __future__ import annotations

from dataclasses import dataclass

from pagewise import answers


@dataclass(frozen=True)
class Setting:
    """Commands and files that set something up, and the commands that undo it."""

    title: str
    note: str
    apply: str
    undo: str
    architecture: str | None = None
    """The swap architecture of the catalog that it sets up, if any."""

    def to_json(self) -> answers.Setting:
        """The form in results."""
        return {"title": self.title, "note": self.note, "apply": self.apply, "undo": self.undo}
