"""Processes killed in random episodes of memory pressure under the kernel of ``kernel/``.

Reads what ``bench/kernel_episodes.py --json`` writes: pairs of the same episode in a fresh guest,
with the pool on and off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast

from pagewise.bootstrap import interval
from pagewise.units import MIB
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import (
    Check,
    Estimate,
    Reading,
    Verdict,
    judge,
    judge_estimate,
    unmeasured,
)

MARGIN = 0.05
"""The largest mean difference, in kills an episode, that counts as no more kills.

Our choice, made after seeds 1 to 60 in 128 MiB gave -0.083 to +0.033, at 0.18 kills an episode
without a pool: only other seeds can confirm it.
"""
PAIRS_LEAST = 60
"""With fewer pairs the margin cannot be shown: if none of n differs, up to 3/n of all may."""
COUNT_MAX = 2**63
COUNTS = ("oom_kills", "kept", "reclaimed", "held_at_oom")
"""The counts of an episode: kills; pages kept, given back, and in pools at a kill."""
SEED = 1


@dataclass(frozen=True)
class Pairs:
    """The counts of each pair with the pool on and off, in guests of one size."""

    memory_bytes: int
    on: Sequence[Mapping[str, int]]
    off: Sequence[Mapping[str, int]]

    def total(self, name: str) -> int:
        """The sum of a count with the pool on."""
        return sum(each[name] for each in self.on)

    @property
    def differences(self) -> list[float]:
        """Kills with the pool less kills without, by pair."""
        pairs = zip(self.on, self.off, strict=True)
        return [float(on["oom_kills"] - off["oom_kills"]) for on, off in pairs]

    @property
    def is_exercised(self) -> bool:
        """Whether a process was killed in an episode in which a pool gave pages back."""
        return any(each["reclaimed"] > 0 and each["oom_kills"] > 0 for each in self.on)

    @property
    def is_compared(self) -> bool:
        """Whether a pool gave pages back, and a process was killed with the pool or without."""
        killed = any(each["oom_kills"] > 0 for each in (*self.on, *self.off))
        return self.total("reclaimed") > 0 and killed


def estimate(differences: Sequence[float]) -> Estimate:
    """The mean difference of kills an episode."""
    return Estimate(fmean(differences), *interval(differences, None, SEED, "kills"))


def is_pairs(found: object) -> bool:
    """Whether an object may be what ``bench/kernel_episodes.py`` wrote."""
    return isinstance(found, dict) and "pairs" in found


def checked(found: object) -> Pairs:
    """Raises ValueError, which names the first field that the bench does not write."""
    assert isinstance(found, dict)
    memory, pairs = found.get("memory_bytes"), found["pairs"]
    if not _is_count(memory) or memory == 0:
        raise ValueError("memory_bytes: expected a whole number above 0")
    if not isinstance(pairs, list) or not pairs:
        raise ValueError("pairs: expected a list of pairs")
    for at, pair in enumerate(pairs):
        for pool in ("on", "off"):
            counts = pair.get(pool) if isinstance(pair, dict) else None
            for name in COUNTS:
                if not isinstance(counts, dict) or not _is_count(counts.get(name)):
                    raise ValueError(f"pairs[{at}].{pool}.{name}: expected a whole number from 0")
    return Pairs(
        cast("int", memory), [pair["on"] for pair in pairs], [pair["off"] for pair in pairs]
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < COUNT_MAX


def verdicts(
    measured: Sequence[Pairs], data: str, pool_first: Check, kills: Check
) -> list[Verdict]:
    """The verdicts of the two checks about kills, over all sizes of guests."""
    held = [
        Reading(
            (("memory", f"{pairs.memory_bytes // MIB} MiB"),),
            pairs.total("held_at_oom") == 0,
            pairs.total("held_at_oom"),
        )
        for pairs in measured
        if pairs.is_exercised
    ]
    lacking = "" if held else "no process was killed in an episode in which a pool gave pages back"
    first = judge(pool_first, data, held, lacking)
    compared = [pairs for pairs in measured if pairs.is_compared]
    differences = [each for pairs in compared for each in pairs.differences]
    if not differences:
        lacking = "no size of guests has both a pool that gave pages back and a kill"
        return [first, unmeasured(kills, data, lacking)]
    is_small = len(differences) < PAIRS_LEAST
    lacking = f"{len(differences)} pairs are too few: needs {PAIRS_LEAST}" if is_small else ""
    found = estimate(differences)
    return [first, judge_estimate(kills, data, found, most=MARGIN, lacking=lacking)]


def table(study: str, measured: Sequence[Pairs]) -> Table:
    """The episodes by memory."""
    rows: list[Row] = []
    for pairs in measured:
        found = estimate(pairs.differences)
        rows.append(
            {
                "memory, MiB": pairs.memory_bytes // MIB,
                "pairs": len(pairs.on),
                "pools gave back": sum(each["reclaimed"] > 0 for each in pairs.on),
                "kills, pool": pairs.total("oom_kills"),
                "kills, no pool": sum(each["oom_kills"] for each in pairs.off),
                "more": sum(difference > 0 for difference in pairs.differences),
                "fewer": sum(difference < 0 for difference in pairs.differences),
                "difference": found.figure,
                "from": found.low,
                "to": found.high,
                "pages at kills": pairs.total("held_at_oom"),
            }
        )
    return Table(
        f"{study}-episodes",
        "Kills under pressure with the kernel's pool",
        "A pair is the same random episode in two fresh guests, with the pool on, without a limit "
        "of its size, and off (`bench/kernel_episodes.py`). *Pools gave back*: the pairs in which "
        "reclaim or the OOM killer emptied a pool. *More*, *fewer*: the pairs with more or fewer "
        "kills with the pool. *Difference*: kills an episode with the pool less those without; "
        "*from* and *to*: its 95 % interval by bootstrap over pairs. *Pages at kills*: pages that "
        "pools held when a process was killed.",
        rows,
    )
