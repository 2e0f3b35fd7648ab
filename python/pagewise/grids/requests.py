"""The interface of requests, which cells ask of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from pagewise.grids.memory import Size
from pagewise.grids.traces import Numbered
from pagewise.recording import Progress

if TYPE_CHECKING:
    from pagewise.comparisons import FailedCell, SweepCell


@dataclass(frozen=True)
class CellResult:
    """The outcome of a cell as canonical JSON text, or the error instead."""

    outcome: str | None = None
    error: str | None = None
    is_of_trace: bool = False
    """Whether the trace could not be read, so that another trace of the same content may do."""


class Request(Protocol):
    """A question to a trace; equal requests have equal answers."""

    @property
    def place(self) -> str:
        """Where the spec has the request."""

    @property
    def kind(self) -> object:
        """Requests of one kind may share a pass over the trace."""

    def to_json(self) -> Mapping[str, object]:
        """The parts that the spec sets."""

    def effective(self) -> Mapping[str, object]:
        """Everything but the trace that the answer depends on. Raises UsageError if it is not
        valid."""

    def held_bytes(self, size: Size) -> int:
        """Bytes that it holds while it runs on this trace."""

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[CellResult]:
        """Answers requests of one kind in one pass."""

    def failed(self, trace: str, error: str | None) -> FailedCell:
        """The failed cell: what this cell asked of a trace, with the error."""

    def fill(self, row: SweepCell, outcome: str | None) -> None:
        """Adds the request, and the figures of its outcome, to a row of the table."""
