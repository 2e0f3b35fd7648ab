"""S2's table and Fig. 2 on real kills: the phases of a kill, and what each phase grows with."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from pagewise.comparisons import StudyResult
from pagewise.errors import UsageError
from pagewise.recording import Progress
from pagewise.types import Loss
from pagewise_studies import outcome
from pagewise_studies.bootstrap import interval
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.kill_anatomy_checks import by_victim, verdicts
from pagewise_studies.kill_laws import Law, laws
from pagewise_studies.kill_measurement import Kill, KillMeasurement, read_kill_measurement, seen
from pagewise_studies.table import Row, Table

NAME = "kill-anatomy"
TITLE = "S2: the phases of a kill, and what makes them longer"
SEEDED = "95 % intervals of medians by bootstrap over kills"
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


def study(
    folders: Sequence[Path], output: Path, *, seed: int, progress: Progress | None = None
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    if len(folders) != 1:
        raise UsageError(
            f"study {NAME} takes one measurement, not {len(folders)}",
            hint="it compares kills of one machine and time",
        )
    measured = read_kill_measurement(folders[0])
    found = laws(measured)
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=figures(measured),
        verdicts=verdicts(measured, found),
        tables=tables(measured, found, seed),
        inputs={measured.path.name: measured.path},
        arguments=f"{shlex.quote(str(folders[0]))} --seed {seed}",
        seeds=[seed],
        seeded=SEEDED,
        losses={measured.name: losses(measured)},
    )


def losses(measured: KillMeasurement) -> list[Loss]:
    """Counts of events that the recorder lost, and of kills that it did not see."""
    counts = {
        "events that found the buffer full": measured.lost,
        "kills that were not seen": measured.asked - len(measured.kills),
    }
    return [{"what": what, "count": count} for what, count in counts.items() if count]


def figures(measured: KillMeasurement) -> list[Figure]:
    """Phases by victim; phases against memory, threads and other victims; memory over time."""
    config = {"kernel": measured.kernel, "machine": measured.machine, "kills": len(measured.kills)}
    memory = [
        Point(kill.rss_mib, label, value / 1000)
        for kill in measured.of("memory")
        for phase, label in {"unmap": "unmapping", "pagetables": "page tables"}.items()
        if (value := kill.phase(phase)) is not None and kill.rss_mib is not None
    ]
    return [
        Figure(
            f"{NAME}-phases",
            "Phases of a kill",
            "victim",
            "us",
            tuple(phase_points(measured)),
            config,
            is_categorical=True,
            is_stacked=True,
        ),
        Figure(
            f"{NAME}-memory",
            "Reclaim against resident memory",
            "resident MiB",
            "ms",
            tuple(sorted(memory, key=lambda point: (point.series, point.x))),
            config,
        ),
        against(
            measured.of("threads"),
            "threads",
            "Delivery and handling against threads",
            ("signal", "threads", "pagetables"),
            lambda kill: kill.asked_threads,
            config,
        ),
        against(
            measured.of("together"),
            "together",
            "Phases against others that die at once",
            ("threads", "unmap", "pagetables"),
            lambda kill: kill.others,
            config,
        ),
        Figure(
            f"{NAME}-curve",
            "Resident memory of one victim each, from the call to kill",
            "ms",
            "MiB",
            tuple(curve_points(measured)),
            config,
        ),
    ]


def phase_points(measured: KillMeasurement) -> list[Point]:
    """The median of each phase by kind of victim, then the times of the paper."""
    ours = [
        Point(name, label, median(values), n=len(values))
        for name, kills in by_victim(measured.of("paper")).items()
        for phase, label in PHASES.items()
        if (values := seen(kills, phase))
    ]
    paper = [
        Point(name, label, float(value))
        for name, (_, delivery, handling, reclaim, _) in PAPER.items()
        for label, value in (
            (PHASES["signal"], delivery),
            (PHASES["threads"], handling),
            ("reclaim, undivided", reclaim),
        )
    ]
    return ours + paper


def against(
    kills: Sequence[Kill],
    name: str,
    title: str,
    phases: Sequence[str],
    x: Callable[[Kill], int],
    config: Mapping[str, object],
) -> Figure:
    """Medians of some phases against ``x``, a requested property of the kill."""
    places = sorted({x(kill) for kill in kills})
    points = [
        Point(place, PHASES[phase], median(values), mean_point(0, "", values).std, len(values))
        for phase in phases
        for place in places
        if (values := seen([kill for kill in kills if x(kill) == place], phase))
    ]
    label = {"threads": "threads", "together": "others dying at once"}[name]
    return Figure(f"{NAME}-{name}", title, label, "us", tuple(points), config)


def curve_points(measured: KillMeasurement) -> list[Point]:
    """Memory over time in a typical kill of each kind of victim."""
    return [
        Point(time / 1000, name, size)
        for name, kills in by_victim([*measured.of("paper"), *measured.of("memory")]).items()
        for time, size in typical(kills).curve
    ]


def typical(kills: Sequence[Kill]) -> Kill:
    """The kill whose total is nearest to the median total."""
    totals = seen(kills, "total")
    middle = median(totals) if totals else 0.0
    return min(kills, key=lambda kill: abs((kill.total_us or 0.0) - middle))


def tables(measured: KillMeasurement, found: Sequence[Law], seed: int) -> list[Table]:
    """S2's table, the sweeps, the laws, the triggers and the timeline of a kill."""
    busy = f"load average {measured.load[0]:.1f} before and {measured.load[1]:.1f} after"
    return [
        Table(
            f"{NAME}-paper",
            "S2's table: one kill, phase by phase",
            "Medians in us, with the 95 % interval of the total. The paper does not give the "
            "memory of its victims. Victims and recorder ran at priority -15, with pages of 4 KiB. "
            f"Machine: Linux {measured.kernel}, {measured.machine}, {busy}.",
            [*paper_rows(), *summaries(measured.of("paper"), measured, seed)],
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-memory",
            "Phases by memory of the victim, 13 threads",
            "Medians in us.",
            summaries(measured.of("memory"), measured, seed),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-threads",
            "Phases by threads of the victim, 20 MiB",
            "Medians in us.",
            summaries(measured.of("threads"), measured, seed),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-together",
            "Phases by number of processes that die together, 13 threads and 60 MiB each",
            "Medians in us over all processes that died. The killer kills each as soon as its kill "
            "call for the one before returns.",
            summaries(measured.of("together"), measured, seed),
            ("reclaim share",),
        ),
        Table(
            f"{NAME}-laws",
            "How each phase grows",
            "Straight lines by the Theil-Sen estimator, with the 95 % interval of the slope. "
            "*At 0, us*: the intercept. *Correlation*: of ranks.",
            [law_row(law) for law in found],
        ),
        Table(
            f"{NAME}-triggers",
            "Who kills",
            "Medians in us. A kill by the kernel makes no system call, so its signal delivery "
            "cannot be measured.",
            trigger_rows(measured),
        ),
        *([timeline(measured)] if measured.of("paper") else []),
    ]


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


def summaries(kills: Sequence[Kill], measured: KillMeasurement, seed: int) -> list[Row]:
    """A row for each kind of victim and number of processes that die with it."""
    kinds = dict.fromkeys((kill.victim, kill.others) for kill in kills)
    return [
        summary(
            [kill for kill in kills if (kill.victim, kill.others) == kind], measured, seed, kind
        )
        for kind in kinds
    ]


def summary(
    kills: Sequence[Kill], measured: KillMeasurement, seed: int, kind: tuple[str, int]
) -> Row:
    """A row of medians over some kills."""
    totals = seen(kills, "total")
    name = f"{measured.name} {kills[0].experiment} {kind}"
    low, high = interval(totals, 0.5, seed, name) if totals else (None, None)
    return {
        "victim": kind[0],
        "others": kind[1],
        "kills": len(kills),
        "threads": middle([kill.threads for kill in kills]),
        "MiB": middle([kill.rss_mib for kill in kills]),
        "signal": middle(seen(kills, "signal")),
        "handling": middle(seen(kills, "threads")),
        "unmapping": middle(seen(kills, "unmap")),
        "page tables": middle(seen(kills, "pagetables")),
        "reclaim": middle(seen(kills, "reclaim")),
        "total": middle(totals),
        "total from": low,
        "total to": high,
        "reclaim share": middle([kill.reclaim_share for kill in kills]),
    }


def middle(values: Sequence[float | None]) -> float | None:
    """The median of the recorded values; None if there are none."""
    recorded = [value for value in values if value is not None]
    return float(median(recorded)) if recorded else None


def law_row(law: Law) -> Row:
    """The row of a law."""
    return {
        "phase": {**PHASES, "reclaim": "reclaim"}[law.phase],
        "against": law.against,
        "slope": law.slope,
        "from": law.low,
        "to": law.high,
        "unit": law.unit,
        "at 0, us": law.intercept,
        "correlation": law.correlation,
        "kills": law.kills,
    }


def trigger_rows(measured: KillMeasurement) -> list[Row]:
    """A row for each trigger, over all experiments."""
    triggers = dict.fromkeys(kill.trigger for kill in measured.kills)
    rows: list[Row] = []
    for trigger in triggers:
        kills = [kill for kill in measured.kills if kill.trigger == trigger]
        rows.append(
            {
                "trigger": trigger,
                "kills": len(kills),
                "signal": middle(seen(kills, "signal")),
                "handling": middle(seen(kills, "threads")),
                "reclaim": middle(seen(kills, "reclaim")),
                "total": middle(seen(kills, "total")),
            }
        )
    return rows


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
        "instants. The file trace.json of the measurement has every kill, for ui.perfetto.dev.",
        rows,
    )
