"""How the phases of a kill grow: straight lines through all kills, with 95 % intervals.

A line is the Theil-Sen estimator, the median slope of all pairs. On a busy machine some kills wait
for a processor, and such outliers move a mean but not this median. ``c_us_per_mib`` and relatives
are the constants of spec sheet S2.6's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagewise_studies.kill_measurement import Kill, KillMeasurement


@dataclass(frozen=True)
class Law:
    """``y = intercept + slope * x`` over ``kills`` kills; ``low`` and ``high`` bound the slope."""

    phase: str
    against: str
    unit: str
    slope: float
    low: float
    high: float
    intercept: float
    kills: int
    correlation: float
    """Spearman's rank correlation."""

    @property
    def grows(self) -> bool:
        """Whether the phase grows, with 95 % confidence."""
        return self.low > 0


Measure = Callable[[Kill], float | None]


@dataclass(frozen=True)
class Asked:
    """A law to fit: the experiment, the phase, and the quantity that it may grow with."""

    experiment: str
    phase: str
    against: str
    unit: str
    measure: Measure


def threads_of(kill: Kill) -> float | None:
    """The number of threads that handled the signal."""
    return kill.threads


def memory_of(kill: Kill) -> float | None:
    """Resident memory of the victim in MiB."""
    return kill.rss_mib


def dying_with(kill: Kill) -> float:
    """The number of other processes that died at the same time."""
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


def laws(measured: KillMeasurement) -> list[Law]:
    """Every law for which there are enough kills."""
    found = (law(asked, measured.of(asked.experiment)) for asked in LAWS)
    return [line for line in found if line is not None]


def law(asked: Asked, kills: Sequence[Kill]) -> Law | None:
    """The line through some kills; None for fewer than three kills or a constant quantity."""
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
        # If all times are equal, interval and correlation are undefined.
        slope = low = high = correlation = 0.0
        intercept = times[0]
    else:
        line = stats.theilslopes(times, places, alpha=0.95)
        slope, low, high = (float(value) for value in (line.slope, line.low_slope, line.high_slope))
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
