"""Results with times as a file for ui.perfetto.dev.

The layout is the Trace Event Format that Chrome and Perfetto open (a JSON object with
``traceEvents``). Times are those of the trace's own clock, so that the file can be compared with
the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from pagewise.errors import UnreadableInput
from pagewise.kill_replay import killer_of, process_named

if TYPE_CHECKING:
    from pagewise.types import (
        Analysis,
        PressureInterval,
        ReplayKills,
        TraceKill,
        TraceKills,
        TraceLaunches,
        TracePressure,
    )

Event: TypeAlias = dict[str, object]
Track: TypeAlias = tuple[str, str, Event]
"""The process and the thread that an event is shown at, and the event."""
TIMED = {
    "analyze": "analyze --by process",
    "replay-kills": "replay-kills",
    "launches": "launches",
    "trace-kills": "kills of a trace",
    "pressure": "pressure",
}
"""The results that have times, and how they are made."""
US = 1e6
"""Times of the format are microseconds."""


def timeline(launches: TraceLaunches, kills: TraceKills, pressure: TracePressure) -> Event:
    """The results of one trace as one object; launches are slices with their parts as arguments."""
    begin_us = launches["begin_ns"] / 1e3
    tracks = [*launched(launches), *killed_in(kills), *pressed_in(pressure)]
    return written(list(placed(tracks, begin_us)), {"trace": launches["trace"]})


def exported(results: Sequence[tuple[str, Mapping[str, object]]]) -> Event:
    """Results of kinds in ``TIMED``, with their names, as one object.

    Raises UnreadableInput for a result whose fields do not fit.
    """
    from pagewise.report.shapes import flaw

    events: list[Event] = []
    for name, result in results:
        kind = str(result["schema"]).removeprefix("pagewise.").partition("/")[0]
        wrong = flaw(kind, result)
        try:
            tracks = [] if wrong else list(tracks_of(kind, result))
        except KeyError as error:
            raise unfit(name, f"has no {error}") from error
        if wrong:
            raise unfit(name, str(wrong))
        begin_us = number(result, "begin_ns") / 1e3
        if len(results) > 1:
            tracks = [(f"{name}: {group}", track, event) for group, track, event in tracks]
        first = max((number(event, "pid") for event in events), default=0)
        for event in placed(tracks, begin_us):
            events.append({**event, "pid": number(event, "pid") + first})
    return written(events, {"results": [name for name, _ in results]})


def unfit(name: str, why: str) -> UnreadableInput:
    """The error for a result that another program changed."""
    hint = "make it again with the command that wrote it"
    return UnreadableInput(f"{name}: {why}", path=name, hint=hint)


def tracks_of(kind: str, result: Mapping[str, object]) -> Iterable[Track]:
    """The tracks of a result; its fields are known to fit."""
    match kind:
        case "analyze":
            return traffic(cast("Analysis", result))
        case "replay-kills":
            return replayed(cast("ReplayKills", result))
        case "launches":
            return launched(cast("TraceLaunches", result))
        case "trace-kills":
            return killed_in(cast("TraceKills", result))
        case _:
            return pressed_in(cast("TracePressure", result))


def written(events: list[Event], about: Event) -> Event:
    """The object of the file."""
    return {
        "displayTimeUnit": "ms",
        "otherData": {**about, "written_by": "pagewise"},
        "traceEvents": events,
    }


def launched(launches: TraceLaunches) -> Iterator[Track]:
    """A slice for each launch, with its parts as arguments."""
    for launch in launches["launches"]:
        name = " ".join(filter(None, [launch["process"], launch["class"]]))
        values: Event = {**launch["parts"], "kills": launch["kills"], "pid": launch["pid"]}
        event = slice_event(name, launch["start_s"], launch["duration_s"], values)
        yield "launches", launch["process"], event


def killed_in(kills: TraceKills) -> Iterator[Track]:
    """The kills of a trace."""
    return (("kills", kill["killer"], killed(kill)) for kill in kills["kills"])


def pressed_in(pressure: TracePressure) -> Iterator[Track]:
    """The intervals of pressure of a trace."""
    return (("pressure", each["kind"], pressed(each)) for each in pressure["intervals"])


def traffic(analysis: Analysis) -> Iterator[Track]:
    """Accesses of each step of time, by name of process; none without --by process."""
    found = analysis.get("traffic")
    for series in found["series"] if found else ():
        assert found is not None
        for step, (reads, writes) in enumerate(
            zip(series["reads"], series["writes"], strict=False)
        ):
            values: Event = {"reads": reads, "writes": writes}
            yield (
                "accesses",
                series["name"],
                counter(series["name"], step * found["step_s"], values),
            )


def replayed(replay: ReplayKills) -> Iterator[Track]:
    """Memory over time, freezes, the recorded kills, and what each policy would have killed."""
    for point in replay["memory"]:
        values: Event = {
            "available_bytes": point["available_bytes"],
            "swap_free_bytes": point["swap_free_bytes"],
        }
        yield "memory", "memory", counter("memory", point["time_s"], values)
    for freeze in replay["freezes"]:
        name = "kill by the kernel" if freeze["is_kernel_kill"] else "freeze"
        length_s = freeze["to_s"] - freeze["from_s"]
        yield "freezes", "freezes", slice_event(name, freeze["from_s"], length_s, {})
    for kill in replay.get("recorded") or []:
        name = f"kill of {process_named(kill['name'], kill['process'])}"
        values = {"killer": killer_of(kill)}
        yield "recorded kills", "recorded kills", moment(name, kill["time_s"], values)
    for policy in replay["policies"]:
        for decision in policy["decisions"]:
            victims = ", ".join(
                process_named(victim["name"], victim["process"]) for victim in decision["victims"]
            )
            values = {
                "why": decision["why"],
                "available_bytes": decision["available_bytes"],
                "judgement": decision["judgement"],
            }
            event = moment(f"would kill {victims}", decision["time_s"], values)
            yield "policies", policy["policy"], event


def counter(name: str, time_s: float, values: Event) -> Event:
    """The values of a counter from a time on."""
    return {"ph": "C", "name": name, "ts": time_s * US, "args": values}


def moment(name: str, time_s: float, values: Event) -> Event:
    """An event without a duration."""
    known = {key: value for key, value in values.items() if value is not None}
    return {"ph": "i", "s": "t", "name": name, "ts": time_s * US, "args": known}


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
