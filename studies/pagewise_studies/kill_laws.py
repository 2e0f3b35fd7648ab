"""How the phases of a kill grow: straight lines through all kills, with 95 % intervals.

Lines are those of Theil and Sen, the median of the slopes of all pairs, since a busy machine leaves
kills that waited for a processor; a mean would follow them. ``c_us_per_mib`` and relatives are the
constants of spec sheet S2.6's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagewise_studies.kill_runs import Kill, KillRuns


@dataclass(frozen=True)
class Law:
    """``y = intercept + slope * x`` over ``kills`` kills; ``low`` and ``high`` are the slope's."""

    phase: str
    against: str
    unit: str
    slope: float
    low: float
    high: float
    intercept: float
    kills: int
    correlation: float
    """Of ranks (Spearman)."""

    @property
    def grows(self) -> bool:
        """Whether it surely grows."""
        return self.low > 0


Measure = Callable[[Kill], float | None]


@dataclass(frozen=True)
class Asked:
    """A law to look for: which experiment, which phase, against what."""

    experiment: str
    phase: str
    against: str
    unit: str
    measure: Measure


def threads_of(kill: Kill) -> float | None:
    """Threads that handled the signal."""
    return kill.threads


def memory_of(kill: Kill) -> float | None:
    """Resident MiB."""
    return kill.rss_mib


def dying_with(kill: Kill) -> float:
    """Others that died at the same time."""
    return kill.others


LAWS = (
    Asked("threads", "signal", "threads", "us per thread", threads_of),
    Asked("threads", "threads", "threads", "us per thread", threads_of),
    Asked("threads", "pagetables", "threads", "us per thread", threads_of),
    Asked("memory", "unmap", "resident MiB", "us per MiB", memory_of),
    Asked("memory", "pagetables", "resident MiB", "us per MiB", memory_of),
    Asked("memory", "reclaim", "resident MiB", "us per MiB", memory_of),
    Asked("together", "reclaim", "others dying at once", "us per other", dying_with),
    Asked("together", "threads", "others dying at once", "us per other", dying_with),
)


def laws(runs: KillRuns) -> list[Law]:
    """Every law that the kills can tell of."""
    found = (law(asked, runs.of(asked.experiment)) for asked in LAWS)
    return [one for one in found if one is not None]


def law(asked: Asked, kills: Sequence[Kill]) -> Law | None:
    """The line through some kills; None of fewer than three, or where nothing varies."""
    from scipy import stats

    pairs = [
        (x, y)
        for kill in kills
        if (x := asked.measure(kill)) is not None and (y := kill.phase(asked.phase)) is not None
    ]
    if len(pairs) < 3 or len({x for x, _ in pairs}) < 2:
        return None
    places, times = ([float(value) for value in column] for column in zip(*pairs, strict=True))
    if len(set(times)) == 1:
        # Neither interval nor correlation is defined of times that are all the same.
        slope = low = high = correlation = 0.0
        intercept = times[0]
    else:
        line = stats.theilslopes(times, places, alpha=0.95)
        slope, low, high = (float(one) for one in (line.slope, line.low_slope, line.high_slope))
        intercept = float(line.intercept)
        correlation = float(stats.spearmanr(places, times).statistic)
    return Law(
        phase=asked.phase,
        against=asked.against,
        unit=asked.unit,
        slope=slope,
        low=low,
        high=high,
        intercept=intercept,
        kills=len(pairs),
        correlation=correlation,
    )
