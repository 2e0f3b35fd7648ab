"""One policy, one size: cold from oracleGeneral, and from our own trace; and peak memory.

`larc` and `two-list` are not measured: libcachesim has neither.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import traces
from measure import Call, Claim, Sample, in_turn, ratio_claim

FRAMES = 100_000

# Our name: the peer's name, the target ratio cold, and from our own trace.
POLICIES = {
    "fifo": ("FIFO", 4.5, 12),
    "lru": ("LRU", 5, 20),
    "clock": ("Clock", 4.5, 20),
    "sieve": ("Sieve", 4.5, 12),
    "s3-fifo": ("S3FIFO", 10, 20),
    "two-queue": ("TwoQ", 8, 20),
    "arc": ("ARC", 4.5, 20),
    "lirs": ("LIRS", 8, 20),
    "opt": ("Belady", 3, 4),
}


def without_files(theirs: list[Sample], ours: list[Sample]) -> str:
    """Peak memory without mapped files, of the process and of only the call."""

    def both(of: Callable[[Sample], float]) -> str:
        their, our = (median(map(of, samples)) / 1e6 for samples in (theirs, ours))
        return f"ours {our:.0f}, theirs {their:.0f}, {their / our:.1f}x"

    process = both(lambda sample: sample.peak_anonymous_bytes)
    added = both(lambda sample: sample.added_bytes)
    return f"anonymous: {process}; added by the call: {added}"


def run(rounds: int) -> list[Claim]:
    oracle, own = str(traces.oracle()), str(traces.own())
    claims = []
    for name, (peer, cold_at_least, own_at_least) in POLICIES.items():
        samples = in_turn(
            {
                f"peer {peer}": Call("peer_misses", [oracle, peer, [FRAMES]]),
                f"cold {name}": Call("ours_misses", [oracle, "oracle", name, [FRAMES]]),
                f"own {name}": Call("ours_misses", [own, None, name, [FRAMES]]),
            },
            rounds,
        )
        theirs, cold, from_own = samples.values()
        expected = theirs[0].answer
        is_equal = all(sample.answer == expected for sample in [*cold, *from_own])
        same = "same misses" if is_equal else f"OTHER MISSES: {cold[0].answer} and {expected}"
        claims += [
            ratio_claim(f"{name}, cold, CPU s ({same})", cold_at_least, theirs, cold),
            ratio_claim(f"{name}, from our own trace, CPU s", own_at_least, theirs, from_own),
            ratio_claim(
                f"{name}, cold, peak memory of the process, MB ({without_files(theirs, cold)})",
                4,
                theirs,
                cold,
                lambda sample: sample.peak_bytes / 1e6,
            ),
        ]
        start = min(sample.start_cpu_s for sample in cold)
        print(f"  interpreter and imports: {start:.3f} CPU-s, not counted")
    return claims
