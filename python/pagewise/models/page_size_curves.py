"""The interface of counts that the page-size models use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.typing import ArrayLike

    from pagewise.types import MinorFaults


class SizeCurve(Protocol):
    """Counts for one page size under LRU; ``cold`` is part of both counts."""

    @property
    def pages(self) -> int:
        """Distinct pages that the whole trace references."""

    @property
    def cold(self) -> int:
        """First references to a page; their number is that of the pages, unless the counts leave
        out the start of the trace."""

    @property
    def cold_written(self) -> int:
        """First references that wrote: nearly all of anonymous memory, which has no content
        before."""

    def faults(self, frames: ArrayLike) -> ndarray:
        """References to pages that a memory with this many frames does not hold."""

    def tlb_misses(self, entries: ArrayLike) -> ndarray:
        """References to pages that a fully associative TLB of this size does not hold."""

    def misses_of_tlb(self, tlb: str) -> int:
        """References to pages that a first TLB, ``"64"`` or ``"64x4"``, does not hold."""

    @property
    def second_tlb_misses(self) -> Mapping[str, int]:
        """Misses of both levels, by ENTRIESxWAYS of a second TLB."""


class Curves(Protocol):
    """The counts of one program."""

    @property
    def references(self) -> int:
        """All references: instructions, reads and writes."""

    @property
    def steps(self) -> int:
        """References that missed the filter; they stand for those that reach memory."""

    @property
    def sizes(self) -> Mapping[int, SizeCurve]:
        """Counts by page size in bytes, ascending."""

    @property
    def minor_faults(self) -> Mapping[int, MinorFaults] | None:
        """Minor faults with ample memory, by bytes of a huge page; None if unknown."""

    @property
    def exact_from(self) -> int:
        """Frames from which faults are exact; with fewer they are lower bounds."""

    def is_lower_bound(self, page_bytes: int, tlb: str) -> bool:
        """Whether a first TLB may miss more often than was counted."""

    @property
    def architecture(self) -> str | None:
        """The processor of the program, as QEMU names it; None if unknown."""

    @property
    def cut(self) -> str | None:
        """Why the counts cover only a part of the run; None if they cover the whole run."""


def cut_note(curves: Curves) -> list[str]:
    """A note on counts that cover only a part of a run."""
    return [f"{curves.cut}: the counts cover the run up to there"] if curves.cut else []


def footprint_bytes(curves: Curves, page_bytes: int = PAGE_BYTES) -> int:
    """Memory that holds every page of this size."""
    return curves.sizes[page_bytes].pages * page_bytes
