"""A run of the launch lab: what was planned, how each visit went, and where its recording lies.

A run folder holds run.toml and visits.parquet; a recorded one processes.parquet and recording.pgr
too. As it ships, NAME.pgr may have its swap events, whose processes are named after their
applications, and NAME.blocks.csv.zst its block requests; NAME is that of the folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, TypeVar, cast, get_args, get_type_hints

from pagewise import _core
from pagewise.errors import PagewiseError, UnreadableInput, UsageError
from pagewise.grids.key import digest
from pagewise.recording import Progress, Trace, import_trace, read
from pagewise.storage import read_text
from pagewise.types import Loss
from pagewise.units import LIMIT, parse_size

Row = TypeVar("Row")

RECORDING = "recording.pgr"
CUTS = {"swap": ".pgr", "block": ".blocks.csv.zst"}
"""Endings of what stands for the recording as a run ships, by what it is read as."""


@dataclass(frozen=True)
class Visit:
    """One visit; times in seconds since the run began, ``launch_s`` None where no answer came.

    ``io_bytes`` is all storage I/O of the machine meanwhile, ``swap_bytes`` that to and from swap.
    ``bytes_in`` and ``swap_in_bytes`` are the reads among them; ``memory_bytes`` and
    ``anonymous_bytes`` belong to all applications at the visit's end.
    ``waits`` are seconds of the launch by the columns of `WAITS`, None where the run lacks them.
    ``free_before_bytes`` is the memory that was free for the launch, of the machine and within the
    budget; None in older runs with a budget. ``taken_bytes`` is by how much it fell until after the
    launch; in those runs, of the machine.
    ``repeat`` is the number of the run among pooled ones.
    ``oom_kills`` are processes that the kernel killed when memory ran out, ``kills`` applications
    that the killer ended. ``major_faults`` of the machine is None in older runs.
    """

    round: int
    app: str
    is_cold: bool
    launch_s: float | None
    start_s: float
    end_s: float
    kills: int
    oom_kills: int
    io_bytes: int
    swap_bytes: int
    file_refaults: int
    memory_bytes: int
    program: str = ""
    bytes_in: int = 0
    swap_in_bytes: int = 0
    anonymous_bytes: int = 0
    taken_bytes: int | None = None
    free_before_bytes: int | None = None
    major_faults: int | None = None
    repeat: int = 0
    waits: Mapping[str, float | None] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Kill:
    """A process that killd killed; ``back_s`` is None where its memory was still to come back."""

    visit: int
    app: str | None
    at_s: float
    freed_bytes: int | None
    back_s: float | None


@dataclass(frozen=True)
class LaunchRun:
    """One run; rounds are counted from 1. ``threshold`` is the killer's, None in other modes."""

    name: str
    folder: Path
    mode: str
    applications: tuple[str, ...]
    budget_bytes: int | None
    threshold: float | None
    schedule: str
    start_ns: int
    """CLOCK_MONOTONIC at which the visits' times begin."""
    unfinished: str | None
    """The reason why the run ended early; None if it did not."""
    visits: tuple[Visit, ...]
    killer: str = ""
    """How killd kills and takes memory, in mode minfree; empty where it did not take part."""
    victims: tuple[Kill, ...] = ()
    """The processes that killd killed."""
    plan: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)
    """The plan as in run.toml, with defaults filled in."""
    invalid_because: tuple[str, ...] | None = None
    """Why the run can carry no verdict, empty if it can (docs/launch-lab.md); None in runs made
    before runs judged themselves."""

    def launches(self, first: int = 1, last: int | None = None) -> list[float]:
        """Launch times in seconds of the answered visits of some rounds, both ends included."""
        return [visit.launch_s for visit in self.during(first, last) if visit.launch_s is not None]

    def during(self, first: int = 1, last: int | None = None) -> list[Visit]:
        """The visits of the rounds from ``first`` to ``last``, both included."""
        return [
            visit
            for visit in self.visits
            if first <= visit.round and (last is None or visit.round <= last)
        ]

    def rounds(self) -> list[int]:
        """The numbers of the rounds that have an answered visit."""
        return sorted({visit.round for visit in self.visits if visit.launch_s is not None})

    @property
    def kills(self) -> int:
        """Applications that the killer ended."""
        return sum(visit.kills for visit in self.visits)

    @property
    def oom_kills(self) -> int:
        """Processes that the kernel killed; 0 where the run does not say."""
        return sum(visit.oom_kills for visit in self.visits)

    @property
    def io_bytes(self) -> int:
        """All storage I/O during the visits."""
        return sum(visit.io_bytes for visit in self.visits)

    @property
    def swap_bytes(self) -> int:
        """What went to and from swap during the visits."""
        return sum(visit.swap_bytes for visit in self.visits)

    def io_bytes_per_visit(self, first: int = 1) -> float | None:
        """Storage I/O of one visit on average, from round ``first`` on; None without a visit."""
        visits = self.during(first)
        return sum(visit.io_bytes for visit in visits) / len(visits) if visits else None

    def files(self) -> list[Path]:
        """The files that its figures rest on."""
        names = ("run.toml", *TABLES)
        tables = [self.folder / name for name in names if (self.folder / name).is_file()]
        recordings = dict.fromkeys(map(self.recording_path, CUTS))
        return [*tables, *(path for path in recordings if path)]

    def recording_path(self, as_: str) -> Path | None:
        """The recording of the run, or its cut; None where nothing was recorded."""
        whole = self.folder / RECORDING
        cut = self.folder / f"{self.folder.resolve().name}{CUTS[as_]}"
        return next((path for path in (whole, cut) if path.is_file()), None)

    def recording(
        self, output: Path, as_: str = "swap", progress: Progress | None = None
    ) -> Trace | None:
        """The recording, imported into ``output`` once so that many passes are quick.

        ``as_`` is ``"swap"`` or ``"block"``.
        """
        source = self.recording_path(as_)
        return None if source is None else self.imported(source, output, as_, progress)

    def imported(
        self, source: Path, output: Path, as_: str = "swap", progress: Progress | None = None
    ) -> Trace:
        """A recording in the run's folder, imported into ``output`` once."""
        facts = source.stat()
        identity = digest([str(source.resolve()), facts.st_size, facts.st_mtime_ns])[:8]
        path = output / f"{self.name}-{as_}-{identity}.parquet"
        if not path.exists():
            import_trace(source, path, as_=as_, progress=progress)
        return read(path)

    def losses(self, output: Path) -> list[Loss]:
        """The losses of the run's recording, those that are not 0; none without a recording."""
        trace = self.recording(output)
        return [] if trace is None else [loss for loss in trace.header["losses"] if loss["count"]]

    def owners(self) -> dict[int, str] | None:
        """The application of each process number; None where processes bear their names."""
        path = self.folder / "processes.parquet"
        if not path.is_file():
            return None
        return {row["process"]: row["app"] for row in _rows(path, _ProcessRow)}


def read_runs(folders: Sequence[Path], *, allow_invalid: bool) -> list[LaunchRun]:
    """The runs in ``folders``, each under a name of its own.

    Raises UsageError for a run that says it can carry no verdict, except with ``allow_invalid``.
    """
    runs: list[LaunchRun] = []
    for folder in folders:
        name = folder.resolve().name
        same = sum(run.folder.resolve().name == name for run in runs)
        runs.append(read_run(folder, f"{name} ({same + 1})" if same else name))
    refuse_invalid(runs, allow_invalid=allow_invalid)
    return runs


def refuse_invalid(runs: Iterable[LaunchRun], *, allow_invalid: bool) -> None:
    """Raises UsageError for the first run that says it can carry no verdict, except with
    ``allow_invalid``."""
    for run in runs:
        if run.invalid_because and not allow_invalid:
            raise UsageError(
                f"{run.folder}: the run can carry no verdict: {'; '.join(run.invalid_because)}",
                path=str(run.folder),
                hint="run its plan again on a quiet machine, leave it out, or take it all the same "
                "with --allow-invalid, which marks every row",
            )


def read_run(folder: Path, name: str | None = None) -> LaunchRun:
    """The run in a folder. Raises UnreadableInput for what is missing, cut off or foreign."""
    about = _about(folder / "run.toml")
    path = folder / "visits.parquet"
    rows = list(_rows(path, _VisitRow))
    if not rows:
        raise UnreadableInput(f"{path}: the run has no visit", path=str(path), hint=AGAIN)
    first = min(row["round"] for row in rows)
    kills = folder / "kills.parquet"
    try:
        plan, run = about["plan"], about["run"]
        budget = plan.get("budget")
        budget_bytes = None if budget is None else parse_size(budget)
        limit_bytes = None if plan["mode"] == "no-limit" else budget_bytes
        threshold = plan["kill"]["threshold"] if plan["mode"] == "kill" else None
        return LaunchRun(
            name=name or folder.resolve().name,
            folder=folder,
            mode=str(plan["mode"]),
            applications=tuple(dict.fromkeys(map(str, plan["order"]))),
            budget_bytes=budget_bytes,
            threshold=None if threshold is None else float(threshold),
            schedule=str(plan.get("schedule", {}).get("kind", "round-robin")),
            start_ns=int(run["monotonic_start_ns"]),
            unfinished=None if run["finished"] else str(run.get("reason") or "no reason is given"),
            visits=tuple(_visit(row, first, limit_bytes) for row in rows),
            killer=_killer(plan) if kills.is_file() else "",
            victims=_victims(kills),
            plan=cast("Mapping[str, object]", plan),
            invalid_because=_invalid_because(about),
        )
    except UnreadableInput:  # The message names the table.
        raise
    except (KeyError, TypeError, AttributeError, ValueError, PagewiseError) as error:
        path = folder / "run.toml"
        raise UnreadableInput(
            f"{path}: not the description of a run: {_reason(error)}", path=str(path), hint=AGAIN
        ) from error


def _invalid_because(about: _About) -> tuple[str, ...] | None:
    """The reasons of a run that judged itself; a run without a reason has a general sentence."""
    if "valid" not in about:
        return None
    reasons = tuple(map(str, about.get("invalid_because", ())))
    return () if about["valid"] is True else reasons or ("run.toml does not say why",)


TABLES = ("visits.parquet", "processes.parquet", "kills.parquet")
SEAL = b"pgwcheck"
"""Stands before the footer of a Parquet file with checksums (docs/trace-file.md)."""


def unchecked_tables(folder: Path) -> list[Path]:
    """The tables of a run that have no checksums, so that damage may go unnoticed."""
    tables = [folder / name for name in TABLES]
    return [path for path in tables if path.is_file() and not _is_sealed(path)]


def _is_sealed(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path), hint=AGAIN) from error
    footer_bytes = 8 + int.from_bytes(content[-8:-4], "little")
    return content[:-footer_bytes].endswith(SEAL)


def inputs_of(runs: Sequence[LaunchRun]) -> dict[str, Path]:
    """The files that a study of ``runs`` rests on, by the name of the run and their own."""
    return {f"{run.name}/{path.name}": path for run in runs for path in run.files()}


AGAIN = "give folders that `pagewise-agent launch PLAN.toml -o FOLDER` wrote"

Wait = Literal[
    "processor_s",
    "ready_s",
    "kill_s",
    "reclaim_s",
    "refault_s",
    "swap_in_s",
    "storage_s",
    "kswapd_s",
    "memory_stall_s",
    "io_stall_s",
    "cpu_stall_s",
]
"""A column with a part of a launch's time (docs/launch-lab.md)."""

WAITS: tuple[Wait, ...] = get_args(Wait)
"""Where a launch spends its time, as far as the lab can tell."""


class _VisitRow(TypedDict):
    """What is read of a row of visits.parquet; the lab writes more."""

    round: int
    app: str
    cold: bool
    launch_s: float | None
    start_s: float
    end_s: float
    kills: int
    oom_kills: int | None
    bytes_in: int
    bytes_out: int
    swap_in_bytes: int
    swap_out_bytes: int
    file_refaults: int
    memory_bytes: int
    anonymous_bytes: int | None
    program: str | None
    free_bytes_before: int | None
    free_bytes_after: int | None
    major_faults: int | None
    processor_s: float | None
    ready_s: float | None
    kill_s: float | None
    reclaim_s: float | None
    refault_s: float | None
    swap_in_s: float | None
    storage_s: float | None
    kswapd_s: float | None
    memory_stall_s: float | None
    io_stall_s: float | None
    cpu_stall_s: float | None


class _KillRow(TypedDict):
    """What is read of a row of kills.parquet."""

    visit: int
    app: str | None
    at_s: float
    freed_bytes: int | None
    back_s: float | None


class _ProcessRow(TypedDict):
    """What is read of a row of processes.parquet."""

    app: str
    process: int


LATER_COLUMNS = (
    *("oom_kills", "anonymous_bytes", "program", "free_bytes_before", "free_bytes_after"),
    "major_faults",
    *WAITS,
)
"""The columns that older runs, made before these columns were added, lack."""


class _KillRule(TypedDict):
    threshold: float


class _Schedule(TypedDict):
    kind: NotRequired[str]


class _Minfree(TypedDict):
    kills: NotRequired[str]
    reclaim: NotRequired[str]
    file_cache_counts: NotRequired[bool]


class _Plan(TypedDict):
    """What is read of a plan; docs/launch-lab.md has every entry."""

    mode: str
    order: list[str]
    budget: NotRequired[str]
    kill: NotRequired[_KillRule]
    schedule: NotRequired[_Schedule]
    minfree: NotRequired[_Minfree]


class _Course(TypedDict):
    """How a run went."""

    monotonic_start_ns: int
    finished: bool
    reason: NotRequired[str]


class _About(TypedDict):
    """What is read of run.toml."""

    plan: _Plan
    run: _Course
    valid: NotRequired[bool]
    invalid_because: NotRequired[list[str]]


def _about(path: Path) -> _About:
    """The description of a run, of which only the syntax is checked."""
    try:
        return cast("_About", tomllib.loads(read_text(path)))
    except UnreadableInput as error:
        raise UnreadableInput(str(error), path=str(path), hint=AGAIN) from error
    except ValueError as error:
        raise UnreadableInput(f"{path}: not TOML: {error}", path=str(path), hint=AGAIN) from error


def _rows(path: Path, row: type[Row]) -> Iterator[Row]:
    """The rows of a table with the columns of `row`, whose types are checked."""
    try:
        table = _core.read_table(str(path))
    except UnreadableInput as error:
        raise UnreadableInput(str(error), path=str(path), hint=AGAIN) from error
    found = {column["name"]: column["values"] for column in table["columns"]}
    for name in LATER_COLUMNS:
        found.setdefault(name, [None] * max(map(len, found.values()), default=0))
    columns = get_type_hints(row)
    for name, kind in columns.items():
        wrong = ""
        if name not in found:
            wrong = "no column"
        elif not all(isinstance(value, kind) for value in found[name]):
            wrong = "a value of another type in the column"
        elif not all(_is_measured(value) for value in found[name]):
            wrong = f"a value that is negative or above {LIMIT:.0e} in the column"
        if wrong:
            raise UnreadableInput(f"{path}: {wrong} {name}", path=str(path), hint=AGAIN)
    for values in zip(*(found[name] for name in columns), strict=True):
        yield cast("Row", dict(zip(columns, values, strict=True)))


def _is_measured(value: object) -> bool:
    """Whether a value can be a count, a size or a time; texts and nothing can."""
    return not isinstance(value, int | float) or 0 <= value <= LIMIT


def _visit(row: _VisitRow, first_round: int, limit_bytes: int | None) -> Visit:
    free_bytes = row["free_bytes_before"]
    if free_bytes is not None and limit_bytes is not None and free_bytes > limit_bytes:
        # An older lab wrote the free memory of the machine, of which a budget leaves no more.
        free_bytes = None
    return Visit(
        round=row["round"] - first_round + 1,
        app=row["app"],
        is_cold=row["cold"],
        launch_s=row["launch_s"],
        start_s=row["start_s"],
        end_s=row["end_s"],
        kills=row["kills"],
        oom_kills=row["oom_kills"] or 0,
        io_bytes=row["bytes_in"] + row["bytes_out"],
        swap_bytes=row["swap_in_bytes"] + row["swap_out_bytes"],
        file_refaults=row["file_refaults"],
        memory_bytes=row["memory_bytes"],
        program=row["program"] or "",
        bytes_in=row["bytes_in"],
        swap_in_bytes=row["swap_in_bytes"],
        anonymous_bytes=row["anonymous_bytes"] or 0,
        taken_bytes=_taken_bytes(row["free_bytes_before"], row["free_bytes_after"]),
        free_before_bytes=free_bytes,
        major_faults=row["major_faults"],
        waits={name: row[name] for name in WAITS},
    )


def _taken_bytes(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


_RECLAIM = {"late": "late reclaim", "first": "reclaim at once", "never": "no reclaim"}
"""When killd takes a victim's memory, in words, by the value of ``minfree.reclaim``."""


def _killer(plan: _Plan) -> str:
    minfree = plan.get("minfree", {})
    # What a plan does not say is as in killd.
    kills, reclaim = minfree.get("kills", "serial"), minfree.get("reclaim", "late")
    level = "" if minfree.get("file_cache_counts", True) else ", by free pages only"
    return f"{kills} kills and {_RECLAIM.get(reclaim, f'reclaim {reclaim}')}{level}"


def _victims(path: Path) -> tuple[Kill, ...]:
    if not path.is_file():
        return ()
    return tuple(Kill(**row) for row in _rows(path, _KillRow))


def _reason(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)
