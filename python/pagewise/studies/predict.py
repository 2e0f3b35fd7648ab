"""How well the pages that an application swapped in at its last visit foretell its next one.

Recall is the share of a visit's pages that the visit before brought in too, precision the share of
that one's pages that are wanted again. A page is (process, virtual page); it counts once a visit,
whether its fault read the device or found it read ahead. A visit that started its application
anew, or had nothing to swap in, foretells nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from pagewise import _core
from pagewise.errors import NothingRecorded, UnreadableInput
from pagewise.recording import Progress, Trace
from pagewise.studies import outcome
from pagewise.studies.bootstrap import BOOTSTRAP, interval
from pagewise.studies.figure import Figure, mean_point
from pagewise.studies.launch_runs import LaunchRun, inputs_of, read_runs
from pagewise.studies.table import Row, Table
from pagewise.studies.verdict import Reading, Verdict, judge, load_checks
from pagewise.units import PAGE_BYTES

if TYPE_CHECKING:
    import numpy

NAME = "predict"
TITLE = "How well an application's last visit foretells the pages of its next one"
ADDRESS_BITS = 44
"""Bits that the address of a page has room for, as in `trace::rows`; its space lies above them."""
MIB = 2**20
ALL = "all"
CHECKS = load_checks(NAME)
MEASURES = ("recall", "precision", "adjacency")


@dataclass(frozen=True)
class Foretold:
    """One visit beside the one before: shares, and ``pages`` swapped in at this one."""

    app: str
    round: int
    recall: float
    precision: float
    adjacency: float
    """Share of the pages that have a neighbour among them."""
    pages: int


def study(
    folders: Sequence[Path], output: Path, *, seed: int, progress: Progress | None
) -> dict[str, Any]:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    runs = read_runs(folders)
    found = {run: list(foretold(run, output, progress)) for run in runs}
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=[figure for run in runs for figure in figures(run, found[run])],
        verdicts=[verdict for run in runs for verdict in verdicts(run, found[run])],
        tables=[table(run, found[run], seed) for run in runs],
        inputs=inputs_of(runs),
        arguments=f"{' '.join(run.name for run in runs)} --seed {seed}",
        seeds=[seed],
        seeded=BOOTSTRAP,
    )


def foretold(run: LaunchRun, output: Path, progress: Progress | None = None) -> Iterator[Foretold]:
    """Every visit of a run that has one before it to compare with, in order."""
    import numpy

    trace = run.recording(output)
    if trace is None:
        raise UnreadableInput(
            f"{run.folder}: nothing was recorded",
            path=str(run.folder),
            hint="run it again with `pagewise-agent launch PLAN.toml -o FOLDER --record`",
        )
    before: dict[str, numpy.ndarray[Any, Any]] = {}
    for visit, pages in zip(run.visits, swapped_in(run, trace, progress), strict=True):
        last = before.get(visit.app)
        before[visit.app] = pages
        if last is None or visit.is_cold or not len(last) or not len(pages):
            continue
        both = len(numpy.intersect1d(last, pages, assume_unique=True))
        is_next = numpy.diff(pages) == 1
        adjacent = numpy.append(is_next, False) | numpy.append(False, is_next)
        yield Foretold(
            app=visit.app,
            round=visit.round,
            recall=both / len(pages),
            precision=both / len(last),
            adjacency=float(adjacent.mean()),
            pages=len(pages),
        )


def swapped_in(
    run: LaunchRun, trace: Trace, progress: Progress | None
) -> list[numpy.ndarray[Any, Any]]:
    """The pages of each visit's own application that came back meanwhile, ascending, each once."""
    import numpy

    header = trace.header
    kind, time_ns, space, address, process = (
        trace.column(name, progress=progress)
        for name in ("kind", "time_ns", "space", "address", "process")
    )
    is_in = numpy.flatnonzero(kind == _core.kinds().index("swap_in"))
    is_in = is_in[numpy.argsort(time_ns[is_in], kind="stable")]
    time_s = (time_ns[is_in] + header["start_ns"] - run.start_ns) / 1e9
    page = (space[is_in].astype(numpy.uint64) << numpy.uint64(ADDRESS_BITS)) | address[is_in]
    applications = list(dict.fromkeys(visit.app for visit in run.visits))
    owners = run.owners()
    number = numpy.array(
        [
            applications.index(name) if name in applications else -1
            for process in header["processes"]
            for name in [process["name"] if owners is None else owners.get(process["pid"])]
        ],
        dtype=numpy.int64,
    )
    app = number[process[is_in]]
    visits = [
        numpy.unique(page[first:last][app[first:last] == applications.index(visit.app)])
        for visit in run.visits
        for first, last in [numpy.searchsorted(time_s, (visit.start_s, visit.end_s))]
    ]
    if len(page) and not any(map(len, visits)):
        raise NothingRecorded(
            f"{trace.path}: no page was swapped in during a visit by the application visited",
            path=trace.path,
            hint="is this the recording of that run? Its times count from run.toml's "
            "monotonic_start_ns, its processes are those of processes.parquet",
        )
    return visits


def figures(run: LaunchRun, found: Sequence[Foretold]) -> list[Figure]:
    """Every measure by round, and by application."""
    if not found:
        return []
    config = {"run": run.name, "visits": len(run.visits), "start_ns": run.start_ns}
    by_round = [
        mean_point(number, name, [getattr(one, name) for one in found if one.round == number], [])
        for name in MEASURES
        for number in sorted({one.round for one in found})
    ]
    by_application = [
        mean_point(app, name, [getattr(one, name) for one in found if one.app == app], [])
        for name in MEASURES
        for app in sorted({one.app for one in found})
    ]
    return [
        Figure(
            f"{NAME}-rounds-{run.name}",
            f"How well the visit before foretells a visit, by round ({run.name})",
            "round",
            "share of pages",
            tuple(by_round),
            config,
        ),
        Figure(
            f"{NAME}-applications-{run.name}",
            f"How well the visit before foretells a visit, by application ({run.name})",
            "application",
            "share of pages",
            tuple(by_application),
            config,
            is_categorical=True,
        ),
    ]


def table(run: LaunchRun, found: Sequence[Foretold], seed: int) -> Table:
    """One row per application, and one over all visits."""
    names = [ALL, *sorted({one.app for one in found})] if found else []
    rows: list[Row] = []
    for name in names:
        visits = [one for one in found if name in (ALL, one.app)]
        recall = [one.recall for one in visits]
        low, high = interval(recall, None, seed, f"{run.name} {name} recall")
        pages = median(one.pages for one in visits)
        rows.append(
            {
                "application": name,
                "visits": len(visits),
                "recall": fmean(recall),
                "recall from": low,
                "recall to": high,
                "recall, median": median(recall),
                "precision": fmean(one.precision for one in visits),
                "adjacent": fmean(one.adjacency for one in visits),
                "pages": pages,
                "MiB": pages * PAGE_BYTES / MIB,
            }
        )
    return Table(
        f"{NAME}-{run.name}",
        f"Visits foretold by the visit before ({run.name})",
        "Shares are means over visits; the interval is that of the mean (bootstrap, 95 %); pages "
        "and MiB are medians over visits.",
        rows,
    )


BEFORE = {"recall": 0.80, "precision": 0.78, "adjacency": 0.85}
"""What was measured before on ten programs in 700 MB: 4 x Chromium, 2 x Node, 2 x Java, 2 x
Python, swap file, round-robin (median 12,561 pages a visit)."""


def verdicts(run: LaunchRun, found: Sequence[Foretold]) -> list[Verdict]:
    """Each measure against the earlier measurement; a tenth less still counts as the same."""
    judged = []
    for measure, figure in BEFORE.items():
        values = [getattr(one, measure) for one in found]
        readings = [
            Reading((("summary", name),), summary(values) >= 0.9 * figure, summary(values))
            for name, summary in (("mean", fmean), ("median", median))
            if values
        ]
        judged.append(judge(CHECKS[measure], run.name, readings))
    return judged
