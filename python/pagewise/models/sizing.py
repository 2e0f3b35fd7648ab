"""Which size of the fast tier is worth buying, from its I/O time at several sizes.

The rule: price the fast tier so that one as large as the whole footprint would just pay for itself.
At that price each size has a surplus, its saving less its share of the price. The size with the
highest surplus is the knee of the curve (its largest distance from the chord); *worth buying* is
the smallest size whose surplus is within a tenth of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from pagewise.units import PAGE_BYTES

WITHIN = 0.9
"""Share of the highest surplus that a smaller size must reach to be taken instead."""
NOTHING = 0.01
"""Savings below this share of the I/O time without a fast tier count as none."""


def ladder(footprint_bytes: int, page_bytes: int = PAGE_BYTES) -> list[int]:
    """Sizes to try: powers of two and the steps half-way between, from about 1/128 of the footprint
    to the first that holds it all. Whole pages, ascending."""
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
    """The smallest size worth buying in bytes; none where no size saves anything.

    A curve without a knee (no size has a surplus) is worth its largest size or nothing.
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
    """The smallest size from which on no size exceeds ``limit``; none where the largest does.

    ``moved`` maps bytes of fast tier to the I/O of the slow tier.
    """
    found = None
    for size in sorted(moved, reverse=True):
        if moved[size] > limit:
            break
        found = size
    return found
