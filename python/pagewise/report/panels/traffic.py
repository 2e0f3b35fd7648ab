"""Traffic over time by process name, with the kills and the stalls for memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, TypedDict

from pagewise.report.inputs import Inputs, ReadAnalysis
from pagewise.report.kinds import Kind, kind_of
from pagewise.report.model import Axis, Chart, Column, Panel, Point, Series, Table, View
from pagewise.types import Header, Killed, Stall, TrafficSeries
from pagewise.units import (
    format_count,
    format_counted,
    format_seconds,
    format_share,
)

NANOSECONDS = 1e9
MICROSECONDS = 1e6
Direction: TypeAlias = Literal["reads", "writes"]
KILLS = "kills"
OTHERS = "others"
"""The name of the series for all other processes, as in the analysis."""
SOME, FULL = "some tasks stalled", "all tasks stalled"
STALLED = Axis("stalled for memory", "share", low=0)
COLUMNS = (
    Column("recording", "recording"),
    Column("name", "process"),
    Column("processes", "processes", "count"),
    Column("reads", "reads", "count"),
    Column("writes", "writes", "count"),
    Column("share", "of accesses", "share"),
)
KILL_COLUMNS = (
    Column("recording", "recording"),
    Column("time_s", "time", "seconds"),
    Column("process", "process"),
    Column("pid", "pid", "count"),
    Column("by", "by"),
)


def panel(inputs: Inputs) -> Panel | None:
    """A chart for each recording; None if no recording has a clock."""
    timed = {
        name: Timed(name, analysis, inputs.headers.get(name))
        for name, analysis in inputs.analyses.items()
    }
    shown = [each for each in timed.values() if each.traffic or each.stalls or each.kills]
    if not shown:
        return None
    charts = [chart(f"traffic-{place}", each) for place, each in enumerate(shown)]
    tables = [Table("traffic", "Traffic by name of process", COLUMNS, list(rows(shown)))]
    if kills := [row for each in shown for row in each.kill_rows()]:
        tables.append(Table("traffic-kills", "Kills", KILL_COLUMNS, kills, is_open=len(kills) < 20))
    tables = [table for table in tables if table.rows]
    finding = " ".join(sentence for each in shown for sentence in each.sentences())
    notes = [each.left_out() for each in shown]
    return Panel(
        "traffic", "Traffic over time", finding, charts, tables, [note for note in notes if note]
    )


class StallShare(TypedDict):
    """Shares of a time in which some or all tasks stalled."""

    from_s: float
    to_s: float
    some: float
    full: float


class TimedKill(Killed):
    """A kill with its time in seconds from the first event."""

    time_s: float


class Timed:
    """The parts of an analysis that have times, in seconds from the first event."""

    def __init__(self, name: str, analysis: ReadAnalysis, header: Header | None) -> None:
        self.name = name
        self.kind: Kind = kind_of(analysis)
        traffic = analysis.get("traffic")
        self.traffic: list[TrafficSeries] = traffic["series"] if traffic else []
        self.step_s: float = traffic["step_s"] if traffic else 0.0
        steps = len(self.traffic[0]["reads"]) if self.traffic else 0
        self.end_s = steps * self.step_s
        shortage = header.get("shortage") if header else None
        start_ns = (header.get("start_ns") if header else None) or 0
        stalls = shortage["stalls"] if shortage else []
        if not self.traffic and stalls:
            # Without events, there is no start to count from.
            start_ns, end_ns = stalls[0]["time_ns"], stalls[-1]["time_ns"]
            self.end_s = (end_ns - start_ns) / NANOSECONDS
        self.stalls = list(self._stalls(stalls, start_ns))
        self.kills: list[TimedKill] = [
            {**kill, "time_s": time_s}
            for kill in (shortage["kills"] if shortage else [])
            if 0 <= (time_s := (kill["time_ns"] - start_ns) / NANOSECONDS) <= self.end_s
        ]
        self.kills_left_out = shortage["kills_left_out"] if shortage else 0
        self.is_of_cgroup = bool(shortage and shortage["is_of_cgroup"])

    def _stalls(self, stalls: Sequence[Stall], start_ns: int) -> Iterator[StallShare]:
        """Shares of time stalled between two readings, within the time of the events."""
        for before, after in pairwise(stalls):
            from_s, to_s = (
                min(max((reading["time_ns"] - start_ns) / NANOSECONDS, 0), self.end_s)
                for reading in (before, after)
            )
            length_us = (after["time_ns"] - before["time_ns"]) / NANOSECONDS * MICROSECONDS
            if to_s > from_s and length_us > 0:
                yield {
                    "from_s": from_s,
                    "to_s": to_s,
                    "some": stalled_share(before["some_us"], after["some_us"], length_us),
                    "full": stalled_share(before["full_us"], after["full_us"], length_us),
                }

    def accesses(self, series: TrafficSeries) -> int:
        """All accesses of the processes of one name."""
        return sum(series["reads"]) + sum(series["writes"])

    def rate(self, count: float) -> float:
        """Accesses in one step, as bytes or objects per second."""
        return count * self.kind.bytes_each / self.step_s

    def kill_rows(self) -> list[tuple[str | float, ...]]:
        """The kills as rows of the table."""
        return [
            (self.name, kill["time_s"], named(kill), kill["pid"], killer(kill))
            for kill in self.kills
        ]

    def sentences(self) -> Iterator[str]:
        """The main findings of the chart."""
        if self.traffic:
            yield self.busiest()
        if self.kills:
            by_kernel = sum(kill["is_of_kernel"] for kill in self.kills)
            of_kernel = f", {format_count(by_kernel)} of them by the kernel" if by_kernel else ""
            count = format_counted(len(self.kills), "process")
            yield f"On {self.name}, {count} died by SIGKILL{of_kernel}."
        if self.stalls:
            worst = max(self.stalls, key=lambda stall: stall["some"])
            who = "its cgroup" if self.is_of_cgroup else "the machine"
            if worst["some"] == 0:
                yield f"No task of {who} stalled for memory."
                return
            yield (
                f"At worst, at {format_seconds(worst['from_s'])}, some task of {who} stalled for "
                f"memory {format_share(worst['some'])} of the time."
            )

    def busiest(self) -> str:
        """The process name with the most traffic, and the time of the peak."""
        total = max(1, sum(map(self.accesses, self.traffic)))
        first = self.traffic[0]
        steps = range(len(first["reads"]))
        sums = [
            sum(each["reads"][at] + each["writes"][at] for each in self.traffic) for at in steps
        ]
        peak = max(steps, key=sums.__getitem__)
        rate = self.rate(sums[peak])
        amount = self.kind.figure(rate)
        share = format_share(self.accesses(first) / total)
        when = format_seconds(peak * self.step_s)
        if len(self.traffic) == 1:
            return f"On {self.name}, traffic peaks at {amount} a second, at {when}."
        return (
            f"On {self.name}, {share} of the accesses are by {first['name']}, more than by any "
            f"other name. All together peak at {amount} a second, at {when}."
        )

    def left_out(self) -> str:
        """A note on kills that the chart leaves out; empty if it shows all."""
        if not self.kills_left_out:
            return ""
        return f"{self.name}: {format_counted(self.kills_left_out, 'later kill')} are not shown."


def chart(identifier: str, timed: Timed) -> Chart:
    """Traffic as stacked areas, with stalls and kills on the same axis of time."""
    x = Axis("time", "seconds", low=0, high=timed.end_s)
    aside = [*stalled(timed), *killed(timed)]
    if not timed.traffic:
        view = View(timed.name, aside)
        title = f"Stalls for memory and kills on {timed.name}"
        return Chart(identifier, title, x, STALLED, [view], is_stepped=True)
    views = [
        View(label, [*(area(timed, series, counts) for series in timed.traffic), *aside])
        for label, counts in directions(timed).items()
    ]
    return Chart(
        identifier,
        f"Traffic on {timed.name}" + (" by name of process" if len(timed.traffic) > 1 else ""),
        x,
        Axis("in a second", timed.kind.unit, low=0),
        views,
        is_stacked=True,
        is_stepped=True,
        y_right=STALLED if timed.stalls else None,
    )


def stalled_share(before_us: float, after_us: float, length_us: float) -> float:
    """The share of a time that tasks stalled, from the sums before and after."""
    return min(1.0, max(0.0, after_us - before_us) / length_us)


def directions(timed: Timed) -> dict[str, tuple[Direction, ...]]:
    """The directions that the reader can select: what to count, by label."""
    labels: dict[Direction, str] = {"writes": timed.kind.writes, "reads": timed.kind.reads}
    apart: dict[str, tuple[Direction, ...]] = {
        label: (count,)
        for count, label in labels.items()
        if any(any(series[count]) for series in timed.traffic)
    }
    both: dict[str, tuple[Direction, ...]] = {
        f"{timed.kind.reads} and {timed.kind.writes}": tuple(labels)
    }
    return both | apart if len(apart) > 1 else apart


def area(timed: Timed, series: TrafficSeries, counts: Sequence[Direction]) -> Series:
    """The rate at the start of each step, and the last rate again at the end."""
    rates = [
        timed.rate(sum(step)) for step in zip(*(series[count] for count in counts), strict=True)
    ]
    points: list[Point] = [(place * timed.step_s, rate) for place, rate in enumerate(rates)]
    is_rest = series["name"] == OTHERS
    return Series(series["name"], [*points, (timed.end_s, rates[-1])], is_reference=is_rest)


def stalled(timed: Timed) -> Iterator[Series]:
    """The share of time in which tasks stalled for memory."""
    kinds: tuple[tuple[str, Literal["some", "full"]], ...] = ((SOME, "some"), (FULL, "full"))
    for name, what in kinds:
        points: list[Point] = [(stall["from_s"], stall[what]) for stall in timed.stalls]
        if points:
            last = timed.stalls[-1]
            yield Series(
                name,
                [*points, (last["to_s"], last[what])],
                is_reference=name == SOME,
                is_line=True,
                is_right=bool(timed.traffic),
            )


def killed(timed: Timed) -> Iterator[Series]:
    """A mark at the time of each kill."""
    if timed.kills:
        points: list[Point] = [(kill["time_s"], None) for kill in timed.kills]
        labels = [f"{named(kill)} killed by {killer(kill)}" for kill in timed.kills]
        yield Series(KILLS, points, labels, is_moment=True)


def named(kill: TimedKill) -> str:
    """The name of a victim, or its number."""
    return str(kill["name"] or f"pid {kill['pid']}")


def killer(kill: TimedKill) -> str:
    """Who sent the SIGKILL, as far as the recording shows."""
    return "the kernel (out of memory)" if kill["is_of_kernel"] else "a process"


def rows(shown: Sequence[Timed]) -> Iterator[tuple[str | int | float, ...]]:
    """A row for each name, with its traffic."""
    for timed in shown:
        total = max(1, sum(map(timed.accesses, timed.traffic)))
        for series in timed.traffic:
            yield (
                timed.name,
                series["name"],
                series["processes"],
                sum(series["reads"]),
                sum(series["writes"]),
                timed.accesses(series) / total,
            )
