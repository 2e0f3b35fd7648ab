"""The interface of requests, which cells ask of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from pagewise.grids.memory import Size
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress


class Request(Protocol):
    """A question to a trace; equal requests have equal answers."""

    @property
    def place(self) -> str:
        """Where the spec has the request."""

    @property
    def kind(self) -> object:
        """Requests of one kind may share a pass over the trace."""

    def to_json(self) -> dict[str, Any]:
        """The parts that the spec sets."""

    def effective(self) -> dict[str, Any]:
        """Everything but the trace that the answer depends on. Raises UsageError if it is not
        valid."""

    def held_bytes(self, size: Size) -> int:
        """Bytes that it holds while it runs on this trace."""

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """Answers requests of one kind in one pass, each with ``outcome`` or with ``error``."""

    def inputs(self) -> dict[str, Any]:
        """The request, by column of the table."""

    def figures(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """The figures of an outcome, by column of the table."""
