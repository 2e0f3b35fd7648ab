"""A recording replayed against kill policies: memory over time, decisions, who else there was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagewise.report.inputs import Inputs, Result
from pagewise.report.model import Axis, Cell, Chart, Column, Panel, Series, Table, View
from pagewise.units import format_counted, format_size

DECISION_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("time_s", "time", "seconds"),
    Column("place", "place"),
    Column("process", "process", "count"),
    Column("name", "name"),
    Column("adj", "adj", "count"),
    Column("bytes", "memory and swap", "bytes"),
    Column("why", "why"),
    Column("judgement", "as recorded"),
)
REASON_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("from_s", "from", "seconds"),
    Column("to_s", "to", "seconds"),
    Column("why", "why no kill"),
)
TOTAL_COLUMNS = (
    Column("recording", "recording"),
    Column("policy", "policy"),
    Column("decisions", "decisions", "count"),
    Column("false_alarms", "false alarms", "count"),
    Column("missed_freezes", "missed freezes", "count"),
    Column("freezes", "freezes", "count"),
)


def panel(inputs: Inputs) -> Panel | None:
    """One view per recording; none where nothing was replayed."""
    replays = inputs.kill_replays
    if not replays:
        return None
    chart = Chart(
        "kill-replay-memory",
        "Available memory as recorded, and whom each policy would have killed",
        Axis("time", "seconds"),
        Axis("available", "bytes", low=0),
        [View(replay["name"], series(replay)) for replay in replays],
        "scatter",
    )
    tables = [
        Table("kill-replay", "Policies", TOTAL_COLUMNS, rows(replays, totals), True),
        Table("kill-replay-decisions", "Decisions", DECISION_COLUMNS, rows(replays, decisions)),
        Table("kill-replay-reasons", "Why not", REASON_COLUMNS, rows(replays, reasons)),
    ]
    notes = [
        "The recording goes on as it was, less what each victim had; how much tasks stalled is as "
        "recorded."
    ]
    title = "Would this killer have fired"
    return Panel("kill-replay", title, finding(replays[-1]), [chart], tables, notes)


def series(replay: Result) -> list[Series]:
    """Memory as a line, and a point for each decision at the memory that it found."""
    memory = [(point["time_s"], point["available_bytes"]) for point in replay["memory"]]
    return [
        Series("available", memory, is_reference=True, is_line=True),
        *(
            Series(
                one["policy"],
                [(made["time_s"], made["available_bytes"]) for made in one["decisions"]],
                [label(made) for made in one["decisions"]],
            )
            for one in replay["policies"]
            if one["decisions"]
        ),
    ]


def label(decision: Result) -> str:
    """Who dies, why, and who would have been next."""
    dying = ", ".join(named(one) for one in decision["victims"])
    others = ", ".join(named(one) for one in decision["spared"])
    return f"{dying} dies: {decision['why']}" + (f"; next {others}" if others else "")


def named(candidate: Result) -> str:
    """A candidate in a few words."""
    size = format_size(candidate["resident_bytes"] + candidate["swapped_bytes"])
    return f"{candidate['name']} ({size}, adj {candidate['adj']})"


def rows(
    replays: Sequence[Result], of: Callable[[Result, Result], list[Sequence[Cell]]]
) -> list[Sequence[Cell]]:
    """Lines of every policy of every recording."""
    return [
        (replay["name"], one["policy"], *line)
        for replay in replays
        for one in replay["policies"]
        for line in of(replay, one)
    ]


def totals(replay: Result, policy: Result) -> list[Sequence[Cell]]:
    """How often it decided, and how often wrongly."""
    counts = (len(policy["decisions"]), policy["false_alarms"], policy["missed_freezes"])
    return [(*counts, len(replay["freezes"]))]


def decisions(_replay: Result, policy: Result) -> list[Sequence[Cell]]:
    """A line for each victim, and one for each of those next in the ranking."""
    return [
        (
            made["time_s"],
            place,
            one["process"],
            one["name"],
            one["adj"],
            one["resident_bytes"] + one["swapped_bytes"],
            made["why"],
            made["judgement"],
        )
        for made in policy["decisions"]
        for place, candidates in (("dies", made["victims"]), ("next", made["spared"]))
        for one in candidates
    ]


def reasons(_replay: Result, policy: Result) -> list[Sequence[Cell]]:
    """Each reason not to kill, with the time it lasted."""
    return [(one["from_s"], one["to_s"], one["why"]) for one in policy["reasons"]]


def finding(replay: Result) -> str:
    """How the policies stand beside what was recorded."""
    told = [
        f"{one['policy']} would have killed {format_counted(len(one['decisions']), 'time')}, with "
        f"{format_counted(one['false_alarms'], 'false alarm')}, and missed "
        f"{format_counted(one['missed_freezes'], 'freeze')}"
        for one in replay["policies"]
    ]
    freezes = format_counted(len(replay["freezes"]), "freeze")
    return f"{replay['name']} has {freezes}: {'; '.join(told)}."
