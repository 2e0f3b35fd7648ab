"""Our low-memory killer beside earlyoom in guests of Debian (tests/vm/killers.py), as ratios.

Emulated: figures of one guest are set beside each other and beside no other guest's.
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


def run(rounds: int) -> list[Claim]:
    if reason := killers.refusal():
        raise SystemExit(f"killers_vm: {reason}")
    guests = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            findings = killers.run(Path(folder))
            guests.append(read(findings))
    return [*ratios(guests), *launches(guests)]


def read(findings: killers.Findings) -> dict[str, Any]:
    """What is needed of one guest, whose folder goes."""
    return {
        "seen": {
            (name, killer): findings.watched(name, killer)
            for name in ("fast", "zram")
            for killer in ("killd", "earlyoom")
        },
        "plenty": findings.launches("plenty"),
        "short": findings.launches("short"),
    }


def ratios(guests: list[dict[str, Any]]) -> Iterable[Claim]:
    """Theirs by ours: the median of each guest's rounds."""

    def overshoot(seen: dict[str, Any]) -> float:
        return max(float(seen["total_kib"] * killers.LOW / 100 - seen["lowest_kib"]), 1.0)

    rows: list[tuple[str, str, Callable[[dict[str, Any]], float | None], int]] = [
        ("from crossing the threshold to recovery", "fast", recovery, CROSSING_RATIO),
        ("memory taken beyond the threshold", "fast", overshoot, OVERSHOOT_RATIO),
        ("time under the threshold on zram", "zram", lambda one: one["under_ms"], ZRAM_RATIO),
    ]
    for what, name, figure, least in rows:
        pairs = [
            [typical(guest["seen"][name, killer], figure) for killer in ("earlyoom", "killd")]
            for guest in guests
        ]
        found = sorted(theirs / ours for theirs, ours in pairs)
        both = ", ".join(f"{median(column):,.0f}" for column in zip(*pairs, strict=True))
        yield Claim(
            f"killd beside earlyoom: {what}",
            f"at least {least}x less",
            f"**{median(found):.1f}x** ({found[0]:.1f} to {found[-1]:.1f}); {both}",
            median(found) >= least,
        )


def recovery(seen: dict[str, Any]) -> float:
    """Until all is well again; the whole time watched where it never was."""
    return float(seen["recovery_ms"] or killers.SECONDS * 1e3)


def typical(seen: list[dict[str, Any]], figure: Callable[[dict[str, Any]], float | None]) -> float:
    """The median of a figure over rounds."""
    return median(figure(one) or 0.1 for one in seen)


def launches(guests: list[dict[str, Any]]) -> Iterable[Claim]:
    """Launches among cached applications beside those with plenty of memory."""
    for name, kib in killers.LAUNCHES_KIB.items():
        more = sorted(
            median(guest["short"][kib]) / median(guest["plenty"][kib]) - 1 for guest in guests
        )
        yield Claim(
            f"launch of {kib / 1024:.0f} MiB ({name}) under killd",
            f"at most +{LAUNCH_SHARE:.0%}",
            f"**{median(more):+.0%}** ({more[0]:+.0%} to {more[-1]:+.0%})",
            median(more) <= LAUNCH_SHARE,
        )
