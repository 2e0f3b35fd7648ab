"""Cells that count the misses of an eviction policy at one size of memory."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Self, TypedDict, cast

from pagewise import _core
from pagewise.errors import UsageError
from pagewise.grids import memory
from pagewise.grids.key import canonical
from pagewise.grids.memory import Size
from pagewise.grids.requests import CellResult
from pagewise.grids.traces import Numbered
from pagewise.policies import written
from pagewise.recording import Progress
from pagewise.units import DIGITS_MAX, parse_frames

if TYPE_CHECKING:
    from pagewise.comparisons import FailedCell, SweepCell
    from pagewise.types import DescribedPolicy, Misses

FRAMES_MAX = 2**32 - 1
BYTES_PER_ACCESS = 8
"""Bytes per access of a policy that knows the future, while it reads the trace and afterwards."""


@dataclass(frozen=True)
class MemorySize:
    """A size as written in the spec: a number of frames, or a share of a trace's distinct pages."""

    text: str
    frames: int = 0
    share: Fraction | None = None

    def of(self, pages: int) -> int:
        """The frames for a trace with ``pages`` distinct pages; shares are rounded up."""
        return self.frames if self.share is None else math.ceil(self.share * pages)


def parse_memory(value: object) -> MemorySize:
    """Parses ``1000`` or ``"1000"`` pages, ``"64MiB"``, or ``"10%"`` of a trace's distinct
    pages."""
    text = str(value).strip()
    if text.endswith("%"):
        return MemorySize(text, share=_share(text))
    frames = parse_frames(text if isinstance(value, str) else value)  # type: ignore[arg-type]
    if frames > FRAMES_MAX:
        raise UsageError(f"{text}: {frames} frames are more than {FRAMES_MAX:,}")
    return MemorySize(text, frames)


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text[:-1].strip()) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise UsageError(f"not a share: {text[:DIGITS_MAX]!r}", hint="for example 10%")
    return share


class ReplacementRequest(TypedDict):
    """The parts of a request that the spec sets."""

    policy: str
    options: dict[str, str]
    size: str


class EffectivePolicy(TypedDict):
    """A policy with every option, and its size: frames, or a share of the trace's pages."""

    policy: str
    options: dict[str, str]
    frames: int | None
    share_of_pages: str | None


@dataclass(frozen=True)
class Replacement:
    """An eviction policy at one size of memory.

    ``options`` holds only the options in the spec. ``place`` is where the spec has the request.
    """

    policy: str
    size: MemorySize
    options: tuple[tuple[str, str], ...] = ()
    place: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The policy with its options, as the command line writes it."""
        return written(self.policy, dict(self.options))

    @property
    def kind(self) -> object:
        """All sizes of a policy may share a pass over the trace."""
        return self.text

    def to_json(self) -> ReplacementRequest:
        """The parts that the spec sets."""
        return {"policy": self.policy, "options": dict(self.options), "size": self.size.text}

    def effective(self) -> EffectivePolicy:
        """The policy with every option, and its size."""
        described = self._described()
        share = None if self.size.share is None else str(self.size.share)
        frames = self.size.frames if share is None else None
        return {
            "policy": described["policy"],
            "options": described["options"],
            "frames": frames,
            "share_of_pages": share,
        }

    def held_bytes(self, size: Size) -> int:
        """Bytes that it holds while it runs on this trace."""
        held = memory.BYTES_BESIDE + memory.BYTES_PER_PAGE * size.pages
        if self._described()["knows_the_future"]:
            held += BYTES_PER_ACCESS * size.events
        return held

    @classmethod
    def answers(
        cls, found: Numbered, requests: Sequence[Self], progress: Progress | None
    ) -> list[CellResult]:
        """Counts all sizes of one policy in one pass; each outcome is as `pagewise misses
        --json`."""
        frames = [request.size.of(found.size.pages) for request in requests]
        counts = _core.misses(
            *found.trace.arguments(),
            policies=[requests[0].text],
            frames=frames,
            progress=progress,
        )
        ((label, by_frames),) = counts["misses"].items()
        # The trace may be a numbered copy, whose path says nothing.
        kept = {name: value for name, value in counts.items() if name != "trace"}
        return [
            CellResult(canonical({**kept, "misses": {label: {str(size): by_frames[str(size)]}}}))
            for size in frames
        ]

    def failed(self, trace: str, error: str | None) -> FailedCell:
        """The failed cell: what this cell asked of a trace, with the error."""
        return cast("FailedCell", {"trace": trace, **self.to_json(), "error": error})

    def fill(self, row: SweepCell, outcome: str | None) -> None:
        """Adds the request, and the figures of its outcome, to a row of the table."""
        row["policy"] = self.policy
        row["options"] = canonical(dict(self.options))
        row["size"] = self.size.text
        if outcome is None:
            return
        counts: Misses = json.loads(outcome)
        ((_, by_frames),) = counts["misses"].items()
        ((frames, misses),) = by_frames.items()
        requests = counts["requests"]
        row["frames"] = int(frames)
        row["requests"] = requests
        row["pages"] = counts["pages"]
        row["misses"] = misses
        row["miss_ratio"] = misses / requests if requests else None

    def _described(self) -> DescribedPolicy:
        return _core.describe_policy(self.text)
