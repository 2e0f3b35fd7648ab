"""Sorts the inputs of a report: results by their ``schema``, sweeps, and recordings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pagewise import _core
from pagewise.errors import UnreadableInput
from pagewise.policies import written
from pagewise.questions import analyze, misses
from pagewise.recording import PathLike, Progress, Trace, read
from pagewise.report.shapes import KINDS, flaw
from pagewise.storage import refuse_endless

Result: TypeAlias = dict[str, Any]

PARQUET_MAGIC = b"PAR1"
HASHED_BLOCK = 1 << 20
CACHE_SHARES = (0.001, 0.01, 0.1, 0.3)
"""Sizes of a cache at which to compare policies, as shares of the objects of a trace."""
COMPARED_MAX = 10_000_000
"""The most objects of a trace for comparing policies; each policy then takes some 2 GB."""


@dataclass(frozen=True)
class Source:
    """One input: its name, what it is, and the sha256 of its bytes."""

    name: str
    what: str
    sha256: str


@dataclass
class Inputs:
    """The inputs of the panels, by kind, in the order given."""

    analyses: dict[str, Result] = field(default_factory=dict)
    """Analyses by the name of the recording."""
    headers: dict[str, Result] = field(default_factory=dict)
    """Headers by the name of the recording."""
    misses: list[Result] = field(default_factory=list)
    cells: list[Result] = field(default_factory=list)
    """One row per simulated cell, from sweeps and single simulations."""
    studies: list[Result] = field(default_factory=list)
    advice: list[Result] = field(default_factory=list)
    page_sizes: list[Result] = field(default_factory=list)
    lazy_benches: list[Result] = field(default_factory=list)
    kill_replays: list[Result] = field(default_factory=list)
    kills: list[Result] = field(default_factory=list)
    """Outputs of `pagewise-agent killtrace --json`."""
    sources: list[Source] = field(default_factory=list)
    command: str | None = None

    def accessed(self) -> dict[str, Result]:
        """The analyses of recordings that have an access; the others have nothing to draw."""
        return {name: result for name, result in self.analyses.items() if result["accesses"]}

    def losses(self) -> dict[str, list[Result]]:
        """What each recording lost, by name, without recordings that lost nothing."""
        found = {recording_name(advice["trace"]): advice.get("losses") for advice in self.advice}
        found |= {result["name"]: result.get("losses") for result in self.misses}
        found |= {name: result.get("losses") for name, result in self.analyses.items()}
        found |= {name: header["losses"] for name, header in self.headers.items()}
        return {name: losses for name, losses in found.items() if losses}


def gather(
    results: Sequence[PathLike | Mapping[str, Any]], *, progress: Progress | None = None
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
    return inputs


def add_file(inputs: Inputs, path: str, progress: Progress | None) -> None:
    """Adds a file: JSON if it starts so, otherwise a sweep's table or a recording."""
    refuse_endless(path)
    try:
        digest, head = fingerprint(path)
    except IsADirectoryError as error:
        raise UnreadableInput(
            f"{path}: is a folder; name the recording or the result in it", path=path
        ) from error
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=path) from error
    if head.lstrip()[:1] == b"{":
        try:
            result = json.loads(Path(path).read_bytes())
        except (ValueError, RecursionError) as error:
            raise UnreadableInput(f"{path}: not JSON: {error}", path=path) from error
        add(inputs, result, Path(path).stem, digest, path=path)
    elif head.startswith(PARQUET_MAGIC) and (columns := sweep_columns(path)):
        cells = [
            dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
        ]
        result = {"schema": "pagewise.sweep/1", "cells": cells}
        add(inputs, result, Path(path).stem, digest, path=path)
    else:
        trace = read(path)
        held = trace.info()
        parts = {name: held[name] for name in ("header", "gaps", "recordings")}
        result = {**analyze(trace, by="process", progress=progress), **parts}
        add(inputs, result, recording_name(path), digest)
        if result["kind"] == "objects":
            compare_policies(inputs, trace, result["pages"], progress)


def compare_policies(inputs: Inputs, trace: Trace, objects: int, progress: Progress | None) -> None:
    """Adds the misses of every eviction policy on a cache trace, for caches of several sizes.

    Each policy reads the trace anew, which bounds the memory. Very large traces are left out.
    """
    if not 0 < objects <= COMPARED_MAX:
        return
    frames = sorted({max(1, round(share * objects)) for share in CACHE_SHARES})
    names = [row["name"] for row in _core.policies()]
    counts = [misses(trace, policy=[name], frames=frames, progress=progress) for name in names]
    together = {name: count for each in counts for name, count in each["misses"].items()}
    name = recording_name(trace.path)
    inputs.misses.append({**counts[0], "name": name, "kind": "objects", "misses": together})


def sweep_columns(path: str) -> dict[str, list[Any]] | None:
    """The columns of a sweep's results by name; None for a trace, which is also Parquet."""
    try:
        table = _core.read_table(path)
    except UnreadableInput:
        return None
    if dict(table["metadata"]).get("schema") != "pagewise.sweep/1":
        return None
    return {column["name"]: column["values"] for column in table["columns"]}


def add(inputs: Inputs, result: Result, name: str, digest: str, *, path: str | None = None) -> None:
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
    name = str(result.get("name") or recording_name(str(result.get("trace") or name)))
    match kind:
        case "analyze":
            inputs.analyses[unused(name, inputs.analyses)] = result
            if result.get("header"):
                inputs.headers[name] = result["header"]
        case "misses":
            inputs.misses.append({"name": name, **result})
        case "misses-of-traces":
            inputs.misses += [
                {"name": recording_name(str(each.get("trace") or name)), **each}
                for each in result["traces"]
            ]
        case "simulate":
            inputs.cells.append(flat(result, name))
        case "sweep":
            cells = [cell for cell in result["cells"] if not cell.get("error")]
            inputs.cells += [cell for cell in cells if cell.get("policy") is None]
            inputs.misses += counted([cell for cell in cells if cell.get("policy") is not None])
        case "study":
            inputs.studies.append({"name": name, **result})
        case "page-size" | "advice-page-size":
            inputs.page_sizes.append({"name": name, **result})
        case "bench-lazy":
            inputs.lazy_benches.append(result)
        case "replay-kills":
            inputs.kill_replays.append({**result, "name": recording_name(result["recording"])})
        case "kills":
            inputs.kills.append(result)
        case _:
            inputs.advice.append({"name": name, **result})
    inputs.sources.append(Source(name, kind, digest))


def counted(cells: Sequence[Result]) -> list[Result]:
    """The policies of a sweep, as one result of `pagewise misses` for each trace."""
    traces: dict[str, Result] = {}
    for cell in cells:
        seed = cell.get("seed")
        name = recording_name(cell["trace"]) + ("" if seed is None else f" (seed {seed})")
        fields = {"name": name, "requests": cell["requests"], "pages": cell["pages"]}
        misses = traces.setdefault(name, {**fields, "misses": {}})["misses"]
        options = cell.get("options") or {}
        options = json.loads(options) if isinstance(options, str) else options
        sizes = misses.setdefault(written(cell["policy"], options), {})
        sizes[str(cell["frames"])] = cell["misses"]
    return list(traces.values())


def flat(result: Result, name: str) -> Result:
    """A simulation as a row of a sweep."""
    wear = result.get("wear") or {}
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
        "wear_fast": wear.get("fast"),
        "wear_slow": wear.get("slow"),
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
    for ending in (".zst", ".gz", ".parquet", ".pgr", ".pgw", ".pwf", ".json", ".csv", ".txt"):
        name = name.removesuffix(ending)
    return name or path


def unused(name: str, taken: Mapping[str, object]) -> str:
    """The name, with a number if it is taken."""
    candidates = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)


def taken(advice: Result) -> Result | None:
    """The choice that an advice recommends; None if no fast tier pays off.

    That is the best on stock Linux. Older results have only the best of all architectures.
    """
    if "today" in advice:
        today: Result | None = advice["today"]
        return today
    worth: Result | None = advice["worth"]
    return worth and {"architecture": advice["architecture"]["name"], **worth}
