"""Many sizes at once: s3-fifo at eight, and LRU at all sizes beside the peer's sweep of eight.

The LRU curve is measured by itself, as misses at enough sizes that one pass serves every size, and
as part of `analyze`, which reads all columns and computes more.
"""

from __future__ import annotations

import traces
from measure import Call, Claim, in_turn, ratio_claim

FRAMES = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000]
CURVE = [*FRAMES, *range(10_000, traces.PAGES + 1, 10_000)]


def run(rounds: int) -> list[Claim]:
    oracle = str(traces.oracle())
    sweep = in_turn(
        {
            "peer S3FIFO, 8 sizes": Call("peer_misses", [oracle, "S3FIFO", FRAMES]),
            "s3-fifo, 8 sizes": Call("ours_misses", [oracle, "oracle", "s3-fifo", FRAMES]),
        },
        rounds,
    )
    curve = in_turn(
        {
            "peer LRU, 8 sizes": Call("peer_misses", [oracle, "LRU", FRAMES]),
            "lru, all sizes": Call("ours_misses", [oracle, "oracle", "lru", CURVE]),
            "analyze": Call("ours_analyze", [oracle, "oracle"]),
        },
        rounds,
    )
    theirs, alone, analyze = curve.values()
    is_equal = all(sample.answer[: len(FRAMES)] == theirs[0].answer for sample in alone)
    same = "same misses at the sizes of theirs" if is_equal else "OTHER MISSES"
    return [
        ratio_claim("s3-fifo, 8 sizes, cold, CPU s", 15, *sweep.values()),
        ratio_claim(f"lru, all sizes from one pass, cold, CPU s ({same})", 12, theirs, alone),
        ratio_claim("analyze (that curve and all other figures), cold, CPU s", 12, theirs, analyze),
    ]
