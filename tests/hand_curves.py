"""Curves of programs small enough to check by hand: the stack depth of every re-reference."""

from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray


@dataclass(frozen=True)
class HandCurve:
    """One page size. ``depths``: {stack depth: how many references found their page there}."""

    pages: int
    depths: dict[int, int]
    cold_written: int = 0

    @property
    def cold(self) -> int:
        return self.pages

    def faults(self, frames) -> ndarray:
        depths, counts = (
            np.array(list(of), dtype=int) for of in (self.depths, self.depths.values())
        )
        return self.cold + ((depths > np.asarray(frames)[..., None]) * counts).sum(axis=-1)

    tlb_misses = faults

    def misses_of_tlb(self, tlb: str) -> int:
        return int(self.tlb_misses(int(tlb)))


@dataclass(frozen=True)
class HandCurves:
    sizes: dict[int, HandCurve]
    references: int = 1_000_000
    steps: int = 100_000
    name: str = field(default="by hand")
    architecture: str | None = None
    cut: str | None = None
    minor_faults: dict[int, dict[str, int]] | None = None
    exact_from: int = 64

    def is_lower_bound(self, page_bytes: int, tlb: str) -> bool:
        return False


def dense(page_count: int = 1024, sizes=tuple(512 << step for step in range(13))) -> HandCurves:
    """A program that goes through ``page_count`` pages of 4 KiB ten times: larger pages are always
    better, as long as all fit."""
    curves = {}
    for size in sizes:
        pages = max(1, page_count * 4096 // size)
        curves[size] = HandCurve(pages, {pages: 9 * pages})
    return HandCurves(curves)


def scattered(page_count: int = 1024, sizes=tuple(512 << step for step in range(13))) -> HandCurves:
    """A program that goes ten times through ``page_count`` pieces of 512 bytes, each in its own
    page at every page size: larger pages only cost memory."""
    return HandCurves({size: HandCurve(page_count, {page_count: 9 * page_count}) for size in sizes})
