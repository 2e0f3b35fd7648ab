"""How well the pages that an application swapped in at its last visit predict its next visit.

Recall is the share of a visit's pages that the visit before also brought in. Precision is the share
of pages of the visit before that are needed again. It includes pages that stayed in memory, which
a prefetch would not read, so the study also gives the precision over pages that left memory. A page
is (process, virtual page). It counts once a visit, whether its fault read the device or readahead
had read the page before. The study leaves out visits that started the application, and visits
without a swap-in.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from pagewise.bootstrap import BOOTSTRAP, interval
from pagewise.comparisons import StudyResult
from pagewise.errors import UnreadableInput
from pagewise.launch_runs import LaunchRun, Visit, inputs_of, read_runs
from pagewise.recording import Progress
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, mean_point
from pagewise_studies.predict_pages import moves
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import Reading, Verdict, judge, load_checks, with_cause

if TYPE_CHECKING:
    from pagewise_studies.predict_pages import Pages

NAME = "predict"
TITLE = "How well an application's last visit predicts the pages of its next one"
ALL = "all"
CHECKS = load_checks(NAME)
MEASURES = ("recall", "precision", "adjacency")


@dataclass(frozen=True)
class Prediction:
    """A visit compared with the visit before: shares, and the number of ``pages`` swapped in."""

    app: str
    round: int
    recall: float
    recall_all: float
    """Recall of all earlier visits since the start of the application."""
    precision: float
    precision_out: float | None
    """Precision over pages that left memory since, which a prefetch would read; None if none."""
    adjacency: float
    """Share of the pages whose neighbour is also among the pages of the visit."""
    pages: int


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
    found = {run: list(predictions(run, output, progress)) for run in runs}
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure for run in runs for figure in figures(run, found[run])],
        verdicts=[verdict for run in runs for verdict in verdicts(run, found[run])],
        tables=[table(run, found[run], seed) for run in runs],
        inputs=inputs_of(runs),
        runs=runs,
        arguments=f"{shlex.join(run.name for run in runs)} --seed {seed}",
        seeds=[seed],
        seeded=BOOTSTRAP,
        losses={run.name: run.losses(output) for run in runs},
    )


def predictions(
    run: LaunchRun, output: Path, progress: Progress | None = None
) -> Iterator[Prediction]:
    """The prediction of each visit that has a visit before it, in order."""
    trace = run.recording(output, progress=progress)
    if trace is None:
        raise UnreadableInput(
            f"{run.folder}: nothing was recorded",
            path=str(run.folder),
            hint="run it again with `pagewise-agent launch PLAN.toml -o FOLDER --record`",
        )
    moved = moves(run, trace, progress)
    before: dict[str, Visit] = {}
    back: dict[str, list[Pages]] = {}
    for visit in run.visits:
        pages = moved["swap_in"].during(visit.app, visit.start_s, visit.end_s)
        last = before.get(visit.app)
        earlier = [] if visit.is_cold else back.get(visit.app, [])
        before[visit.app], back[visit.app] = visit, [*earlier, pages]
        if last is not None and earlier and len(earlier[-1]) and len(pages):
            gone = moved["swap_out"].during(visit.app, last.start_s, visit.start_s)
            yield _compare(visit, pages, earlier, gone)


def _compare(visit: Visit, pages: Pages, earlier: Sequence[Pages], gone: Pages) -> Prediction:
    """``earlier``: the pages of the visits before. ``gone``: the pages that left since the last."""
    import numpy

    last = earlier[-1]
    again = numpy.isin(last, pages)
    is_next = numpy.diff(pages) == 1
    return Prediction(
        app=visit.app,
        round=visit.round,
        recall=float(again.sum()) / len(pages),
        recall_all=float(numpy.isin(pages, numpy.concatenate(earlier)).mean()),
        precision=float(again.mean()),
        precision_out=_share(again.sum(), (again | numpy.isin(last, gone)).sum()),
        adjacency=float((numpy.append(is_next, False) | numpy.append(False, is_next)).mean()),
        pages=len(pages),
    )


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None


def figures(run: LaunchRun, found: Sequence[Prediction]) -> list[Figure]:
    """Each measure by round, and by application."""
    if not found:
        return []
    config = {"run": run.name, "visits": len(run.visits), "start_ns": run.start_ns}
    by_round = [
        mean_point(
            number,
            name,
            [getattr(prediction, name) for prediction in found if prediction.round == number],
        )
        for name in MEASURES
        for number in sorted({prediction.round for prediction in found})
    ]
    by_application = [
        mean_point(
            app, name, [getattr(prediction, name) for prediction in found if prediction.app == app]
        )
        for name in MEASURES
        for app in sorted({prediction.app for prediction in found})
    ]
    return [
        Figure(
            f"{NAME}-rounds-{run.name}",
            f"How well the visit before predicts a visit, by round ({run.name})",
            "round",
            "share of pages",
            tuple(by_round),
            config,
        ),
        Figure(
            f"{NAME}-applications-{run.name}",
            f"How well the visit before predicts a visit, by application ({run.name})",
            "application",
            "share of pages",
            tuple(by_application),
            config,
            is_categorical=True,
        ),
    ]


SHARES = (
    "recall",
    "recall from",
    "recall to",
    "recall, median",
    "recall of all before",
    "precision",
    "precision, of those out",
    "adjacent",
)
"""The columns of the table that are shares."""


def table(run: LaunchRun, found: Sequence[Prediction], seed: int) -> Table:
    """The table with a row for all visits, and a row for each application."""
    names = [ALL, *sorted({prediction.app for prediction in found})] if found else []
    rows: list[Row] = []
    for name in names:
        visits = [prediction for prediction in found if name in (ALL, prediction.app)]
        recall = [prediction.recall for prediction in visits]
        low, high = interval(recall, None, seed, f"{run.name} {name} recall")
        out = [
            prediction.precision_out
            for prediction in visits
            if prediction.precision_out is not None
        ]
        pages = median(prediction.pages for prediction in visits)
        rows.append(
            {
                "application": name,
                "visits": len(visits),
                "recall": fmean(recall),
                "recall from": low,
                "recall to": high,
                "recall, median": median(recall),
                "recall of all before": fmean(prediction.recall_all for prediction in visits),
                "precision": fmean(prediction.precision for prediction in visits),
                "precision, of those out": fmean(out) if out else None,
                "adjacent": fmean(prediction.adjacency for prediction in visits),
                "pages": pages,
                "MiB": pages * PAGE_BYTES / MIB,
            }
        )
    return Table(
        f"{NAME}-{run.name}",
        f"Visits predicted from the visit before ({run.name})",
        "Shares are means over visits, pages and MiB are medians. *From* and *to*: the 95 % "
        "interval of the mean, by bootstrap. *Recall*: share of a visit's pages that the visit "
        "before had too. *Precision*: share of the pages of the visit before that are needed "
        "again; *of those out*: only pages that left memory since. *Adjacent*: pages with a "
        "neighbour in the set.",
        rows,
        SHARES,
    )


BEFORE = {"recall": 0.80, "precision": 0.78, "adjacency": 0.85}
"""An earlier measurement on ten programs in 700 MB: 4 x Chromium, 2 x Node, 2 x Java, 2 x Python,
swap file, round-robin (median 12,561 pages a visit)."""


def verdicts(run: LaunchRun, found: Sequence[Prediction]) -> list[Verdict]:
    """The verdict on each measure, which may be 10 % below the earlier measurement."""
    judged = []
    for measure, figure in BEFORE.items():
        values = [getattr(prediction, measure) for prediction in found]
        readings = [
            Reading((("summary", name),), summary(values) >= 0.9 * figure, summary(values))
            for name, summary in (("mean", fmean), ("median", median))
            if values
        ]
        verdict = judge(CHECKS[measure], run.name, readings)
        judged.append(with_cause(verdict, _cause(measure, found)))
    return judged


def _cause(measure: str, found: Sequence[Prediction]) -> str:
    """The cause of a verdict: pages that a prefetch could also predict, or would not read."""
    out = [prediction.precision_out for prediction in found if prediction.precision_out is not None]
    if measure == "recall" and found:
        share = fmean(prediction.recall_all for prediction in found) * 100
        pages = median(prediction.pages for prediction in found)
        return (
            f"all visits before together brought in {share:.0f} % of a visit's {pages:,.0f} pages"
        )
    if measure == "precision" and out:
        share = fmean(out) * 100
        return f"of the pages that had left memory since, {share:.0f} % were needed again"
    return ""
