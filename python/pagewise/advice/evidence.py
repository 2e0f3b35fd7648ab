"""Whether a recording has enough evidence for the size of a fast tier, and the range of the size.

The recording is cut into slices of equal active time. One replay counts each slice, so that
either half and random draws of slices can each choose a size: the block bootstrap of Künsch
(1989), with slices as blocks. docs/advise.md gives the reasons for the thresholds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewise.errors import NothingRecorded, PagewiseError
from pagewise.units import format_count, format_number, format_seconds, format_size

if TYPE_CHECKING:
    from pagewise.advice.trial import Trial
    from pagewise.answers import EvidenceResult
    from pagewise.types import Analysis, Events, Gap

SLICES = 20
"""Slices of equal active time; an even number, so that halves are whole slices."""
RESAMPLES = 400
LEVEL = 0.9
"""Share of the resampled sizes that lies within the range."""
REACCESSES_MIN = 10_000
TRAFFIC_MIN_S = 60.0
"""Least time that holds nine tenths of the events."""
SHARE_MAX = 0.05
"""How much I/O share the size from one half may cost on the other half."""
NO_ACCESSES = "no accesses were recorded"
ENOUGH, NOT_SWAP = "enough", "not swap"
OF_BLOCKS = "block requests mix the I/O of files and swap, so they cannot size swap"
OF_FILES = "only pages of files are recorded, which do not go to swap, so they cannot size swap"
OF_OBJECTS = "accesses to the objects of a cache say nothing about swap"
KINDS_OF_FILES = {"request", "evict"}
"""The kinds of events of pages of files in the page cache."""
RECORDING = "work.pgr"
"""The recording in remedies."""


def record_swap(command: str) -> str:
    """What to record, and the ``command`` that reads it."""
    return (
        f"record at least {format_seconds(TRAFFIC_MIN_S)} of the load that makes memory short, "
        f"with swap on, as root: `pagewise-agent record -o {RECORDING} --for 5m`; then `{command}`"
    )


RECORD_SWAP = record_swap(f"pagewise advise swap {RECORDING}")
RECORD_SWAP_OF_A_PHONE = (
    f"{RECORD_SWAP}. The agent does not run on Android, and no trace of a phone that pagewise "
    "reads has swap accesses yet: record the same load on a board or in a VM with Linux"
)
NOT_SWAP_REMEDIES: dict[str, str] = {
    "swap": RECORD_SWAP_OF_A_PHONE,
    "block": RECORD_SWAP_OF_A_PHONE,
    "objects": RECORD_SWAP,
}


@dataclass(frozen=True)
class Halves:
    """The sizes chosen from each half, and their cost on the other half.

    A size of None means no fast tier. ``cost_share`` is the larger of the two costs, in I/O share.
    """

    first_bytes: int | None
    second_bytes: int | None
    cost_share: float

    def agree(self) -> bool:
        """Whether the size from either half costs little on the other half."""
        return self.cost_share <= SHARE_MAX


@dataclass(frozen=True)
class Evidence:
    """The evidence for a size, and whether it is enough."""

    accesses: int
    reaccesses: int
    active_s: float | None
    traffic_s: float | None
    gaps: Sequence[Gap]
    is_swap: bool
    kind: str
    if_not_swap: str
    """The reason if the recording is not of swap."""
    halves: Halves
    range_bytes: tuple[int | None, int | None]

    @property
    def verdict(self) -> str:
        """``enough``, ``not swap``, ``too short`` or ``unstable``: the first that applies."""
        if not self.is_swap:
            return NOT_SWAP
        if self.reaccesses < REACCESSES_MIN or self._is_brief():
            return "too short"
        return ENOUGH if self.halves.agree() else "unstable"

    def _is_brief(self) -> bool:
        return self.traffic_s is not None and self.traffic_s < TRAFFIC_MIN_S

    def reason(self) -> str:
        """The verdict in words, with the figures that led to it."""
        held = f"{format_count(self.reaccesses)} re-accesses"
        if not self.accesses:
            held = NO_ACCESSES
        elif self.active_s is not None:
            held += f" in {format_seconds(self.active_s)}"
        is_brief = self.accesses and self._is_brief()
        if self.active_s and self.traffic_s and is_brief and self.active_s > TRAFFIC_MIN_S:
            held += f", most of them within {format_seconds(self.traffic_s)}"
        match self.verdict:
            case "not swap":
                return self.if_not_swap
            case "too short":
                of_what = "" if self.accesses else " re-accesses"
                needed = f"{format_count(REACCESSES_MIN)}{of_what} in"
                return f"{held}; a size needs {needed} {format_seconds(TRAFFIC_MIN_S)}"
            case "unstable":
                points = format_number(100 * self.halves.cost_share)
                return (
                    f"{held}, but the halves disagree: {_size(self.halves.first_bytes)} and "
                    f"{_size(self.halves.second_bytes)}; one size costs {points} points of I/O "
                    "share more on the other half"
                )
        return f"{held}; both halves agree"

    def remedy(self) -> str | None:
        """What to record instead; None if the evidence is enough."""
        if self.verdict == ENOUGH:
            return None
        if self.verdict == NOT_SWAP:
            return NOT_SWAP_REMEDIES[self.kind]
        if not self.accesses:
            return RECORD_SWAP
        return f"record {self._how_long()} of the load that makes memory short"

    def _how_long(self) -> str:
        if self.active_s is None:
            return "twice as much"
        wanted = max(TRAFFIC_MIN_S, 2 * self.active_s)
        if self.traffic_s:
            wanted = max(wanted, self.active_s * TRAFFIC_MIN_S / self.traffic_s)
        if self.reaccesses:
            wanted = max(wanted, self.active_s * REACCESSES_MIN / self.reaccesses)
        return f"about {format_seconds(60 * math.ceil(wanted / 60)).removesuffix(' 0 s')}"

    def to_json(self) -> EvidenceResult:
        """The form in results: sizes in bytes, times in seconds, costs in I/O share."""
        low, high = self.range_bytes
        return {
            "verdict": self.verdict,
            "reason": self.reason(),
            "remedy": self.remedy(),
            "reaccesses": self.reaccesses,
            "active_s": self.active_s,
            "traffic_s": self.traffic_s,
            "gaps": list(self.gaps),
            "halves": {
                "first_bytes": self.halves.first_bytes,
                "second_bytes": self.halves.second_bytes,
                "cost_share": self.halves.cost_share,
            },
            "range": {"low_bytes": low, "high_bytes": high, "level": LEVEL},
        }


def marks(info: Events) -> list[int]:
    """Where slices end: ns since the first event or, without a clock, numbers of events."""
    parts = range(1, SLICES)
    if info["active_s"] is None:
        events = info["header"]["events"]
        return [events * part // SLICES for part in parts]
    ends = []
    idle_s, gaps = 0.0, list(info["gaps"])
    for part in parts:
        active_s = info["active_s"] * part / SLICES
        while gaps and gaps[0]["from_s"] - idle_s <= active_s:
            idle_s += gaps[0]["to_s"] - gaps[0]["from_s"]
            gaps.pop(0)
        ends.append(round((active_s + idle_s) * 1e9))
    return ends


class Slices:
    """The I/O time of each slice, without a fast tier and at each size of one."""

    def __init__(self, trial: Trial, architecture: str | None = None) -> None:
        """Reads the counts by slice from the outcomes of ``trial``.

        Without ``architecture``, each size has the best of stock Linux there.
        """
        self.trial = trial
        outcomes = trial.outcomes[architecture] if architecture else trial.stock_outcomes()
        self.alone = trial.devices.slice_times_s(trial.alone)
        self.by_size = {
            size: trial.devices.slice_times_s(outcome) for size, outcome in outcomes.items()
        }

    def worth(self, drawn: Sequence[int]) -> int | None:
        """The size worth buying for the drawn slices; a slice counts as often as it is drawn."""
        times = {size: total(times, drawn) for size, times in self.by_size.items()}
        return self.trial.affordable(times, total(self.alone, drawn))

    def share(self, size: int | None, drawn: Sequence[int]) -> float:
        """The I/O time of the drawn slices at one size, as a share of that without a fast tier."""
        base = total(self.alone, drawn)
        if size is None or not base:
            return 1.0
        return total(self.by_size[size], drawn) / base

    def halves(self) -> Halves:
        """The sizes of both halves, and the larger cost on the other half."""
        middle = len(self.alone) // 2
        first, second = range(middle), range(middle, len(self.alone))
        early, late = self.worth(first), self.worth(second)
        cost = max(
            self.share(late, first) - self.share(early, first),
            self.share(early, second) - self.share(late, second),
            0.0,
        )
        return Halves(early, late, cost)

    def range_bytes(self, halves: Halves, seed: int = 1) -> tuple[int | None, int | None]:
        """The range that holds the sizes of both halves and of 90 % of the resamples."""
        numbers = random.Random(seed)
        slices = range(len(self.alone))
        drawn = [numbers.choices(slices, k=len(slices)) for _ in range(RESAMPLES)]
        sizes = sorted(self.worth(each) or 0 for each in drawn)
        tail = round(len(sizes) * (1 - LEVEL) / 2)
        ends = [halves.first_bytes or 0, halves.second_bytes or 0, sizes[tail], sizes[-1 - tail]]
        return min(ends) or None, max(ends) or None


def total(times_s: Sequence[float], drawn: Sequence[int]) -> float:
    """The sum over the drawn slices."""
    return sum(times_s[index] for index in drawn)


def weigh(trial: Trial, info: Events, analysis: Analysis) -> Evidence:
    """The evidence that a recording gives for the size of a fast tier on stock Linux.

    ``info`` is the result of `pagewise.info`; the outcomes of ``trial`` must have counts by slice.
    """
    slices = Slices(trial)
    halves = slices.halves()
    return Evidence(
        accesses=analysis["accesses"],
        reaccesses=analysis["accesses"] - analysis["pages"],
        active_s=info["active_s"],
        traffic_s=info["traffic_s"],
        gaps=info["gaps"],
        is_swap=info["is_of_swap"],
        kind=info["header"]["kind"],
        if_not_swap=not_swap_reason(info),
        halves=halves,
        range_bytes=slices.range_bytes(halves),
    )


def not_swap_reason(info: Events) -> str:
    """Why a trace that is not of swap cannot size swap. Blocks may have been read as swap."""
    if info["header"]["kind"] == "objects":
        return OF_OBJECTS
    kinds = {str(name) for name, _ in info["kinds"]}
    return OF_FILES if kinds and kinds <= KINDS_OF_FILES else OF_BLOCKS


def refuse_other_than_swap(info: Events, trace: str) -> None:
    """Raises PagewiseError if the trace cannot size swap on any device."""
    if not info["is_of_swap"]:
        raise PagewiseError(
            f"{trace}: {NOT_SWAP}: {not_swap_reason(info)}",
            path=trace,
            hint=NOT_SWAP_REMEDIES[info["header"]["kind"]],
        )


def refuse_without_accesses(info: Events, trace: str) -> None:
    """Raises NothingRecorded if the trace has no access."""
    if not info["accesses"]:
        hint = RECORD_SWAP if info["is_of_swap"] else NOT_SWAP_REMEDIES[info["header"]["kind"]]
        message = f"{trace}: {NO_ACCESSES}, so there is nothing to advise on"
        raise NothingRecorded(message, path=trace, hint=hint)


def _size(size: int | None) -> str:
    return "no fast tier" if size is None else format_size(size)
