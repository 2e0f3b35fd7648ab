"""Launches, kills and pressure of a system trace as a file for ui.perfetto.dev.

The layout is the Trace Event Format that Chrome and Perfetto open (a JSON object with
``traceEvents``). Times are those of the trace's own clock, so that the file can be compared with
the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pagewise.types import PressureInterval, TraceKill, TraceKills, TraceLaunches, TracePressure


Event: TypeAlias = dict[str, object]
US = 1e6
"""Times of the format are microseconds."""


def timeline(launches: TraceLaunches, kills: TraceKills, pressure: TracePressure) -> Event:
    """The results of one trace as one object; launches are slices with their parts as arguments."""
    begin_us = launches["begin_ns"] / 1e3
    tracks = [
        *(
            (
                "launches",
                launch["process"],
                slice_event(
                    " ".join(filter(None, [launch["process"], launch["class"]])),
                    launch["start_s"],
                    launch["duration_s"],
                    {**launch["parts"], "kills": launch["kills"], "pid": launch["pid"]},
                ),
            )
            for launch in launches["launches"]
        ),
        *(("kills", kill["killer"], killed(kill)) for kill in kills["kills"]),
        *(("pressure", interval["kind"], pressed(interval)) for interval in pressure["intervals"]),
    ]
    return {
        "displayTimeUnit": "ms",
        "otherData": {"trace": launches["trace"], "written_by": "pagewise"},
        "traceEvents": list(placed(tracks, begin_us)),
    }


def slice_event(name: str, start_s: float, duration_s: float, values: Event) -> Event:
    """An event with a duration."""
    known = {key: value for key, value in values.items() if value is not None}
    return {"ph": "X", "name": name, "ts": start_s * US, "dur": duration_s * US, "args": known}


def killed(kill: TraceKill) -> Event:
    """A kill, up to the end of the victim's last thread if that is known."""
    judgements = {
        name: f"{'yes' if answer['answer'] else 'no'}: {answer['why']}"
        for name, answer in (
            ("needless", kill["needless"]),
            ("late", kill["late"]),
            ("wrong_victim", kill["wrong_victim"]),
        )
        if answer["answer"] is not None
    }
    values: Event = {
        "pid": kill["pid"],
        "adj": kill["adj"],
        "reason": kill["reason"],
        "free_bytes": kill["free_bytes"],
        "came_back_after_s": kill["came_back_after_s"],
        **judgements,
    }
    name = f"kill of {kill['process'] or kill['pid']}"
    event = slice_event(name, kill["time_s"], kill["death_s"] or 0, values)
    if kill["death_s"] is None:
        del event["dur"]
        return {**event, "ph": "i", "s": "t"}
    return event


def pressed(interval: PressureInterval) -> Event:
    """An interval of pressure with its causes."""
    causes = [cause["process"] or str(cause["pid"]) for cause in interval["processes"]]
    values: Event = {
        "busy_s": interval["busy_s"],
        "bytes": interval["bytes"],
        "stalled_share": interval["stalled_share"],
        "processes": ", ".join(causes),
    }
    name = interval["kind"].replace("-", " ")
    return slice_event(name, interval["start_s"], interval["end_s"] - interval["start_s"], values)


def placed(tracks: Iterable[tuple[str, str, Event]], begin_us: float) -> Iterator[Event]:
    """Events with a process for each kind and a thread for each name, and the names of both.

    Launches of one app that overlap get threads of their own, since slices of a thread must nest.
    """
    groups: dict[str, int] = {}
    threads: dict[tuple[str, str, int], tuple[int, float]] = {}
    for group, name, event in sorted(tracks, key=lambda track: number(track[2], "ts")):
        if group not in groups:
            groups[group] = len(groups) + 1
            yield named("process_name", groups[group], 0, group)
        start = number(event, "ts")
        lane = 0
        while (held := threads.get((group, name, lane))) is not None and held[1] > start:
            lane += 1
        if held is None:
            held = (len(threads) + 1, start)
            yield named("thread_name", groups[group], held[0], name)
        threads[group, name, lane] = (held[0], start + number(event, "dur"))
        yield {**event, "ts": begin_us + start, "pid": groups[group], "tid": held[0]}


def named(what: str, process: int, thread: int, name: str) -> Event:
    """The name of a process or thread."""
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def number(event: Mapping[str, object], key: str) -> float:
    """A number of an event; 0 if it has none."""
    value = event.get(key, 0)
    return float(value) if isinstance(value, (int, float)) else 0.0
