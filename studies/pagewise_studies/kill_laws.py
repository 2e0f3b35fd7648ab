"""How the phases of a kill grow: straight lines through the kills of each repeat.

A line is the Theil-Sen estimator, the median slope of all pairs. On a busy machine some kills wait
for a processor, and such outliers move a mean but not this median. A law is the mean of the lines
over the repeats; its interval is that of the repeats. ``c_us_per_mib`` and relatives are the
constants of spec sheet S2.6's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pagewise_studies.kill_measurement import Kill, KillMeasurement
from pagewise_studies.repeats import estimate_of
from pagewise_studies.verdict import Estimate


@dataclass(frozen=True)
class Line:
    """``y = intercept + slope * x`` through ``kills`` kills of one repeat."""

    slope: float
    intercept: float
    correlation: float
    """Spearman's rank correlation."""
    kills: int


@dataclass(frozen=True)
class Law:
    """How a phase grows with a quantity: the mean of a line of each repeat."""

    phase: str
    against: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def slope(self) -> float:
        """The mean slope."""
        return fmean(line.slope for line in self.lines)

    @property
    def estimate(self) -> Estimate | None:
        """The slope with the 95 % interval of the repeats; None for a single repeat."""
        return estimate_of([line.slope for line in self.lines])


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
    """Every law for which a repeat has enough kills."""
    return [
        Law(asked.phase, asked.against, asked.unit, tuple(lines))
        for asked in LAWS
        if (
            lines := [
                line
                for repeat in measured.repeats
                if (line := line_of(asked, repeat.of(asked.experiment))) is not None
            ]
        )
    ]


def line_of(asked: Asked, kills: Sequence[Kill]) -> Line | None:
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
        # If all times are equal, the correlation is undefined.
        return Line(slope=0.0, intercept=times[0], correlation=0.0, kills=len(pairs))
    line = stats.theilslopes(times, places)
    return Line(
        slope=float(line.slope),
        intercept=float(line.intercept),
        correlation=float(stats.spearmanr(places, times).statistic),
        kills=len(pairs),
    )
