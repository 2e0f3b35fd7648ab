"""Our low-memory killer beside earlyoom in guests of Debian (tests/vm/killers.py), as ratios.

Emulated: figures of one guest are compared with each other and never with another guest's. Killers
are compared in a guest whose clock counts instructions, so that the load of the host, or another
round, changes next to nothing. Launches are timed in guests with two processors, as a phone has
several; these run at the emulator's speed, so under load their figures mean little.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from measure import Claim

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import killers

CROSSING_RATIO, OVERSHOOT_RATIO, ZRAM_RATIO, LAUNCH_SHARE = 3, 10, 5, 0.2
# Milliseconds of launches by KiB.
Times = dict[int, list[float]]


def run(rounds: int) -> list[Claim]:
    if reason := killers.refusal():
        raise SystemExit(f"killers_vm: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        found = killers.run(Path(folder), cases=("fast", "zram"))
        claims = list(ratios(found))
    guests = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found = killers.run(Path(folder), killers.TWO_PROCESSORS, ("launch",))
            guests.append((found.launches("plenty"), found.launches("short")))
    return [*claims, *launches(guests)]


def ratios(found: killers.Findings) -> Iterable[Claim]:
    """Theirs by ours: the medians of the guest's rounds, and the range of both."""

    def overshoot(seen: dict[str, Any]) -> float:
        return max(float(seen["total_kib"] * killers.LOW / 100 - seen["lowest_kib"]), 1.0)

    rows: list[tuple[str, str, Callable[[dict[str, Any]], float | None], int]] = [
        ("from crossing the threshold to recovery, ms", "fast", recovery, CROSSING_RATIO),
        ("memory taken beyond the threshold, KiB", "fast", overshoot, OVERSHOOT_RATIO),
        ("time under the threshold on zram, ms", "zram", lambda run: run["under_ms"], ZRAM_RATIO),
    ]
    for what, name, figure, least in rows:
        theirs, ours = (
            sorted(figure(run) or 0.1 for run in found.watched(name, killer))
            for killer in ("earlyoom", "killd")
        )
        ratio = median(theirs) / median(ours)
        both = ", ".join(
            f"{killer} {median(times):,.0f} ({times[0]:,.0f} to {times[-1]:,.0f})"
            for killer, times in (("earlyoom", theirs), ("killd", ours))
        )
        yield Claim(
            f"killd and earlyoom: {what}",
            f"at least {least}x less",
            f"**{ratio:.1f}x**: {both}",
            ratio >= least,
        )


def recovery(seen: dict[str, Any]) -> float:
    """Time until the memory has recovered; the whole time watched if it never did."""
    return float(seen["recovery_ms"] or killers.SECONDS * 1e3)


def launches(guests: list[tuple[Times, Times]]) -> Iterable[Claim]:
    """Launches among cached applications beside those with plenty of memory."""
    for name, kib in killers.LAUNCHES_KIB.items():
        more = sorted(median(short[kib]) / median(plenty[kib]) - 1 for plenty, short in guests)
        yield Claim(
            f"launch of a filler of {kib / 1024:.0f} MiB (S2's {name}) under killd",
            f"at most +{LAUNCH_SHARE:.0%}",
            f"**{median(more):+.0%}** ({more[0]:+.0%} to {more[-1]:+.0%})",
            median(more) <= LAUNCH_SHARE,
        )
