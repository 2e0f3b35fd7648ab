"""Sorts the inputs of a report: results by their ``schema``, sweeps, and recordings."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from pagewise import _core, types
from pagewise.advice.evidence import NOT_SWAP, OF_BLOCKS, OF_FILES, not_swap_reason
from pagewise.answers import Advice, AtSize, PageSize
from pagewise.errors import UnreadableInput
from pagewise.grids import results as tables
from pagewise.grids.results import CountedCell, SimulatedCell
from pagewise.policies import written
from pagewise.questions import analyze, misses
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.report.shapes import KINDS, flaw
from pagewise.storage import read_json, refuse_endless

if TYPE_CHECKING:
    from pagewise.comparisons import BenchLazy, StudyResult, SweepCell, SweepTable
    from pagewise.fleet import Fleet

PARQUET_MAGIC = b"PAR1"
HASHED_BLOCK = 1 << 20
CACHE_SHARES = (0.001, 0.01, 0.1, 0.3)
"""Sizes of a cache at which to compare policies, as shares of the objects of a trace."""
NAMES_MAX = 4
"""How many names a title or a list of inputs spells out."""
COMPARED_MAX = 10_000_000
"""The most objects of a trace for comparing policies; each policy then takes some 2 GB."""


class ReadAnalysis(types.Analysis):
    """An analysis, with more that the recording says if the report has read it."""

    name: NotRequired[str]
    is_of_swap: NotRequired[bool]
    if_not_swap: NotRequired[str]
    header: NotRequired[types.Header]
    gaps: NotRequired[list[types.Gap]]
    recordings: NotRequired[int]


class CountedMisses(TypedDict):
    """Misses of policies on a recording."""

    name: str
    kind: NotRequired[str]
    requests: int
    pages: int
    misses: dict[str, dict[str, int]]
    losses: NotRequired[list[types.Loss]]


class NamedReplay(types.ReplayKills):
    """A replay of kills, with the name of its recording."""

    name: str


@dataclass(frozen=True)
class Source:
    """One input: its name, what it is, and the sha256 of its bytes."""

    name: str
    what: str
    sha256: str


@dataclass
class Inputs:
    """The inputs of the panels, by kind, in the order given."""

    analyses: dict[str, ReadAnalysis] = field(default_factory=dict)
    """Analyses by the name of the recording."""
    headers: dict[str, types.Header] = field(default_factory=dict)
    """Headers by the name of the recording."""
    misses: list[CountedMisses] = field(default_factory=list)
    cells: list[SimulatedCell] = field(default_factory=list)
    """One row per simulated cell, from sweeps and single simulations."""
    studies: list[StudyResult] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    page_sizes: list[PageSize] = field(default_factory=list)
    lazy_benches: list[BenchLazy] = field(default_factory=list)
    kill_replays: list[NamedReplay] = field(default_factory=list)
    kills: list[types.Kills] = field(default_factory=list)
    """Outputs of `pagewise-agent killtrace --json`."""
    launches: dict[str, types.TraceLaunches] = field(default_factory=dict)
    """Launches by the name of the system trace."""
    trace_kills: dict[str, types.TraceKills] = field(default_factory=dict)
    """Kills by the name of the system trace."""
    pressure: dict[str, types.TracePressure] = field(default_factory=dict)
    """Pressure on memory by the name of the system trace."""
    fleets: list[Fleet] = field(default_factory=list)
    """Figures of many recordings, by `info`, `analyze` or `misses` of a folder."""
    sources: list[Source] = field(default_factory=list)
    command: str | None = None

    def accessed(self) -> dict[str, ReadAnalysis]:
        """The analyses of recordings that have an access; the others have nothing to draw."""
        return {name: result for name, result in self.analyses.items() if result["accesses"]}

    def recordings(self) -> list[str]:
        """The names of all recordings and traces that results are about, each once."""
        return list(
            dict.fromkeys(
                [
                    *self.analyses,
                    *(str(cell["trace"]) for cell in self.cells),
                    *(recording_name(each["trace"]) for each in self.advice),
                    *self.launches,
                    *self.trace_kills,
                    *self.pressure,
                ]
            )
        )

    def traces_of_blocks(self) -> list[str]:
        """The names of the traces of block requests, which may have been read as swap, and of those
        with only pages of files.

        An analysis in JSON does not say that, but an advice or a simulation of the same trace does.
        """
        analyzed = [
            name
            for name, analysis in self.accessed().items()
            if analysis.get("kind") == "block" or analysis.get("is_of_swap") is False
        ]
        simulated = [str(cell["trace"]) for cell in self.cells if not is_of_swap(cell)]
        advised = [recording_name(each["trace"]) for each in self.advice if is_of_blocks(each)]
        caches = self.traces_of_objects()
        found = dict.fromkeys([*analyzed, *simulated, *advised])
        return [name for name in found if name not in caches]

    def traces_of_files(self) -> set[str]:
        """The names among `traces_of_blocks` of those with only pages of files."""
        analyses = self.analyses.items()
        analyzed = {name for name, each in analyses if each.get("if_not_swap") == OF_FILES}
        advised = [each for each in self.advice if each.get("evidence")]
        return analyzed | {
            recording_name(each["trace"])
            for each in advised
            if each["evidence"]["reason"] == OF_FILES
        }

    def traces_of_objects(self) -> set[str]:
        """The names of the traces of a cache's objects, by an analysis or a simulation."""
        analyzed = {name for name, each in self.analyses.items() if each.get("kind") == "objects"}
        return analyzed | {str(cell["trace"]) for cell in self.cells if is_of_objects(cell)}

    def losses(self) -> dict[str, list[types.Loss]]:
        """What each recording lost, by name, without recordings that lost nothing."""
        found: dict[str, list[types.Loss] | None] = {
            recording_name(advice["trace"]): advice.get("losses") for advice in self.advice
        }
        found |= {result["name"]: result.get("losses") for result in self.misses}
        found |= {name: result.get("losses") for name, result in self.analyses.items()}
        found |= {name: header["losses"] for name, header in self.headers.items()}
        return {name: losses for name, losses in found.items() if losses}


def gather(
    results: Sequence[PathLike | Mapping[str, object]], *, progress: Progress | None = None
) -> Inputs:
    """Reads every input. Raises UnreadableInput if one is neither a result nor a recording."""
    inputs = Inputs()
    for number, result in enumerate(results, start=1):
        if isinstance(result, Mapping):
            text = json.dumps(result, sort_keys=True, default=str)
            digest = hashlib.sha256(text.encode()).hexdigest()
            add(inputs, dict(result), f"result {number}", digest)
        else:
            add_file(inputs, os.fspath(result), progress)
    inputs.cells = named_as_files(inputs.cells)
    for name, analysis in inputs.analyses.items():
        if name in inputs.traces_of_blocks():
            analysis.setdefault("is_of_swap", False)
    return inputs


def add_file(inputs: Inputs, path: str, progress: Progress | None) -> None:
    """Adds a file: JSON if it starts so, otherwise a sweep's table or a recording."""
    refuse_endless(path)
    try:
        digest, head = fingerprint(path)
    except IsADirectoryError as error:
        raise UnreadableInput(
            f"{path}: is a folder; name the recording or the result in it",
            path=path,
            hint="a page about all recordings in it: "
            f"pagewise analyze {shlex.quote(path)} --report FILE.html",
        ) from error
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=path) from error
    if head.lstrip()[:1] == b"{":
        # It starts with a brace.
        result = cast("dict[str, object]", read_json(path))
        add(inputs, result, Path(path).stem, digest, path=path)
    elif head.startswith(PARQUET_MAGIC) and (cells := sweep_cells(path)) is not None:
        table = {"schema": "pagewise.sweep/1", "cells": cells}
        add(inputs, table, Path(path).stem, digest, path=path)
    else:
        trace = read(path)
        held = trace.info()
        analysis = cast("ReadAnalysis", analyze(trace, by="process", progress=progress))
        analysis["header"] = held["header"]
        analysis["is_of_swap"] = held["is_of_swap"]
        analysis["if_not_swap"] = not_swap_reason(held)
        analysis["gaps"] = held["gaps"]
        analysis["recordings"] = held["recordings"]
        add(inputs, analysis, recording_name(path), digest)
        if analysis["kind"] == "objects":
            compare_policies(inputs, trace, analysis["pages"], progress)


def compare_policies(inputs: Inputs, trace: Trace, objects: int, progress: Progress | None) -> None:
    """Adds the misses of every eviction policy on a cache trace, for caches of several sizes.

    Each policy reads the whole trace again, which bounds the memory. Very large traces are left
    out.
    """
    if not 0 < objects <= COMPARED_MAX:
        return
    frames = sorted({max(1, round(share * objects)) for share in CACHE_SHARES})
    names = [row["name"] for row in _core.policies()]
    counts = [misses(trace, policy=[name], frames=frames, progress=progress) for name in names]
    together = {name: count for each in counts for name, count in each["misses"].items()}
    name = recording_name(trace.path)
    inputs.misses.append(
        {
            "name": name,
            "kind": "objects",
            "requests": counts[0]["requests"],
            "pages": counts[0]["pages"],
            "misses": together,
            "losses": counts[0]["losses"],
        }
    )


def sweep_cells(path: str) -> list[SweepCell] | None:
    """The rows of a sweep's results; None for a trace, which is also Parquet."""
    try:
        table = _core.read_table(path)
    except UnreadableInput:
        return None
    if dict(table["metadata"]).get("schema") != "pagewise.sweep/1":
        return None
    return tables.rows(table)


def add(
    inputs: Inputs, result: Mapping[str, object], name: str, digest: str, *, path: str | None = None
) -> None:
    """Adds one result to the list for its schema. Raises UnreadableInput if its fields do not fit.

    ``name`` is used if the result names no recording; ``path`` is the result's file, if any.
    """
    schema = str(result.get("schema", ""))
    kind = schema.removeprefix("pagewise.").partition("/")[0]
    where = path or name
    if not schema.startswith("pagewise.") or kind not in KINDS:
        raise UnreadableInput(
            f"{where}: not a result of pagewise (schema {schema[:60] or 'absent'})",
            path=path,
            hint="give outputs of --json, results of sweep or study, or recordings",
        )
    if wrong := flaw(kind, result):
        raise UnreadableInput(
            f"{where}: {schema[:60]}: {wrong}",
            path=path,
            hint="make it again with the command that wrote it",
        )
    if path is None:
        name = described(kind, result) or name
    name = str(result.get("name") or recording_name(str(result.get("trace") or name)))
    sort_in(inputs, kind, result, name)
    inputs.sources.append(Source(name, kind, digest))


def described(kind: str, result: Mapping[str, object]) -> str:
    """A name for a result without a file: its study, or the traces of its cells; may be empty."""
    if kind == "study":
        return str(result["study"])
    if kind == "sweep":
        cells = cast("SweepTable", result)["cells"]
        names = list(dict.fromkeys(recording_name(str(cell["trace"])) for cell in cells))
        return listed(names)
    return ""


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{', '.join(names[:NAMES_MAX])}{more}"


def sort_in(inputs: Inputs, kind: str, result: Mapping[str, object], name: str) -> None:
    """Adds a result to the list of its kind; its fields are known to fit."""
    match kind:
        case "analyze":
            analysis = cast("ReadAnalysis", result)
            inputs.analyses[unused(name, inputs.analyses)] = analysis
            if header := analysis.get("header"):
                inputs.headers[name] = header
        case "misses":
            inputs.misses.append(cast("CountedMisses", {"name": name, **result}))
        case "misses-of-traces":
            inputs.misses += [
                cast(
                    "CountedMisses",
                    {"name": recording_name(str(each.get("trace") or name)), **each},
                )
                for each in cast("types.MissesOfTraces", result)["traces"]
            ]
        case "simulate":
            inputs.cells.append(flat(cast("types.Simulate", result), name))
        case "sweep":
            table = cast("SweepTable", result)
            cells = [cell for cell in table["cells"] if not cell.get("error")]
            simulated = [cell for cell in cells if cell.get("policy") is None]
            of_policies = [cell for cell in cells if cell.get("policy") is not None]
            inputs.cells += cast("list[SimulatedCell]", simulated)
            inputs.misses += counted(cast("list[CountedCell]", of_policies))
        case "study":
            inputs.studies.append(cast("StudyResult", result))
        case "page-size" | "advice-page-size":
            inputs.page_sizes.append(cast("PageSize", result))
        case "bench-lazy":
            inputs.lazy_benches.append(cast("BenchLazy", result))
        case "replay-kills":
            replay = cast("types.ReplayKills", result)
            inputs.kill_replays.append({**replay, "name": recording_name(replay["recording"])})
        case "launches":
            inputs.launches[name] = cast("types.TraceLaunches", result)
        case "trace-kills":
            inputs.trace_kills[name] = cast("types.TraceKills", result)
        case "pressure":
            inputs.pressure[name] = cast("types.TracePressure", result)
        case "fleet":
            inputs.fleets.append(cast("Fleet", result))
        case "kills":
            inputs.kills.append(cast("types.Kills", result))
        case _:
            inputs.advice.append(cast("Advice", result))


def named_as_files(cells: Sequence[SimulatedCell]) -> list[SimulatedCell]:
    """The cells with the name that other results give their trace.

    Traces that would share a name keep their own.
    """
    traces = {str(cell["trace"]) for cell in cells}
    # A name without a folder comes from another result of the same recording.
    taken = Counter(recording_name(trace) for trace in traces if trace != recording_name(trace))
    names = {
        trace: recording_name(trace) if taken[recording_name(trace)] <= 1 else trace
        for trace in traces
    }
    return [{**cell, "trace": names[str(cell["trace"])]} for cell in cells]


def counted(cells: Sequence[CountedCell]) -> list[CountedMisses]:
    """The policies of a sweep, as one result of `pagewise misses` for each trace."""
    traces: dict[str, CountedMisses] = {}
    for cell in cells:
        seed = cell.get("seed")
        name = recording_name(cell["trace"]) + ("" if seed is None else f" (seed {seed})")
        found: CountedMisses = {
            "name": name,
            "kind": str(outcome_of(cell).get("kind", "")),
            "requests": cell["requests"],
            "pages": cell["pages"],
            "misses": {},
        }
        misses = traces.setdefault(name, found)["misses"]
        options = cell.get("options") or {}
        options = json.loads(options) if isinstance(options, str) else options
        sizes = misses.setdefault(written(cell["policy"], options), {})
        sizes[str(cell["frames"])] = cell["misses"]
    return list(traces.values())


def outcome_of(cell: CountedCell | SimulatedCell) -> Mapping[str, object]:
    """The outcome of a cell; empty if the sweep does not have it."""
    try:
        outcome = json.loads(cell.get("outcome") or "")
    except (ValueError, RecursionError):
        return {}
    return outcome if isinstance(outcome, Mapping) else {}


def is_of_swap(cell: SimulatedCell) -> bool:
    """Whether the pages of the trace are those of swap areas, as far as the cell says."""
    return outcome_of(cell).get("is_of_swap") is not False


def is_of_objects(cell: SimulatedCell) -> bool:
    """Whether the trace has the objects of a cache; results of an earlier pagewise do not say."""
    return outcome_of(cell).get("kind") == "objects"


def is_of_blocks(advice: Advice) -> bool:
    """Whether an advice found that its trace has block requests, or only pages of files."""
    evidence = advice.get("evidence")
    if not evidence or evidence["verdict"] != NOT_SWAP:
        return False
    return evidence["reason"] in (OF_BLOCKS, OF_FILES)


def flat(result: types.Simulate | types.Outcome, name: str) -> SimulatedCell:
    """A simulation as a row of a sweep."""
    wear = result.get("wear")
    return {
        "trace": name,
        "architecture": result["architecture"],
        "options": json.dumps(result["options"], sort_keys=True),
        "fast_tier_bytes": result["fast_bytes"],
        "fast": result["fast_device"],
        "slow": result["slow_device"],
        "fast_reads": result["fast"]["reads"],
        "fast_writes": result["fast"]["writes"],
        "slow_reads": result["slow"]["reads"],
        "slow_writes": result["slow"]["writes"],
        "io_time_s": result["io_time_s"],
        "stall_time_s": result["stall_time_s"],
        "wear_fast": wear.get("fast") if wear else None,
        "wear_slow": wear.get("slow") if wear else None,
        "outcome": json.dumps(
            {"is_of_swap": result.get("is_of_swap", True), "kind": result.get("kind")}
        ),
    }


def fingerprint(path: str) -> tuple[str, bytes]:
    """The sha256 of a file, and its first bytes."""
    digest = hashlib.sha256()
    head = b""
    with open(path, "rb") as file:
        while block := file.read(HASHED_BLOCK):
            head = head or block[:64]
            digest.update(block)
    return digest.hexdigest(), head


def recording_name(path: str) -> str:
    """The name of a recording in charts: its file name without folders and endings."""
    name = os.path.basename(path)
    for ending in (
        ".zst",
        ".gz",
        ".perfetto-trace",
        ".parquet",
        ".pgr",
        ".pgw",
        ".pwf",
        ".json",
        ".csv",
        ".txt",
    ):
        name = name.removesuffix(ending)
    return name or path


def unused(name: str, taken: Mapping[str, object]) -> str:
    """The name, with a number if it is taken."""
    candidates = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)


class Taken(AtSize):
    """What an advice recommends, at its size."""

    architecture: str


def taken(advice: Advice) -> Taken | None:
    """The choice that an advice recommends; None if no fast tier pays off.

    That is the best on stock Linux. Older results have only the best of all architectures.
    """
    if "today" in advice:
        return advice["today"]
    worth = advice["worth"]
    return {"architecture": advice["architecture"]["name"], **worth} if worth else None
