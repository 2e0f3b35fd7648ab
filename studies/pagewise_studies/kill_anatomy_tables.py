"""The tables of study kill-anatomy: S2's table, the sweeps, the laws, and how repeats differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean, median

from pagewise_studies.kill_anatomy_checks import (
    by_victim,
    duration_ms,
    longer_by,
    of_victim,
    share_of_reclaim,
)
from pagewise_studies.kill_laws import Law
from pagewise_studies.kill_measurement import Kill, KillMeasurement, KillRepeat, seen, typical
from pagewise_studies.table import Row, Table

NAME = "kill-anatomy"
PHASES = {
    "signal": "signal delivery",
    "threads": "signal handling",
    "unmap": "unmapping",
    "pagetables": "page tables",
}
PAPER = {
    "paper, 13 threads": (13, 47, 271, 10_785, 11_103),
    "paper, 41 threads": (41, 108, 1_077, 8_965, 10_150),
}
"""S2's table: threads, then delivery, handling, reclaim and total in microseconds."""


def tables(measured: KillMeasurement, found: Sequence[Law]) -> list[Table]:
    """S2's table, the sweeps, the laws, the triggers, the repeats and the timeline of a kill."""
    means = f"Means over {counted(len(measured.repeats))} of each repeat's median, in us"
    return [
        Table(
            f"{NAME}-paper",
            "S2's table: one kill, phase by phase",
            f"{means}; *total from* and *to*: the 95 % interval of the repeats. docs/killtrace.md "
            "defines the phases: signal delivery, signal handling, and reclaim, which is unmapping "
            "and page tables. Medians of phases do not add up to that of the total. The paper does "
            "not give the memory of its victims. Victims and recorder ran at priority -15, with "
            f"pages of 4 KiB. Machine: {measured.machine}.",
            [*paper_rows(), *summaries(measured, "paper")],
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-memory",
            "Phases by memory of the victim, 13 threads",
            f"{means}.",
            summaries(measured, "memory"),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-threads",
            "Phases by threads of the victim, 20 MiB",
            f"{means}.",
            summaries(measured, "threads"),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-together",
            "Phases by number of processes that die together, 13 threads and 60 MiB each",
            f"{means} over all processes that died. The killer kills each as soon as its kill "
            "call for the one before returns.",
            summaries(measured, "together"),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-laws",
            "How each phase grows",
            "Straight lines by the Theil-Sen estimator, one for each repeat: means, with the 95 % "
            "interval of the slope over the repeats. *At 0, us*: the intercept. *Correlation*: of "
            "ranks.",
            [law_row(law) for law in found],
        ),
        Table(
            f"{NAME}-triggers",
            "Who kills",
            f"{means}. A kill by the kernel makes no system call, so its signal delivery cannot be "
            "measured.",
            trigger_rows(measured),
        ),
        Table(
            f"{NAME}-differ",
            "How much repeats differ",
            "*From* and *to*: the 95 % interval of the mean by Student's t distribution; empty for "
            "a single repeat. *Least* and *most*: the figure in one repeat.",
            list(differences(measured)),
        ),
        Table(
            f"{NAME}-repeats",
            "The repeats, and what else ran",
            "*Others*: the share of all processors that other programs used, over a repeat and in "
            "its busiest round. A round in which they used more than a tenth was measured again. "
            "The load average counts the killed processes too.",
            [repeat_row(repeat) for repeat in measured.repeats],
            ("others", "others at most"),
        ),
        *([timeline(measured)] if measured.of("paper") else []),
    ]


def counted(repeats: int) -> str:
    """The number of repeats in words."""
    return f"{repeats} repeat{'s' * (repeats != 1)}"


def paper_rows() -> list[Row]:
    """The rows of the paper's two victims."""
    return [
        {
            "victim": name,
            "others": 0,
            "kills": 1,
            "threads": threads,
            "MiB": None,
            "signal": delivery,
            "handling": handling,
            "unmapping": None,
            "page tables": None,
            "reclaim": reclaim,
            "total": total,
            "total from": None,
            "total to": None,
            "reclaim share": reclaim / total,
        }
        for name, (threads, delivery, handling, reclaim, total) in PAPER.items()
    ]


def summaries(measured: KillMeasurement, experiment: str) -> list[Row]:
    """A row for each kind of victim and number of processes that die with it."""
    kinds = dict.fromkeys((kill.victim, kill.others) for kill in measured.of(experiment))
    return [summary(measured, experiment, kind) for kind in kinds]


def summary(measured: KillMeasurement, experiment: str, kind: tuple[str, int]) -> Row:
    """A row of means over the repeats of medians over one kind of victim."""

    def kills(repeat: KillRepeat) -> list[Kill]:
        return [kill for kill in repeat.of(experiment) if (kill.victim, kill.others) == kind]

    def mean(figure: Callable[[Sequence[Kill]], float | None]) -> float | None:
        return mean_of(measured, lambda repeat: figure(kills(repeat)))

    def phase(name: str) -> Callable[[Sequence[Kill]], float | None]:
        return lambda kills: middle(seen(kills, name))

    total = measured.estimate(lambda repeat: middle(seen(kills(repeat), "total")))
    return {
        "victim": kind[0],
        "others": kind[1],
        "kills": sum(len(kills(repeat)) for repeat in measured.repeats),
        "threads": mean(lambda kills: middle([kill.threads for kill in kills])),
        "MiB": mean(lambda kills: middle([kill.rss_mib for kill in kills])),
        "signal": mean(phase("signal")),
        "handling": mean(phase("threads")),
        "unmapping": mean(phase("unmap")),
        "page tables": mean(phase("pagetables")),
        "reclaim": mean(phase("reclaim")),
        "total": mean(phase("total")),
        "total from": None if total is None else total.low,
        "total to": None if total is None else total.high,
        "reclaim share": mean(share_of_reclaim),
    }


def mean_of(
    measured: KillMeasurement, figure: Callable[[KillRepeat], float | None]
) -> float | None:
    """The mean of a figure over the repeats that have it; None if there are none."""
    values = [value for value in map(figure, measured.repeats) if value is not None]
    return fmean(values) if values else None


def middle(values: Sequence[float | None]) -> float | None:
    """The median of the recorded values; None if there are none."""
    recorded = [value for value in values if value is not None]
    return float(median(recorded)) if recorded else None


def differences(measured: KillMeasurement) -> Iterator[Row]:
    """A row for each headline figure, with the interval and the range of the repeats."""
    for name, figure in headlines(measured):
        values = [value for value in map(figure, measured.repeats) if value is not None]
        if values:
            estimate = measured.estimate(figure)
            yield {
                "figure": name,
                "mean": fmean(values),
                "from": None if estimate is None else estimate.low,
                "to": None if estimate is None else estimate.high,
                "least": min(values),
                "most": max(values),
            }


def headlines(
    measured: KillMeasurement,
) -> Iterator[tuple[str, Callable[[KillRepeat], float | None]]]:
    """The figures that the verdicts rest on, by name; those of the laws are in their own table."""
    for victim in by_victim(measured.of("paper")):
        yield f"{victim}: total, ms", partial(of_victim, duration_ms, victim)
        yield f"{victim}: reclaim, % of the kill", partial(of_victim, percentage, victim)
    for others in sorted({kill.others for kill in measured.of("together") if kill.others}):
        yield (
            f"{others} other{'s' * (others != 1)} dying: reclaim, over that of a single kill",
            partial(longer_by, others),
        )


def percentage(kills: Sequence[Kill]) -> float | None:
    """The median share of reclaim in a kill, in percent."""
    share = share_of_reclaim(kills)
    return None if share is None else 100 * share


def repeat_row(repeat: KillRepeat) -> Row:
    """When a repeat was made, and how busy the machine was."""
    return {
        "repeat": repeat.path.name,
        "started": repeat.started,
        "rounds": len(repeat.load_other),
        "kills": len(repeat.kills),
        "load average before": repeat.load[0],
        "after": repeat.load[1],
        "others": fmean(repeat.load_other),
        "others at most": max(repeat.load_other),
        "rounds measured again": repeat.rounds_busy,
    }


def law_row(law: Law) -> Row:
    """The row of a law."""
    return {
        "phase": {**PHASES, "reclaim": "reclaim"}[law.phase],
        "against": law.against,
        "slope": law.slope,
        "from": None if law.estimate is None else law.estimate.low,
        "to": None if law.estimate is None else law.estimate.high,
        "unit": law.unit,
        "at 0, us": fmean(line.intercept for line in law.lines),
        "correlation": fmean(line.correlation for line in law.lines),
        "kills": sum(line.kills for line in law.lines),
    }


def trigger_rows(measured: KillMeasurement) -> list[Row]:
    """A row for each trigger, over all experiments."""
    rows: list[Row] = []
    for trigger in dict.fromkeys(kill.trigger for kill in measured.kills):
        rows.append(
            {
                "trigger": trigger,
                "kills": sum(len(of_trigger(repeat, trigger)) for repeat in measured.repeats),
                **{
                    label: mean_of(measured, partial(middle_of_trigger, trigger, phase))
                    for label, phase in TRIGGER_PHASES.items()
                },
            }
        )
    return rows


def middle_of_trigger(trigger: str, phase: str, repeat: KillRepeat) -> float | None:
    """The median of a phase in the kills of a repeat with one trigger."""
    return middle(seen(of_trigger(repeat, trigger), phase))


TRIGGER_PHASES = {
    "signal": "signal",
    "handling": "threads",
    "reclaim": "reclaim",
    "total": "total",
}
"""The columns of the table of triggers, and the phase of each."""


def of_trigger(repeat: KillRepeat, trigger: str) -> list[Kill]:
    """The kills of a repeat with one trigger."""
    return [kill for kill in repeat.kills if kill.trigger == trigger]


def timeline(measured: KillMeasurement) -> Table:
    """The steps of a typical kill, of the victim with the fewest threads."""
    fewest = min(measured.of("paper"), key=lambda kill: kill.asked_threads)
    shown = typical([kill for kill in measured.of("paper") if kill.victim == fewest.victim])
    threads = {
        thread: place for place, thread in enumerate(dict.fromkeys(step[1] for step in shown.steps))
    }
    rows: list[Row] = [
        {
            "at, us": start,
            "takes, us": duration or None,
            "thread": "killer" if threads[thread] == 0 else f"victim's {threads[thread]}",
            "step": name.split(" ")[0] + " a thread" if name.startswith("wakes ") else name,
        }
        for name, thread, start, duration in shown.steps
    ]
    return Table(
        f"{NAME}-timeline",
        f"One kill, step by step ({shown.victim}, trigger: {shown.trigger})",
        "The kill whose total is nearest to the median of its kind. Steps without a duration are "
        "instants. `make kills` also leaves every kill for ui.perfetto.dev, in trace-1.json.",
        rows,
    )
