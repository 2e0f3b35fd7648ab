"""The type of the result of `pagewise advise zram`."""

from __future__ import annotations

from typing import TypedDict

from pagewise.answers import Setting
from pagewise.ranges import Amount, Count, Share
from pagewise.types import Loss, ZramCounts


class ZramEvidence(TypedDict):
    """Whether the sampled pages, and the recording if there is one, can carry a size."""

    verdict: str
    """`enough`; `little memory`, with a size that may not suit the programs that matter; `too few
    pages`, `unsure`, `not swap` or `too short`, without a size."""
    reason: str
    """The verdict in words, with the figures that led to it."""
    remedy: str | None
    """What to measure instead; null if the evidence is enough."""
    pages_sampled: Count
    """Pages that were read."""
    pool_share_error: Amount | None
    """Two standard errors of `pool_share` of the chosen algorithm, relative to it."""


class ZramCandidate(TypedDict):
    """An algorithm, at its own size."""

    algorithm: str
    """The name of the algorithm."""
    is_in_kernel: bool | None
    """Whether the kernel's zram has it; null if unknown."""
    pool_share: Amount
    """Memory that a stored page takes, on average, as a share of the page."""
    us_compress: Amount
    """Microseconds of CPU time to compress a page that is not same-filled."""
    us_decompress: Amount
    """Microseconds of CPU time to decompress it."""
    us_per_kib_gained: Amount | None
    """Microseconds to compress and decompress for each KiB gained; null if none is gained."""
    collapse_bytes: Count
    """Bytes of pages from which on the pool takes more memory than it leaves."""
    disksize_bytes: Count
    """The size of the device."""
    limit_bytes: Count
    """The most memory that the pool may take."""
    gain_bytes: Count
    """Bytes that the full device holds beyond the memory it takes."""
    replay: ZramCounts | None
    """What the device does with the traffic of the recording; null without one."""
    cpu_s: Amount | None
    """CPU seconds of compression in that replay; null without a recording."""


class ZramAdvice(TypedDict):
    """The size and algorithm of a zram swap area, from the pages of a machine."""

    schema: str
    """Name and version of this layout."""
    pagewise: str
    """Version of pagewise."""
    pages: str
    """Name of the file with the sampled pages, or `this machine`."""
    trace: str | None
    """Name of the recording's file; null without one."""
    losses: list[Loss]
    """What the recording lost."""
    memory_bytes: Count
    """Memory of the machine."""
    anonymous_bytes: Count
    """Anonymous memory of the sampled processes, in memory and in swap."""
    same_filled_share: Share
    """The share of pages whose words are all equal."""
    evidence: ZramEvidence
    """Whether the pages can carry a size."""
    algorithm: str | None
    """The algorithm to use; null without evidence or without gain."""
    disksize_bytes: Count | None
    """The size of the device; null without evidence or without gain."""
    limit_bytes: Count | None
    """The memory limit of the device; null without evidence or without gain."""
    collapse_bytes: Count | None
    """Bytes of pages from which on the pool takes more memory than it leaves; 0 if zram gains
    nothing, null without evidence."""
    nothing: ZramCounts | None
    """The recorded traffic without zram, on the next swap area; null without a recording."""
    candidates: list[ZramCandidate]
    """Every measured algorithm, the best first, those that the kernel lacks last."""
    settings: list[Setting]
    """Commands; empty without evidence or without gain."""
    warnings: list[str]
    """What speaks against the advice."""
    notes: list[str]
    """What the figures assume."""
