"""Two tiers with dirty pages, wear and per-process counts, beside the peer's plain LRU."""

from __future__ import annotations

import traces
from measure import Call, Claim, in_turn, ratio_claim

FRAMES = 100_000
ARCHITECTURES = (
    "flash",
    "priority",
    "hierarchical eviction=lru",
    "hierarchical eviction=clock",
    "hybrid-clock",
    "hybrid entry_bit=0 flash_copy_on_promotion=free",
    "hybrid entry_bit=0 flash_copy_on_promotion=keep",
    "hybrid entry_bit=1 flash_copy_on_promotion=free",
    "hybrid entry_bit=1 flash_copy_on_promotion=keep",
    "nvm-cache",
    "adaptive",
)


def run(rounds: int) -> list[Claim]:
    oracle, own = str(traces.oracle()), str(traces.own_with_writes())
    calls = {"peer LRU": Call("peer_misses", [oracle, "LRU", [FRAMES]])}
    for name in ARCHITECTURES:
        architecture, *set_options = name.split()
        # A single replay, without the range of the latencies, which would need three.
        options = {"ranges": "no"} | dict(option.split("=") for option in set_options)
        arguments = [own, architecture, FRAMES * 4096, "optane-pmem", "ufs-3.1", options]
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
