"""S2 Fig. 1 on launch runs: what launches wait for in short memory, compared with ample memory.

A run in mode no-limit has ample memory; a run in any other mode has short memory. Runs of one plan
are repeats, and pooled; each is compared with ample memory on the same storage. The need of an app
is the memory that its first launch adds in ample memory (S2: by how much free memory falls).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from pagewise.bootstrap import BOOTSTRAP, ratio_interval
from pagewise.comparisons import StudyLaunch, StudyResult
from pagewise.errors import UsageError
from pagewise.launch_runs import LaunchRun, Visit, Wait, inputs_of, read_runs
from pagewise.recording import Progress
from pagewise.units import MIB
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.launch_fit import UNLIMITED, needs
from pagewise_studies.live_runs import emulated_files
from pagewise_studies.repeats import Repeats, in_words, judged, repeats_of
from pagewise_studies.table import Row, Table
from pagewise_studies.thrash_phones import NO_LIMIT, series
from pagewise_studies.verdict import Reading, Verdict, judge, load_checks, unmeasured

NAME = "launch"
TITLE = "S2 on a real kernel: launches in short memory"
CHECKS = load_checks(NAME)
WAITS = {
    "kill_s": "kills, until their memory was back",
    "reclaim_s": "direct reclaim",
    "refault_s": "refaults of active pages",
    "swap_in_s": "swap-ins",
    "storage_s": "storage",
    "ready_s": "threads ready without a processor",
    "processor_s": "the app's processor time",
    "kswapd_s": "kswapd's processor time",
    "memory_stall_s": "some task stalled for memory",
    "io_stall_s": "some task stalled for storage",
}
"""Fields of a visit with the times of a launch, and their names on the page."""
LAUNCHES_MIN = 2
"""The fewest launches that show how much launches differ by themselves."""
NEED_MIB_MIN = 32
"""An app that needs less is only an interpreter without an application."""


@dataclass(frozen=True)
class Pair:
    """Cold launches of an app in ample memory, and in a run with short memory."""

    app: str
    need_mib: int
    run: LaunchRun
    ample: Sequence[Visit]
    repeats: Sequence[Sequence[Visit]]
    """The launches in short memory of each repeat that has any."""

    @property
    def short(self) -> list[Visit]:
        """The launches in short memory of all repeats."""
        return [visit for repeat in self.repeats for visit in repeat]

    @property
    def taken_mib(self) -> float | None:
        """The need as S2 measures it: by how much a launch in ample memory reduces free memory."""
        taken = [visit.taken_bytes / MIB for visit in self.ample if visit.taken_bytes is not None]
        return median(taken) if taken else None

    @property
    def slowdown(self) -> float:
        """The median launch in short memory, over the median launch in ample memory."""
        return median(_seconds(self.short)) / median(_seconds(self.ample))

    @property
    def slowdowns(self) -> list[float]:
        """The slowdown in each repeat."""
        ample = median(_seconds(self.ample))
        return [median(_seconds(repeat)) / ample for repeat in self.repeats]

    @property
    def kills(self) -> float:
        """Mean number of kills in a launch, by the killer or the kernel."""
        return fmean(visit.kills + visit.oom_kills for visit in self.short)


def study(
    folders: Sequence[Path],
    output: Path,
    *,
    seed: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_runs(folders, allow_invalid=allow_invalid)
    unlimited = [run for run in runs if run.mode == NO_LIMIT]
    short = [plan for plan in repeats_of(runs) if plan.pooled.mode != NO_LIMIT]
    if not unlimited or not short:
        raise UsageError(
            "study launch compares runs in ample memory with runs in short memory",
            hint=f"give a run in mode {NO_LIMIT}, such as examples/{UNLIMITED[-1]}, and a run with "
            "a budget",
        )
    by_run = {plan.pooled.name: pairs(unlimited, plan) for plan in short}
    if not any(by_run.values()):
        raise UsageError(
            "no application has cold launches both with less memory free than it needs and, on the "
            f"same storage, in ample memory: {', '.join(by_run)}",
            hint="give runs in ample memory with the `storage` of the others, and runs in shorter "
            "memory",
        )
    slow = slow_baseline(by_run, seed)
    if slow and not allow_invalid:
        raise UsageError(
            f"{', '.join(run.name for run in unlimited)}: {slow}",
            path=str(unlimited[0].folder),
            hint="run the plan in ample memory again on a quiet machine, or take it all the same "
            "with --allow-invalid, which marks every row",
        )
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure_1(by_run), figure_need(by_run), *figure_parts(by_run)],
        verdicts=judged(
            short,
            lambda plans: verdicts({plan.pooled.name: by_run[plan.pooled.name] for plan in plans}),
        ),
        tables=[
            launches(by_run, seed, unlimited),
            splits(by_run),
            waits(by_run),
            *killers(by_run),
            *kills([plan.pooled for plan in short]),
        ],
        inputs=inputs_of(runs),
        runs=runs,
        flawed={run.name: [slow] for run in unlimited} if slow else {},
        launches=[split(pair) for found in by_run.values() for pair in found],
        arguments=f"{shlex.join(run.name for run in runs)} --seed {seed}",
        seeds=[seed],
        seeded=BOOTSTRAP,
    )


def pairs(unlimited: Sequence[LaunchRun], plan: Repeats) -> list[Pair]:
    """The apps with cold launches in short memory and, on the same storage, answered ones in ample
    memory, sorted by need.

    A launch is one in short memory if less memory was free before it than its app needs.
    """
    run = plan.pooled
    alike = [other for other in unlimited if emulated_files(other) == emulated_files(run)]
    need = needs(alike)
    found = []
    for app in run.applications:
        mib = need[app].anonymous_mib + need[app].file_mib if app in need else 0
        ample = [
            visit for other in alike for visit in _cold(other, app) if visit.launch_s is not None
        ]
        short = [
            [visit for visit in _cold(repeat, app) if (visit.free_before_bytes or 0) < mib * MIB]
            for repeat in plan.each
        ]
        if ample and any(short) and mib >= NEED_MIB_MIN:
            found.append(Pair(app, mib, run, ample, [visits for visits in short if visits]))
    return sorted(found, key=lambda pair: pair.need_mib)


def slow_baseline(by_run: Pairs, seed: int) -> str:
    """Why the launches in ample memory are no baseline; empty if they are.

    They are none if, for most of the pairs of a run and an application, the whole interval of the
    slowdown is below 1: then something else than memory slowed them. A pair needs two launches on
    each side to have an interval.
    """
    every = [
        pair
        for found in by_run.values()
        for pair in found
        if min(len(pair.short), len(pair.ample)) >= LAUNCHES_MIN
    ]
    below = [pair for pair in every if slowdown_interval(pair, seed)[1] < 1]
    if 2 * len(below) <= len(every):
        return ""
    return (
        f"launches in ample memory are slower than in short memory for {len(below)} of "
        f"{len(every)} pairs of a run and an application, so something else than memory slowed them"
    )


def slowdown_interval(pair: Pair, seed: int) -> tuple[float, float]:
    """The 95 % interval of the slowdown, by bootstrap over launches."""
    label = pair.run.name + pair.app
    return ratio_interval(_seconds(pair.short), _seconds(pair.ample), 0.5, seed, label)


SPLIT: tuple[tuple[str, tuple[Wait, ...]], ...] = (
    ("kill_wait_s", ("kill_s",)),
    ("direct_reclaim_s", ("reclaim_s",)),
    ("kswapd_s", ("kswapd_s",)),
    ("refault_s", ("storage_s",)),
    ("swapin_s", ("swap_in_s",)),
    ("cpu_s", ("processor_s", "ready_s")),
)
"""The parts of a slowdown, each the sum of these columns of a run.

``swap_in_s`` is no part of ``storage_s``. Until Linux 5.16 the kernel counted a wait in one of the
two. Since then it counts only the submission of a read as a swap-in, and the wait for the page as a
wait for storage (``swap_read_folio`` in mm/page_io.c). The kernel's own delay by refaults
(``refault_s`` of a visit) has only pages that were active when they left memory."""


def split(pair: Pair) -> StudyLaunch:
    """What the launches of an application wait for beyond those in ample memory."""
    slower_s = fmean(_seconds(pair.short)) - fmean(_seconds(pair.ample))
    measured: dict[str, float | None] = {}
    for part, columns in SPLIT:
        more = [
            None if short is None or ample is None else short - ample
            for name in columns
            for short, ample in [(_mean(pair.short, name), _mean(pair.ample, name))]
        ]
        known = [value for value in more if value is not None]
        measured[part] = sum(known) if len(known) == len(more) else None
    explained = sum(value for value in measured.values() if value is not None)
    free = [visit.free_before_bytes for visit in pair.short]
    known_free = [value for value in free if value is not None]
    return {
        "run": pair.run.name,
        "app": pair.app,
        "launches": len(pair.short),
        "slowdown": pair.slowdown,
        "slower_s": slower_s,
        "free_before_bytes": round(median(known_free)) if known_free else None,
        "parts": {
            "kill_wait_s": measured["kill_wait_s"],
            "direct_reclaim_s": measured["direct_reclaim_s"],
            "kswapd_s": measured["kswapd_s"],
            "refault_s": measured["refault_s"],
            "swapin_s": measured["swapin_s"],
            "cpu_s": measured["cpu_s"],
            "rest_s": slower_s - explained,
        },
    }


def splits(by_run: Pairs) -> Table:
    """The table of the parts whose sum is the slowdown of an application."""
    rows: list[Row] = []
    for found in by_run.values():
        for pair in found:
            launch = split(pair)
            free, parts = launch["free_before_bytes"], launch["parts"]
            rows.append(
                {
                    "run": series(pair.run),
                    "app": pair.app,
                    "free before, MiB": None if free is None else free / MIB,
                    "slower by, s": launch["slower_s"],
                    "kills, s": parts["kill_wait_s"],
                    "direct reclaim, s": parts["direct_reclaim_s"],
                    "kswapd, s": parts["kswapd_s"],
                    "files read again, s": parts["refault_s"],
                    "swap-ins, s": parts["swapin_s"],
                    "processor, s": parts["cpu_s"],
                    "rest, s": parts["rest_s"],
                }
            )
    return Table(
        "splits",
        "What makes launches in short memory slower, in parts that add up",
        "Means, beyond those in ample memory. *Files read again*: waits for storage; with a swap "
        "area on a disk, also for pages from swap. In ample memory, too, a launch reads its files "
        "once. The waits can have other causes, too: *file refaults a launch* above counts the "
        "pages that were read again. "
        "*Processor*: the app's processor time and its waits for a processor. *Rest*: what is left "
        "of *slower by*. It can be below 0, because waits and processor time are sums over all "
        "threads, direct reclaim is also processor time, and kills and kswapd run beside the "
        "launch. A cell is empty if the run did not record it.",
        rows,
    )


def _cold(run: LaunchRun, app: str) -> Iterator[Visit]:
    return (visit for visit in run.visits if visit.app == app and visit.is_cold)


def _seconds(visits: Sequence[Visit]) -> list[float]:
    """Launch times; of a launch that was not answered, the time that the lab waited for it."""
    return [
        visit.end_s - visit.start_s if visit.launch_s is None else visit.launch_s
        for visit in visits
    ]


Pairs = dict[str, list[Pair]]


def figure_1(by_run: Pairs) -> Figure:
    """S2 Fig. 1: launch time by app, from the smallest need to the largest."""
    ample = {pair.app: pair for found in by_run.values() for pair in found}
    ordered = sorted(ample.values(), key=lambda pair: pair.need_mib)
    points = [mean_point(pair.app, "ample memory", _seconds(pair.ample)) for pair in ordered]
    points += [
        mean_point(pair.app, series(pair.run), _seconds(pair.short))
        for found in by_run.values()
        for pair in found
    ]
    return Figure(
        f"{NAME}-fig1",
        "S2 Fig. 1: cold launches in ample and in short memory",
        "app, by its need",
        "launch time, seconds",
        tuple(points),
        {"runs": [[name, found[0].run.start_ns] for name, found in by_run.items() if found]},
        is_categorical=True,
    )


def figure_need(by_run: Pairs) -> Figure:
    """Slowdown over the need of an app."""
    return Figure(
        f"{NAME}-need",
        "Slowdown in short memory by what an app needs",
        "need, MiB",
        "median launch over that in ample memory",
        tuple(
            Point(pair.need_mib, series(pair.run), pair.slowdown, n=len(pair.short))
            for found in by_run.values()
            for pair in found
        ),
        {"runs": [[name, found[0].run.start_ns] for name, found in by_run.items() if found]},
    )


PARTS = {
    "processor_s": "own time",
    "ready_s": "ready without a processor",
    "reclaim_s": "direct reclaim",
    "refault_s": "refaults of active pages",
    "swap_in_s": "swap-ins",
}
"""What the threads of an app do in sequence; ``storage_s`` includes refaults."""


def figure_parts(by_run: Pairs) -> Iterator[Figure]:
    """The parts of the launches of each app: a view of ample memory, and a view of each run."""
    ample = {pair.app: pair for found in by_run.values() for pair in found}
    ordered = sorted(ample.values(), key=lambda pair: pair.need_mib)
    views = {"ample memory": [(pair.app, pair.ample) for pair in ordered]}
    views |= {
        series(found[0].run): [(pair.app, pair.short) for pair in found]
        for found in by_run.values()
        if found
    }
    title = "What launches are made of, all threads of an app together"
    for number, (view, launched) in enumerate(views.items(), 1):
        points = [
            Point(app, part, y, n=len(visits))
            for app, visits in launched
            for part, y in parts(visits)
        ]
        if points:
            yield Figure(
                f"{NAME}-parts-{number}",
                f"{title}: {view}",
                "app, by its need",
                "seconds a launch",
                tuple(points),
                {"view": view, "runs": [[name] for name in by_run]},
                is_categorical=True,
                is_stacked=True,
                chart=title,
                view=view,
            )


def parts(visits: Sequence[Visit]) -> list[tuple[str, float]]:
    """The mean parts of launches; empty if the visits lack a part."""
    waited = {words: _mean(visits, name) for name, words in PARTS.items()}
    storage = _mean(visits, "storage_s")
    found = {words: value for words, value in waited.items() if value is not None}
    if storage is None or len(found) < len(waited):
        return []
    # Refaults also wait for storage.
    found["other reads of files"] = max(0.0, storage - found[PARTS["refault_s"]])
    rest = fmean(_seconds(visits)) - sum(found.values())
    return [*found.items(), ("unexplained", max(0.0, rest))]


def launches(by_run: Pairs, seed: int, unlimited: Sequence[LaunchRun]) -> Table:
    """The table of slowdown and kills by app, compared with the runs in ample memory."""
    rows: list[Row] = []
    for found in by_run.values():
        for pair in found:
            low, high = slowdown_interval(pair, seed)
            rows.append(
                {
                    "run": series(pair.run),
                    "app": pair.app,
                    "need, MiB": pair.need_mib,
                    "free memory falls by, MiB": pair.taken_mib,
                    "launches": len(pair.short),
                    "not answered": sum(visit.launch_s is None for visit in pair.short),
                    "ample, s": median(_seconds(pair.ample)),
                    "short, s": median(_seconds(pair.short)),
                    "slowdown": pair.slowdown,
                    "from": low,
                    "to": high,
                    "least": min(pair.slowdowns),
                    "most": max(pair.slowdowns),
                    "kills a launch": pair.kills,
                    "file refaults a launch": fmean(visit.file_refaults for visit in pair.short),
                    "swap-ins, MiB a launch": fmean(visit.swap_in_bytes for visit in pair.short)
                    / MIB,
                }
            )
    return Table(
        "launches",
        "Cold launches, by need",
        f"Medians; *ample*, the baseline, is {in_words([run.name for run in unlimited])}. "
        f"{filler_note(by_run)}*Need*: "
        "how much memory the first launch adds to all apps without a limit. *Free "
        "memory falls by*: S2's measure of need, which also counts other load on the machine. "
        "*Launches*: those before which less memory was free than the app needs. One that was not "
        "answered counts with the time that the lab waited for it, so its figures are lower "
        "bounds. "
        "*From* and *to*: the 95 % interval of the slowdown, by bootstrap over launches. *Least* "
        "and *most*: the slowdown in one repeat.",
        rows,
    )


FILLER = "need.py"
"""The program of the launch lab that stands for the size of an application and nothing else."""


def filler_note(by_run: Pairs) -> str:
    """The sentence that names the apps which are the lab's filler; empty if none is."""
    names = dict.fromkeys(
        pair.app for found in by_run.values() for pair in found if is_filler(pair.run, pair.app)
    )
    if not names:
        return ""
    return (
        f"A filler, not an application: {', '.join(names)} (lab/python/{FILLER} fills memory and "
        "reads a file). "
    )


def is_filler(run: LaunchRun, app: str) -> bool:
    """Whether an app of the run's plan is the lab's filler."""
    applications = run.plan.get("applications")
    about = applications.get(app) if isinstance(applications, dict) else None
    command = about.get("command") if isinstance(about, dict) else None
    return isinstance(command, list) and any(
        str(word).rpartition("/")[2] == FILLER for word in command
    )


def waits(by_run: Pairs) -> Table:
    """The table of additional waits in short memory, compared with ample memory."""
    rows: list[Row] = []
    for found in by_run.values():
        for pair in found:
            times: dict[str, float | None] = {}
            for name, words in WAITS.items():
                short, ample = _mean(pair.short, name), _mean(pair.ample, name)
                times[words] = None if short is None or ample is None else short - ample
            slower = fmean(_seconds(pair.short)) - fmean(_seconds(pair.ample))
            rows.append({"run": series(pair.run), "app": pair.app, "slower by, s": slower, **times})
    return Table(
        "waits",
        "What launches in short memory wait for, seconds more than in ample memory",
        "Means. The columns may overlap: threads of the app wait in parallel, refaults of active "
        "pages also wait for storage, and kills run in parallel with the launch. The kernel does "
        "not count refaults of pages that were inactive when they left memory. "
        "kswapd and the last two columns are of the whole machine. A cell is empty if the run did "
        "not record it.",
        rows,
    )


def killers(by_run: Pairs) -> Iterator[Table]:
    """The table of launches by how killd kills, if the runs differ in it."""
    by_killer: dict[str, list[Pair]] = {}
    for found in by_run.values():
        for pair in found:
            if pair.run.killer:
                by_killer.setdefault(pair.run.killer, []).append(pair)
    if len(by_killer) < 2:
        return
    apps = {pair.app: pair.need_mib for found in by_killer.values() for pair in found}
    rows: list[Row] = []
    for app, need_mib in sorted(apps.items(), key=lambda item: item[1]):
        launched = {
            f"{killer}, s": [
                second for pair in found if pair.app == app for second in _seconds(pair.short)
            ]
            for killer, found in by_killer.items()
        }
        medians = {name: median(times) if times else None for name, times in launched.items()}
        rows.append({"app": app, "need, MiB": need_mib, **medians})
    yield Table("killers", "Launches by how killd kills", "Medians of cold launches.", rows)


def kills(runs: Sequence[LaunchRun]) -> Iterator[Table]:
    """The table of how long killd's victims take to free their memory."""
    rows: list[Row] = []
    for run in runs:
        times = sorted(1000 * kill.back_s for kill in run.victims if kill.back_s is not None)
        if not times:
            continue
        rows.append(
            {
                "run": series(run),
                "processes killed in all runs": len(run.victims),
                "back after, ms": median(times),
                "nine of ten within, ms": times[(len(times) * 9 - 1) // 10],
                "longest, ms": times[-1],
                "freed, MiB": median(kill.freed_bytes or 0 for kill in run.victims) / MIB,
            }
        )
    if rows:
        yield Table(
            "kills",
            "How long victims take to free their memory",
            "From the signal until nine tenths of the victim's memory are free. *Back after* and "
            "*freed* are medians.",
            rows,
        )


def _mean(visits: Sequence[Visit], name: str) -> float | None:
    """The mean of a wait over the visits that have it; None if fewer than half of them do."""
    values = [visit.waits.get(name) for visit in visits]
    known = [value for value in values if value is not None]
    return fmean(known) if known and 2 * len(known) >= len(values) else None


def verdicts(by_run: Pairs) -> Iterator[Verdict]:
    """The verdicts on S2's checks; each run in short memory is a reading."""
    readings: dict[str, list[Reading]] = {name: [] for name in CHECKS}
    for found in by_run.values():
        if len(found) < 3:
            continue
        choices = (("run", series(found[0].run)),)
        slowdowns = [pair.slowdown for pair in found]
        rises = min(slowdowns) > 1 and all(less <= more for less, more in pairwise(slowdowns))
        first, last = found[0], found[-1]
        few = [pair.kills for pair in found[:-1]]
        for name, holds, figure in (
            ("slower", rises, rank_correlation(found)),
            ("slower_small", 1.2 <= first.slowdown <= 1.6, first.slowdown),
            ("slower_large", 2.5 <= last.slowdown <= 4, last.slowdown),
            ("kills_small", min(few) >= 2 and max(few) <= 4, fmean(few)),
            ("kills_large", 10 <= last.kills <= 20, last.kills),
        ):
            readings[name].append(Reading(choices, holds, figure))
    data = ", ".join(by_run)
    for name, check in CHECKS.items():
        if readings[name]:
            yield judge(check, data, readings[name])
        else:
            yield unmeasured(check, data, "needs three apps with cold launches on both sides")


def rank_correlation(found: Sequence[Pair]) -> float:
    """Spearman's rank correlation of slowdown and need."""
    from scipy.stats import spearmanr

    needed, slower = [pair.need_mib for pair in found], [pair.slowdown for pair in found]
    if len(set(needed)) == 1 or len(set(slower)) == 1:
        return 0.0
    return float(spearmanr(needed, slower).statistic)
