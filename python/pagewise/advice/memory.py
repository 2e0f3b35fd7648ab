"""The memory that a fast tier in memory takes, and what the tier holds beyond that.

A full tier of F bytes of pages, compressed c to 1, takes F / c of memory. If that memory was
idle, the whole tier is gain. If it was in use, F / c of pages must leave memory and lie in the
tier, so F - F / c of the tier is left for the recorded traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewise.errors import UsageError
from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    from pagewise.answers import BoardMemory, Spread
    from pagewise.types import Device

SHARE_MAX = 0.5
"""The advice never takes more than this share of the board's memory: programs need the rest.
An assumption; the default of zram-generator stays below it."""
RATIO_MAX = 100.0


@dataclass(frozen=True)
class Board:
    """The memory that a fast tier lives in.

    ``compression`` is bytes of pages per byte of memory, and ``source`` says where it comes from.
    ``board_bytes`` is the memory of the board, None if unknown. ``has_zswap`` says whether the
    kernel has zswap, True if unknown.
    """

    compression: Spread
    source: str
    board_bytes: int | None
    has_zswap: bool = True

    def taken_bytes(self, size: int) -> Spread:
        """Memory that a full tier of this size takes."""
        ratio = self.compression
        return {
            "low": size / ratio["high"],
            "typical": size / ratio["typical"],
            "high": size / ratio["low"],
        }

    def net_bytes(self, size: int) -> int:
        """Bytes that the tier holds beyond the memory it takes, in whole pages."""
        gain = size - self.taken_bytes(size)["typical"]
        return max(0, int(gain) // PAGE_BYTES * PAGE_BYTES)

    def fits(self, size: int) -> bool:
        """Whether the board can spare the memory of a tier of this size."""
        if self.board_bytes is None:
            return True
        return self.taken_bytes(size)["typical"] <= SHARE_MAX * self.board_bytes

    def largest(self, sizes: Sequence[int]) -> int | None:
        """The largest size that fits; None if none fits."""
        return max((size for size in sizes if self.fits(size)), default=None)

    def to_json(self) -> BoardMemory:
        """The form in results."""
        return {
            "board_bytes": self.board_bytes,
            "compression": {**self.compression, "source": self.source},
            "share_max": SHARE_MAX,
        }


def board(
    fast: Device,
    memory_bytes: int | None,
    compression: float | None,
    source: str = "given by the caller",
) -> Board | None:
    """The board, if the fast device lives in its memory: the device or the caller gives a ratio.

    ``source`` says where the caller's ratio comes from.

    Raises UsageError for an impossible ratio.
    """
    if compression is not None:
        if not 1 <= compression <= RATIO_MAX:
            raise UsageError(
                f"a compression of {compression:g} to 1 is not possible",
                hint="give bytes of pages per byte of memory, from 1 (none) to 100; zram's is "
                "orig_data_size / mem_used_total in /sys/block/zram0/mm_stat",
            )
        given = float(compression)
        ratio: Spread = {"low": given, "typical": given, "high": given}
        return Board(ratio, source, memory_bytes)
    known = fast.get("compression")
    if known:
        ratio = {
            "low": float(known["low"]),
            "typical": float(known["typical"]),
            "high": float(known["high"]),
        }
        return Board(ratio, known["source"], memory_bytes)
    return None
