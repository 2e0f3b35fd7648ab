"""Launches of frozen applications with relaunchd and without, on runs of the same plan.

A run is with relaunchd if its plan has ``prefetch = true``. The launches that count are warm and
answered, from the third round on: in the first the applications start, and from the second
relaunchd learns what a visit uses.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from pagewise.bootstrap import BOOTSTRAP, grouped_ratio_interval
from pagewise.comparisons import StudyResult
from pagewise.errors import UnreadableInput, UsageError
from pagewise.launch_runs import AGAIN, LaunchRun, Visit, inputs_of
from pagewise.recording import Progress
from pagewise.storage import read_text
from pagewise.units import MIB
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point
from pagewise_studies.live_runs import LATER, RUNS_MIN, emulated, read_comparable, refuse_different
from pagewise_studies.predict import Prediction, predictions
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import (
    Estimate,
    Reading,
    Verdict,
    in_order,
    judge,
    judge_estimate,
    load_checks,
    unmeasured,
    with_cause,
)

NAME = "relaunch"
TITLE = "Launches of frozen applications with relaunchd and without"
CHECKS = load_checks(NAME)
ALL = "all"
WITHOUT, WITH = "without relaunchd", "with relaunchd"
LOG = "relaunchd.log"
SLOWER_AT_MOST = 1.05
PREFETCH = frozenset(("prefetch", "prefetch_order", "prefetch_page_out", "prefetch_cold"))
"""The entries of a plan in which runs may differ from those without relaunchd."""
PHONE = "emmc-5.1"
"""The device with a target of its own."""

MEASURES: Mapping[str, tuple[str, str, Callable[[Visit], float]]] = {
    "launch": ("Launch time", "seconds, median", lambda visit: visit.launch_s or 0.0),
    "faults": ("Major faults", "a launch, mean", lambda visit: visit.major_faults or 0),
    "bytes": ("Read from swap", "MiB a launch, mean", lambda visit: visit.swap_in_bytes / MIB),
}
"""Title, unit and value of what is compared."""


@dataclass(frozen=True)
class Launches:
    """Launches that count, by application, without relaunchd and with it."""

    without: Mapping[str, Sequence[Visit]]
    prefetched: Mapping[str, Sequence[Visit]]

    def of(self, app: str) -> Launches:
        """The launches of one application."""
        return Launches({app: self.without[app]}, {app: self.prefetched[app]})

    def values(self, name: str) -> tuple[list[list[float]], list[list[float]]]:
        """A measure of each launch by application, without relaunchd and with it."""
        measure = MEASURES[name][2]
        below, above = (
            [[measure(visit) for visit in visits] for visits in by_app.values()]
            for by_app in (self.without, self.prefetched)
        )
        return below, above

    def typical(self, name: str) -> tuple[float, float]:
        """The median launch time or the mean of another measure, without relaunchd and with it."""
        summary = median if name == "launch" else fmean
        below, above = (
            summary([value for group in groups for value in group]) for groups in self.values(name)
        )
        return below, above

    def ratio(self, name: str, seed: int, *, faster: bool = False) -> Estimate | None:
        """With relaunchd over without, or ``faster`` the reverse; None if that may divide by 0."""
        below, above = self.values(name)
        base, figure = self.typical(name)
        if faster:
            below, above, base, figure = above, below, figure, base
        # Samples keep the launches of each application, so one that never has 0 is enough.
        if not base or not any(min(group) > 0 for group in below):
            return None
        quantile = 0.5 if name == "launch" else None
        label = f"{NAME} {name} {' '.join(self.without)}"
        return Estimate(figure / base, *grouped_ratio_interval(above, below, quantile, seed, label))


def study(
    folders: Sequence[Path],
    output: Path,
    *,
    seed: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_comparable(folders, PREFETCH, allow_invalid=allow_invalid)
    sides = {False: [], True: []}  # type: dict[bool, list[LaunchRun]]
    for run in runs:
        sides[bool(run.plan.get("prefetch"))].append(run)
    without, prefetched = sides.values()
    if not without or not prefetched:
        raise UsageError(
            "study relaunch compares runs with prefetch = true in their plan with runs without; "
            f"all of these are {'without' if without else 'with'}",
            hint="run the same plan the other way, and give all folders of both kinds",
        )
    refuse_different(
        prefetched, (), "compare each kind of settings of relaunchd with runs without it"
    )
    by_app = [_counted(of_side) for of_side in (without, prefetched)]
    apps = [app for app in runs[0].applications if all(app in counted for counted in by_app)]
    if not apps:
        raise UsageError(
            f"no application has an answered warm launch after round {LATER - 1} on both sides",
            hint=f"give runs of a plan with {LATER} rounds or more",
        )
    launches = Launches(*({app: counted[app] for app in apps} for counted in by_app))
    return outcome.assemble(
        NAME,
        output,
        title=f"{TITLE}, {_place(runs[0])}",
        figures=list(figures(launches, runs)),
        verdicts=in_order(CHECKS, verdicts(launches, without, prefetched, seed)),
        tables=[table(launches, seed), *pages(without, prefetched, output, progress)],
        inputs=inputs_of(runs) | {f"{run.name}/{LOG}": run.folder / LOG for run in prefetched},
        runs=runs,
        arguments=f"{shlex.join(run.name for run in runs)} --seed {seed}",
        seeds=[seed],
        seeded=BOOTSTRAP,
    )


def _place(run: LaunchRun) -> str:
    """The swap area and the storage of a run, for the title."""
    area = "on a swap file" if run.mode == "swap-file" else f"in mode {run.mode}"
    device = emulated(run)
    return f"on storage as slow as {device}" if device else area


def _counted(runs: Sequence[LaunchRun]) -> dict[str, list[Visit]]:
    found: dict[str, list[Visit]] = {}
    for visit in (visit for run in runs for visit in run.during(LATER)):
        if visit.launch_s is not None and not visit.is_cold:
            found.setdefault(visit.app, []).append(visit)
    return found


def figures(launches: Launches, runs: Sequence[LaunchRun]) -> Iterator[Figure]:
    """Each measure by application, before and after."""
    for name, (title, unit, _) in MEASURES.items():
        typical = {app: launches.of(app).typical(name) for app in launches.without}
        points = [
            Point(app, series, values[side], n=len(by_app[app]))
            for side, (series, by_app) in enumerate(
                ((WITHOUT, launches.without), (WITH, launches.prefetched))
            )
            for app, values in typical.items()
        ]
        yield Figure(
            f"{NAME}-{name}",
            f"{title} of a warm launch, {WITHOUT} and with",
            "application",
            unit,
            tuple(points),
            {"runs": [[run.name, run.start_ns] for run in runs]},
            is_categorical=True,
        )


def table(launches: Launches, seed: int) -> Table:
    """The table of every measure, with a row for each application and one for all."""
    rows: list[Row] = []
    for name, part in (*((app, launches.of(app)) for app in launches.without), (ALL, launches)):
        before, after = part.typical("launch")
        launch, faults, read = (part.ratio(measure, seed) for measure in MEASURES)
        rows.append(
            {
                "application": name,
                "launches": sum(map(len, part.prefetched.values())),
                "without, s": before,
                "with, s": after,
                "launch": launch.figure if launch else None,
                "from": launch.low if launch else None,
                "to": launch.high if launch else None,
                "major faults": faults.figure if faults else None,
                "bytes read": read.figure if read else None,
            }
        )
    return Table(
        "launches",
        "Warm launches with relaunchd, relative to those without",
        f"Medians of answered warm launches from round {LATER} on. *Launches*: those with "
        "relaunchd. The last columns are ratios, with relaunchd to without: of the launch time, "
        "with its 95 % interval by bootstrap over the launches of each application, of the major "
        "faults, and of the bytes read from swap.",
        rows,
    )


def verdicts(
    launches: Launches, without: Sequence[LaunchRun], prefetched: Sequence[LaunchRun], seed: int
) -> Iterator[Verdict]:
    """The verdict on each target."""
    data = ", ".join(run.name for run in (*without, *prefetched))
    device, mode = emulated(without[0]), without[0].mode
    few = (
        f"needs {RUNS_MIN} runs with and {RUNS_MIN} without relaunchd or more, to see how much "
        f"runs differ by themselves; these are {len(prefetched)} and {len(without)}"
        if min(len(without), len(prefetched)) < RUNS_MIN
        else ""
    )
    faster = launches.ratio("launch", seed, faster=True)
    own = f"needs runs on a swap file of the machine's own disk; these have mode = {mode!r}" + (
        f" and storage as slow as {device}" if device else ""
    )
    phone = (
        f"needs runs with swap and files as slow as {PHONE} "
        f"(python bench/relaunch.py OUT --emulate {PHONE})"
    )
    for name, other, estimate, least, most in (
        ("launch", "" if mode == "swap-file" and not device else own, faster, 1.5, None),
        ("launch_emulated", "" if device == PHONE else phone, faster, 2.0, None),
        ("faults", "", launches.ratio("faults", seed), None, 0.5),
        ("bytes", "", launches.ratio("bytes", seed), None, 1.25),
    ):
        if other or not estimate:
            none = f"{WITHOUT}, every application has launches with none, so a ratio has no bound"
            yield unmeasured(CHECKS[name], data, other or none)
        else:
            yield judge_estimate(CHECKS[name], data, estimate, least=least, most=most, lacking=few)
    found = {app: launches.of(app).ratio("launch", seed) for app in launches.without}
    lows = {app: ratio.low for app, ratio in found.items() if ratio}
    slower = {app: low for app, low in lows.items() if low > SLOWER_AT_MOST}
    readings = [Reading((), not slower, max(lows.values()))] if lows else []
    cause = "; ".join(
        f"{app} takes at least {low:.2f} times as long" for app, low in slower.items()
    )
    yield with_cause(judge(CHECKS["each"], data, readings, few), cause)


@dataclass
class Prefetched:
    """Pages of the visits for which relaunchd predicted something."""

    visits: int = 0
    predicted: int = 0
    read: int = 0
    used: int = 0
    missed: int = 0


def prefetches(run: LaunchRun) -> dict[str, Prefetched]:
    """What the log of relaunchd says about each application."""
    path = run.folder / LOG
    found: dict[str, Prefetched] = {}
    begun: dict[str, Mapping[str, str]] = {}
    try:
        for line in read_text(path).splitlines():
            fields = dict(word.split("=", 1) for word in shlex.split(line))
            if fields["event"] == "thawed":
                begun[fields["app"]] = fields
            if fields["event"] != "frozen" or "used_pages" not in fields:
                continue
            thawed = begun.pop(fields["app"])
            if not int(thawed["predicted_pages"]):
                continue
            pages = found.setdefault(fields["app"], Prefetched())
            pages.visits += 1
            pages.predicted += int(thawed["predicted_pages"])
            pages.read += int(thawed["prefetched_pages"])
            pages.used += int(fields["used_pages"])
            pages.missed += int(fields["missed_pages"])
    except UnreadableInput as error:
        raise UnreadableInput(str(error), path=str(path), hint=AGAIN) from error
    except (KeyError, ValueError) as error:
        raise UnreadableInput(
            f"{path}: not a log of relaunchd: {error}", path=str(path), hint=AGAIN
        ) from error
    return found


def pages(
    without: Sequence[LaunchRun],
    prefetched: Sequence[LaunchRun],
    output: Path,
    progress: Progress | None,
) -> Iterator[Table]:
    """What relaunchd read, used and missed, beside the prediction by a recording without it."""
    logs = [prefetches(run) for run in prefetched]
    recorded = next((run for run in without if run.recording_path("swap")), None)
    simulated = list(predictions(recorded, output, progress)) if recorded else []
    rows: list[Row] = []
    for app in dict.fromkeys(app for log in logs for app in log):
        of_app = [log[app] for log in logs if app in log]
        visits, predicted, read, used, missed = (
            sum(getattr(each, name) for each in of_app)
            for name in ("visits", "predicted", "read", "used", "missed")
        )
        same = [each for each in simulated if each.app == app]
        rows.append(
            {
                "application": app,
                "visits": visits,
                "predicted": round(predicted / visits),
                "read": round(read / visits),
                "used": round(used / visits),
                "missed": round(missed / visits),
                "recall": used / (used + missed) if used + missed else None,
                "recall, simulated": _mean(same, "recall"),
                "precision": used / read if read else None,
                "precision, simulated": _mean(same, "precision_out"),
            }
        )
    if rows:
        yield Table(
            "pages",
            "Pages of a visit: read ahead by relaunchd, used, missed",
            "Means over the visits for which relaunchd predicted something. *Recall*: used pages "
            "over used and missed ones. *Precision*: used pages over those read. *Simulated*: what "
            "a prediction by the visit before gives on the recording of a run without relaunchd "
            + (f"({recorded.name})." if recorded else "(none of these runs was recorded)."),
            rows,
            ("recall", "recall, simulated", "precision", "precision, simulated"),
        )


def _mean(found: Sequence[Prediction], name: str) -> float | None:
    values = [value for each in found for value in [getattr(each, name)] if value is not None]
    return fmean(values) if values else None
