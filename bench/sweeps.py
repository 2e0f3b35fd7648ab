"""Eight sizes at once: s3-fifo, and the exact LRU curve of all sizes beside the peer's sweep."""

from __future__ import annotations

import traces
from measure import Call, Claim, in_turn, ratio_claim

FRAMES = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000]


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
            "analyze: LRU, all sizes": Call("ours_analyze", [oracle, "oracle"]),
        },
        rounds,
    )
    return [
        ratio_claim("s3-fifo, 8 sizes, cold, CPU s", 15, *sweep.values()),
        ratio_claim("analyze (exact LRU curve, all sizes), cold, CPU s", 12, *curve.values()),
    ]
