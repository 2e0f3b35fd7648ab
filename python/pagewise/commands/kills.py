"""`pagewise kills`: who was killed in a system trace, why, and whether that was needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewise.commands.fleets import FleetAddress, FleetEngine, FleetJobs, FleetOptions
from pagewise.commands.options import Force, Json
from pagewise.commands.system_options import (
    ROWS_SHOWN,
    Report,
    SystemTrace,
    Timeline,
    answer,
    show_systems,
)
from pagewise.fleet import is_many
from pagewise.fleet_figures import Figures
from pagewise.system_figures import came_back, figures_of_kills
from pagewise.system_traces import kills
from pagewise.terminal import Part, cell, figures
from pagewise.units import format_count, format_counted, format_seconds, format_size

if TYPE_CHECKING:
    from pagewise.types import Judged, PolicyReplay, ReplayOutcome, TraceKill, TraceKills

EXAMPLES = (
    "pagewise kills phone.perfetto-trace",
    "pagewise kills phone.perfetto-trace --json",
    "pagewise kills 'traces/*.perfetto-trace'",
)


def run(
    trace: SystemTrace,
    report: Report = None,
    timeline: Timeline = None,
    force: Force = False,
    engine: FleetEngine = "local",
    address: FleetAddress = None,
    jobs: FleetJobs = None,
    json: Json = False,
) -> None:
    """Show which processes were killed in a system trace, why, and who came back soon.

    Each kill is judged by the trace: needless, late, or of the wrong process. For a folder or a
    pattern in quotes, show how the figures are spread over its traces.
    """
    options = FleetOptions(report, force, engine, address, jobs)
    if is_many(trace):
        show_systems("kills", trace, figures_at, options, timeline, json=json)
        return
    options.refuse_engine()
    answer(kills, summary, trace, report, timeline, force=force, json=json)


def figures_at(path: str) -> Figures:
    """The figures of a trace among many."""
    return figures_of_kills(kills(path))


def summary(found: TraceKills) -> list[Part]:
    """The kills, and how they are judged."""
    every = found["kills"]
    duration = format_seconds(found["duration_s"])
    if not found["shows_kills"]:
        return [f"kills unknown in {duration}: the trace records no events of kills"]
    back = f"; {came_back(every)}" if every else ""
    lines: list[Part] = [f"{format_counted(len(every), 'kill')} in {duration}{back}"]
    if found["left_out"]:
        lines.append(f"{format_count(found['left_out'])} further kills are left out")
    if early := sum(kill["time_s"] < 0 for kill in every):
        lines.append(
            f"{format_counted(early, 'kill')} before the first kernel event: times below 0"
        )
    if not every:
        return lines + replayed(found["replay"])
    shown = every[:ROWS_SHOWN]
    if len(shown) < len(every):
        lines.append(f"The first {len(shown)}; --json has all:")
    columns = ["process", "reason", "at", "adj", "free", "needless", "late", "wrong", "back"]
    lines += ["", figures(columns, [row(kill) for kill in shown], words=2), ""]
    for what in ("needless", "late", "wrong_victim"):
        lines += counted(every, what)
    return lines + replayed(found["replay"])


def row(kill: TraceKill) -> list[str]:
    """A kill as a row."""
    free, after_s = kill["free_bytes"], kill["came_back_after_s"]
    return [
        kill["process"] or f"pid {kill['pid']}",
        kill["reason"] or f"by {kill['killer']}",
        format_seconds(kill["time_s"]),
        "?" if kill["adj"] is None else str(kill["adj"]),
        "?" if free is None else format_size(free),
        answered(kill["needless"]),
        answered(kill["late"]),
        answered(kill["wrong_victim"]),
        format_seconds(after_s) if after_s is not None else not_back(kill),
    ]


def not_back(kill: TraceKill) -> str:
    """The word for a process that did not come back, with the time if the trace ends soon."""
    if kill["came_back_soon"] is None:
        return f"not in {format_seconds(kill['traced_for_s'])}"
    return "no"


def answered(judged: Judged) -> str:
    """The answer in a word."""
    return {None: "?", True: "yes", False: "no"}[judged["answer"]]


def counted(every: list[TraceKill], what: str) -> list[Part]:
    """How often a judgement holds, with the reason of the first kill for which it does."""
    by_answer: dict[bool | None, list[tuple[TraceKill, Judged]]] = {}
    for kill in every:
        judged = {
            "needless": kill["needless"],
            "late": kill["late"],
            "wrong_victim": kill["wrong_victim"],
        }[what]
        by_answer.setdefault(judged["answer"], []).append((kill, judged))
    name = what.replace("_", " ")
    lines: list[Part] = []
    if found := by_answer.get(True):
        kill, judged = found[0]
        lines.append(
            f"{name}: {format_count(len(found))} of {format_count(len(every))}, such as "
            f"{cell(kill['process'] or kill['pid'])}: {cell(judged['why'])}"
        )
    if unknown := by_answer.get(None):
        lines.append(
            f"{name}: {cell(unknown[0][1]['why'])} ({format_counted(len(unknown), 'kill')})"
        )
    return lines


def replayed(replay: ReplayOutcome | None) -> list[Part]:
    """What each kill policy would have done at the trace's samples of memory and processes."""
    if replay is None:
        return []
    return [would_have(policy, len(replay["freezes"])) for policy in replay["policies"]]


def would_have(policy: PolicyReplay, freezes: int) -> str:
    """Whom a policy would have killed, and how far that agrees with the trace."""
    victims = [
        victim["name"] or f"pid {victim['process']}"
        for decision in policy["decisions"]
        for victim in decision["victims"]
    ]
    whom = cell(victims[0]) if victims else "no process"
    if len(victims) > 1:
        whom += f" and {format_count(len(victims) - 1)} more"
    words = [f"{policy['policy']}, replayed at the trace's samples, would have killed {whom}"]
    named, others = policy["victims_named"], policy["victims_not_named"]
    if victims and named + others:
        words.append(f"kills that agree: {format_count(named)} of {format_count(named + others)}")
    if policy["false_alarms"]:
        words.append(f"false alarms: {format_count(policy['false_alarms'])}")
    if policy["missed_freezes"]:
        missed = format_count(policy["missed_freezes"])
        words.append(f"missed freezes: {missed} of {format_count(freezes)}")
    return "; ".join(words)
