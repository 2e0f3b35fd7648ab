"""What the page-size models need to know of a program: its counts for every page size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.typing import ArrayLike


class SizeCurve(Protocol):
    """Counts for one page size. LRU throughout; ``cold`` is part of both counts."""

    @property
    def pages(self) -> int:
        """Distinct pages that were referenced."""

    @property
    def cold(self) -> int:
        """First references to a page, as many as there are pages."""

    @property
    def cold_written(self) -> int:
        """Those of them that wrote: nearly all of anonymous memory, which has no content before."""

    def faults(self, frames: ArrayLike) -> ndarray:
        """References to pages that a memory of this many frames does not hold."""

    def tlb_misses(self, entries: ArrayLike) -> ndarray:
        """References to pages that a fully associative TLB of this size does not hold."""


class Curves(Protocol):
    """Counts of one program."""

    @property
    def references(self) -> int:
        """All references: instructions, reads and writes."""

    @property
    def steps(self) -> int:
        """References that missed the filter: a stand-in for those that reach memory."""

    @property
    def sizes(self) -> Mapping[int, SizeCurve]:
        """By bytes of a page, ascending."""

    @property
    def architecture(self) -> str | None:
        """The processor that the program is made for, as QEMU names it; None where not known."""

    @property
    def cut(self) -> str | None:
        """Why there is less than the whole run; None where there is not."""


def cut_note(curves: Curves) -> list[str]:
    """What to say of counts that are not of a whole run."""
    return [f"{curves.cut}: the counts are of the run up to there"] if curves.cut else []


def footprint_bytes(curves: Curves, page_bytes: int = PAGE_BYTES) -> int:
    """Memory that holds every page of this size."""
    return curves.sizes[page_bytes].pages * page_bytes
