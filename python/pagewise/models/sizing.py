"""The size of a fast tier that is worth buying, given its I/O time at several sizes.

The rule: price the fast tier so that a tier as large as the whole footprint just pays for itself.
At that price each size has a surplus: its saving minus its share of the price. The size with the
highest surplus is the knee of the curve (the point farthest from the chord). *Worth buying* is the
smallest size whose surplus is within a tenth of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagewise.units import PAGE_BYTES

WITHIN = 0.9
"""Share of the highest surplus that a smaller size must reach to be preferred."""
NOTHING = 0.01
"""Savings below this share of the I/O time without a fast tier count as zero."""


def ladder(footprint_bytes: int, page_bytes: int = PAGE_BYTES) -> list[int]:
    """Sizes to try: powers of two and the steps half-way between, in whole pages, ascending.

    They start at about 1/128 of the footprint, and end with the first size that holds all of it.
    """
    sizes = []
    size = page_bytes
    while size < footprint_bytes:
        sizes += [size, size * 3 // 2]
        size *= 2
    whole = [s for s in [*sizes, size] if s * 128 >= footprint_bytes and s % page_bytes == 0]
    last = next((index for index, s in enumerate(whole) if s >= footprint_bytes), len(whole) - 1)
    return whole[: last + 1]


def surpluses(io_time_s: Mapping[int, float], alone_s: float) -> dict[int, float]:
    """The surplus of each size as a share of ``alone_s``, the I/O time without a fast tier.

    ``io_time_s`` maps bytes of fast tier to seconds; its largest size holds the footprint.
    """
    if not io_time_s or alone_s <= 0:
        return {}
    largest = max(io_time_s)
    saving = {size: 1 - seconds / alone_s for size, seconds in io_time_s.items()}
    price_per_byte = max(0.0, saving[largest]) / largest
    return {size: saving[size] - price_per_byte * size for size in sorted(io_time_s)}


def worth_buying(io_time_s: Mapping[int, float], alone_s: float) -> int | None:
    """The smallest size worth buying in bytes; None if no size saves anything.

    If no size has a surplus, the curve has no knee, and either the largest size is worth it or
    none.
    """
    surplus = surpluses(io_time_s, alone_s)
    saving = {size: 1 - seconds / alone_s for size, seconds in io_time_s.items()} if surplus else {}
    if not saving or max(saving.values()) < NOTHING:
        return None
    best = max(surplus.values())
    if best < NOTHING:
        return min(size for size, value in saving.items() if value == max(saving.values()))
    return min(size for size, value in surplus.items() if value >= WITHIN * best)


def reaching(moved: Mapping[int, int], limit: float) -> int | None:
    """The smallest size from which on no size exceeds ``limit``; None if the largest exceeds it.

    ``moved`` maps bytes of fast tier to the I/O of the slow tier.
    """
    found = None
    for size in sorted(moved, reverse=True):
        if moved[size] > limit:
            break
        found = size
    return found
