"""Two tiers with dirty pages, wear and per-process counts, beside the peer's plain LRU."""

from __future__ import annotations

import traces
from measure import Call, Claim, in_turn, ratio_claim

FRAMES = 100_000
ARCHITECTURES = ("hierarchical", "hybrid", "nvm-cache", "adaptive")


def run(rounds: int) -> list[Claim]:
    oracle, own = str(traces.oracle()), str(traces.own_with_writes())
    calls = {"peer LRU": Call("peer_misses", [oracle, "LRU", [FRAMES]])}
    for name in ARCHITECTURES:
        arguments = [own, name, FRAMES * 4096, "optane-pmem", "ufs-3.1"]
        calls[name] = Call("ours_simulate", arguments)
    samples = in_turn(calls, rounds)
    return [
        ratio_claim(
            f"two tiers, {name}, 30 % writes, from our own trace, CPU s",
            3,
            samples["peer LRU"],
            samples[name],
        )
        for name in ARCHITECTURES
    ]
