"""What the compiled module reports of a capture."""

from __future__ import annotations

from pagewise.types import CaptureReport


class Captured(CaptureReport):
    """What the compiled module reports of a capture, and the signal that ended it."""

    ended_by: int | None
