"""What a capture of memory references returns."""

from __future__ import annotations

from typing import Literal, TypedDict

from pagewise.types import CaptureReport, StartedProcesses


class Captured(CaptureReport):
    """What the compiled module reports of a capture, and the signal that ended it."""

    ended_by: int | None


class CaptureResult(TypedDict):
    """The result of `capture`."""

    schema: str
    trace: str
    command: list[str]
    architecture: str
    references: int
    instructions: int
    reads: int
    writes: int
    steps: int
    """References that passed the filter."""
    file_bytes: int
    stop: Literal["end", "limit", "interrupt", "closed"]
    """Why the trace ends."""
    cut: str | None
    """Why there is less than the whole run; null if there is not."""
    processes: StartedProcesses | None
    exit_status: int | None
    """The exit status of the program, if it ended by itself."""
    signal: str | None
    """The signal that ended the program, if none ended the capture."""
    ended_by: int | None
    """The number of the signal that ended the capture."""
    notes: list[str]
