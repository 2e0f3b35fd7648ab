"""What a cell of a grid asks of the core, whatever it asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from pagewise.grids.memory import Size
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress


class Request(Protocol):
    """One question to a trace; equal requests have equal answers."""

    @property
    def place(self) -> str:
        """Where it is in the spec."""

    @property
    def kind(self) -> object:
        """Requests of one kind may share a pass over the trace."""

    def to_json(self) -> dict[str, Any]:
        """What the spec sets."""

    def effective(self) -> dict[str, Any]:
        """All that the answer depends on beside the trace. Raises UsageError for what cannot be."""

    def held_bytes(self, size: Size) -> int:
        """What it holds while it runs on such a trace."""

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """Answers requests of one kind in one pass: each with ``outcome``, or with ``error``."""

    def inputs(self) -> dict[str, Any]:
        """What it asks, by column of the table."""

    def figures(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """What an outcome says, by column of the table."""
