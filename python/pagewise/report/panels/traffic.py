"""Who caused how much traffic when, with the kills and the stalls for memory of the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pagewise.report.inputs import Inputs, Result
from pagewise.report.kinds import Kind, kind_of
from pagewise.report.model import Axis, Chart, Column, Panel, Point, Series, Table, View
from pagewise.units import (
    format_count,
    format_counted,
    format_seconds,
    format_share,
)

NANOSECONDS = 1e9
MICROSECONDS = 1e6
KILLS = "kills"
OTHERS = "others"
"""The name of those without a series of their own, as the analysis has it."""
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
    """One chart by recording and direction; None where no recording has a clock."""
    timed = {
        name: Timed(name, analysis, inputs.headers.get(name, {}))
        for name, analysis in inputs.analyses.items()
    }
    shown = [one for one in timed.values() if one.traffic or one.stalls or one.kills]
    if not shown:
        return None
    charts = [chart(f"traffic-{place}", one) for place, one in enumerate(shown)]
    tables = [Table("traffic", "Traffic by name of process", COLUMNS, list(rows(shown)))]
    if kills := [row for one in shown for row in one.kill_rows()]:
        tables.append(Table("traffic-kills", "Kills", KILL_COLUMNS, kills, is_open=len(kills) < 20))
    tables = [table for table in tables if table.rows]
    finding = " ".join(sentence for one in shown for sentence in one.sentences())
    notes = [one.left_out() for one in shown]
    return Panel(
        "traffic", "Traffic over time", finding, charts, tables, [note for note in notes if note]
    )


class Timed:
    """What one recording tells with times; seconds from its first event."""

    def __init__(self, name: str, analysis: Result, header: Result) -> None:
        self.name = name
        self.kind: Kind = kind_of(analysis)
        self.traffic: list[Result] = (analysis.get("traffic") or {}).get("series") or []
        self.step_s: float = (analysis.get("traffic") or {}).get("step_s") or 0.0
        steps = len(self.traffic[0]["reads"]) if self.traffic else 0
        self.end_s = steps * self.step_s
        shortage = header.get("shortage") or {}
        start_ns = header.get("start_ns") or 0
        stalls = shortage.get("stalls") or []
        if not self.traffic and stalls:
            # Without events the clock has no start.
            start_ns, end_ns = stalls[0]["time_ns"], stalls[-1]["time_ns"]
            self.end_s = (end_ns - start_ns) / NANOSECONDS
        self.stalls = list(self._stalls(stalls, start_ns))
        self.kills = [
            {**kill, "time_s": time_s}
            for kill in shortage.get("kills") or []
            if 0 <= (time_s := (kill["time_ns"] - start_ns) / NANOSECONDS) <= self.end_s
        ]
        self.kills_left_out: int = shortage.get("kills_left_out") or 0
        self.is_of_cgroup = bool(shortage.get("is_of_cgroup"))

    def _stalls(self, stalls: Sequence[Result], start_ns: int) -> Iterator[Result]:
        """Shares of time stalled between two sums, within the time of the events."""
        for before, after in pairwise(stalls):
            from_s, to_s = (
                min(max((one["time_ns"] - start_ns) / NANOSECONDS, 0), self.end_s)
                for one in (before, after)
            )
            length_us = (after["time_ns"] - before["time_ns"]) / NANOSECONDS * MICROSECONDS
            if to_s > from_s and length_us > 0:
                yield {
                    "from_s": from_s,
                    "to_s": to_s,
                    **{
                        what: min(1.0, max(0.0, after[what] - before[what]) / length_us)
                        for what in ("some_us", "full_us")
                    },
                }

    def accesses(self, series: Result) -> int:
        """All accesses of the processes of one name."""
        return sum(series["reads"]) + sum(series["writes"])

    def rate(self, count: float) -> float:
        """Accesses in one step as bytes, or objects, in a second."""
        return count * self.kind.bytes_each / self.step_s

    def kill_rows(self) -> list[tuple[str | float, ...]]:
        """The kills in the columns of the table."""
        return [
            (self.name, kill["time_s"], named(kill), kill["pid"], killer(kill))
            for kill in self.kills
        ]

    def sentences(self) -> Iterator[str]:
        """What stands out in the chart."""
        if self.traffic:
            yield self.busiest()
        if self.kills:
            by_kernel = sum(kill["is_of_kernel"] for kill in self.kills)
            of_kernel = f", {format_count(by_kernel)} of them by the kernel" if by_kernel else ""
            count = format_counted(len(self.kills), "process")
            yield f"On {self.name}, {count} died by SIGKILL{of_kernel}."
        if self.stalls:
            worst = max(self.stalls, key=lambda stall: stall["some_us"])
            who = "its cgroup" if self.is_of_cgroup else "the machine"
            if worst["some_us"] == 0:
                yield f"No task of {who} stalled for memory."
                return
            yield (
                f"Some task of {who} stalled for memory at most {format_share(worst['some_us'])} "
                f"of the time, at {format_seconds(worst['from_s'])}."
            )

    def busiest(self) -> str:
        """Who has most of the traffic, and when there is most of it."""
        total = max(1, sum(map(self.accesses, self.traffic)))
        first = self.traffic[0]
        steps = range(len(first["reads"]))
        sums = [sum(one["reads"][at] + one["writes"][at] for one in self.traffic) for at in steps]
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
        """That more were killed than are shown; nothing if none were."""
        if not self.kills_left_out:
            return ""
        return f"{self.name}: {format_counted(self.kills_left_out, 'later kill')} are not shown."


def chart(identifier: str, one: Timed) -> Chart:
    """Traffic as stacked areas; beside it on the same axis of time, stalls and kills."""
    x = Axis("time", "seconds", low=0, high=one.end_s)
    aside = [*stalled(one), *killed(one)]
    if not one.traffic:
        view = View(one.name, aside)
        title = f"Stalls for memory and kills on {one.name}"
        return Chart(identifier, title, x, STALLED, [view], is_stepped=True)
    views = [
        View(label, [*(area(one, series, counts) for series in one.traffic), *aside])
        for label, counts in directions(one).items()
    ]
    return Chart(
        identifier,
        f"Traffic on {one.name}" + (" by name of process" if len(one.traffic) > 1 else ""),
        x,
        Axis("in a second", one.kind.unit, low=0),
        views,
        is_stacked=True,
        is_stepped=True,
        y_right=STALLED if one.stalls else None,
    )


def directions(one: Timed) -> dict[str, tuple[str, ...]]:
    """What the reader can choose to see: what is counted under which label."""
    labels = {"writes": one.kind.writes, "reads": one.kind.reads}
    apart: dict[str, tuple[str, ...]] = {
        label: (count,)
        for count, label in labels.items()
        if any(any(series[count]) for series in one.traffic)
    }
    both: dict[str, tuple[str, ...]] = {f"{one.kind.reads} and {one.kind.writes}": tuple(labels)}
    return both | apart if len(apart) > 1 else apart


def area(one: Timed, series: Result, counts: Sequence[str]) -> Series:
    """Rates at the start of each step, and the last once more at its end."""
    rates = [one.rate(sum(step)) for step in zip(*(series[count] for count in counts), strict=True)]
    points: list[Point] = [(place * one.step_s, rate) for place, rate in enumerate(rates)]
    is_rest = series["name"] == OTHERS
    return Series(series["name"], [*points, (one.end_s, rates[-1])], is_reference=is_rest)


def stalled(one: Timed) -> Iterator[Series]:
    """The share of time in which tasks stalled for memory."""
    for name, what in ((SOME, "some_us"), (FULL, "full_us")):
        points: list[Point] = [(stall["from_s"], stall[what]) for stall in one.stalls]
        if points:
            last = one.stalls[-1]
            yield Series(
                name,
                [*points, (last["to_s"], last[what])],
                is_reference=name == SOME,
                is_line=True,
                is_right=bool(one.traffic),
            )


def killed(one: Timed) -> Iterator[Series]:
    """A mark at the time of each kill."""
    if one.kills:
        points: list[Point] = [(kill["time_s"], None) for kill in one.kills]
        labels = [f"{named(kill)} killed by {killer(kill)}" for kill in one.kills]
        yield Series(KILLS, points, labels, is_moment=True)


def named(kill: Result) -> str:
    """The name of a victim."""
    return str(kill["name"] or f"pid {kill['pid']}")


def killer(kill: Result) -> str:
    """Who killed, as far as the recording tells."""
    return "the kernel (out of memory)" if kill["is_of_kernel"] else "a process"


def rows(shown: Sequence[Timed]) -> Iterator[tuple[str | int | float, ...]]:
    """Names with their traffic in the columns of the table."""
    for one in shown:
        total = max(1, sum(map(one.accesses, one.traffic)))
        for series in one.traffic:
            yield (
                one.name,
                series["name"],
                series["processes"],
                sum(series["reads"]),
                sum(series["writes"]),
                one.accesses(series) / total,
            )
