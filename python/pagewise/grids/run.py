"""Runs a grid: keeps finished cells, runs the missing ones, then writes the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.engines import engine_named
from pagewise.errors import PagewiseError, UnreadableInput, UsageError
from pagewise.grids import results as table
from pagewise.grids.cells import Cell, split
from pagewise.grids.fleets import fleet_of
from pagewise.grids.journal import SUFFIX, Journal, open_journal
from pagewise.grids.key import cell_key, this_build
from pagewise.grids.memory import Size
from pagewise.grids.requests import CellResult, Request
from pagewise.grids.spec import SCHEMA, Grid, draft
from pagewise.grids.traces import TraceSource, copy_of, identified, prepared
from pagewise.recording import Progress
from pagewise.scratch import scratch
from pagewise.spec_files import Problems, read_toml
from pagewise.storage import exists, is_remote, local_path, refuse_unwritable

if TYPE_CHECKING:
    from pagewise.comparisons import SweepResult
    from pagewise.fleet import Unreadable


def sweep(
    spec: str | Path | Mapping[str, object] | Grid,
    output: str | Path,
    *,
    engine: str = "local",
    address: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Runs every cell of ``spec`` that is not yet in ``output`` or its journal.

    ``spec``: a TOML file, or a mapping with its content. ``output``: a path or fsspec address of
    the Parquet table. ``engine``: ``local`` (``jobs`` threads, default all cores) or ``ray``
    (``address`` of the cluster). ``progress(done, total)`` counts thousandths of cells.

    Returns ``schema``, ``output``, ``cells``, ``kept`` (finished before), ``computed`` and
    ``failed``, a list of the inputs and errors of cells without an outcome, which run again next
    time; and ``fleet`` if the spec names folders or patterns of traces. The bytes written depend
    only on the spec and the content of its traces.

    Raises UsageError, naming everything in the spec that cannot run; it then writes nothing.
    """
    problems = Problems(str(spec) if isinstance(spec, (str, Path)) else None)
    grid = _grid(spec, problems)
    output = str(output)
    _refuse_unwritable(output)
    with scratch() as folder:
        cells, left_out = _cells(grid, folder, problems)
        problems.refuse()
        with open_journal(output) as journal:
            known = _finished(output) | journal.finished
            kept = {
                cell.key: CellResult(outcome=known[cell.key]) for cell in cells if cell.key in known
            }
            outcomes = dict(kept)
            with engine_named(engine, address=address, jobs=jobs) as runner:
                for missing in _rounds(cells, outcomes):
                    sizes, unreadable = _sizes(missing, folder)
                    outcomes.update(unreadable)
                    readable = [cell for cell in missing if cell.key not in unreadable]
                    runner.run(
                        split(readable, sizes, runner.workers, runner.room_bytes),
                        folder,
                        lambda found: _record(found, outcomes, journal),
                        progress,
                    )
            table.write(output, cells, outcomes)
            journal.remove()
    kept_cells = sum(cell.key in kept for cell in cells)
    failed = [
        cell.request.failed(cell.trace.name, outcomes[cell.key].error)
        for cell in cells
        if outcomes[cell.key].error
    ]
    result: SweepResult = {
        "schema": SCHEMA,
        "output": output,
        "cells": len(cells),
        "kept": kept_cells,
        "computed": len(cells) - kept_cells - len(failed),
        "failed": failed,
    }
    if fleet := fleet_of(cells, outcomes, left_out):
        result["fleet"] = fleet
    return result


def _refuse_unwritable(output: str) -> None:
    """Raises an error if the folder is missing, or if an output's name is taken by a non-file."""
    if not is_remote(output):
        for path in map(Path, (local_path(output), local_path(output) + SUFFIX)):
            refuse_unwritable(path)
            if path.is_symlink():
                raise UsageError(
                    f"{path} is a symbolic link, which the results would replace",
                    path=str(path),
                    hint="name the file itself",
                )


def _grid(spec: str | Path | Mapping[str, object] | Grid, problems: Problems) -> Grid:
    if isinstance(spec, Grid):
        return spec
    if isinstance(spec, Mapping):
        return draft(spec, problems)
    return draft(read_toml(Path(spec)), problems, folder=Path(spec).parent)


def _cells(grid: Grid, folder: Path, problems: Problems) -> tuple[list[Cell], list[Unreadable]]:
    """Every cell of the grid, and the files of folders and patterns that are left out since they
    cannot be read; appends other invalid traces, and requests, to ``problems``.

    Cells of traces with the same content have the same key, and run once, or until one succeeds.
    """
    understood = [_understood(request, problems) for request in grid.requests]
    traces: list[tuple[TraceSource, str]] = []
    left_out: list[Unreadable] = []
    for trace in grid.traces:
        try:
            traces.append(identified(trace, folder))
        except PagewiseError as error:
            if trace.is_of_many:
                left_out.append(_unreadable(trace, folder, error))
                continue
            with problems.at(trace.place or trace.name):
                raise
    if left_out and not traces:
        with problems.at("traces"):
            raise UsageError(f"no file can be read, such as {left_out[0]['error']}")
    cells = [
        Cell(
            cell_key(
                trace_sha256=sha256,
                effective=effective,
                seed=trace.seed,
                build=this_build(),
                schema=SCHEMA,
            ),
            trace,
            sha256,
            request,
        )
        for trace, sha256 in traces
        for request, effective in zip(grid.requests, understood, strict=True)
    ]
    return cells, left_out


def _understood(request: Request, problems: Problems) -> Mapping[str, object]:
    """Everything but the trace that the answer depends on."""
    effective: Mapping[str, object] = {}
    with problems.at(request.place or "the spec"):
        effective = request.effective()
    return effective


def _unreadable(trace: TraceSource, folder: Path, error: PagewiseError) -> Unreadable:
    """A trace with the reason why it cannot be read, which names no temporary copy."""
    address = trace.address or trace.name
    text = str(error).replace(str(copy_of(address, folder)), address)
    return {"trace": address, "error": text}


def _rounds(cells: Iterable[Cell], outcomes: Mapping[str, CellResult]) -> Iterator[list[Cell]]:
    """Yields the cells to run: first one cell for each key without a result, then the next cell
    of each key whose trace could not be read; that cell's trace has the same content."""
    waiting: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.key not in outcomes:
            waiting.setdefault(cell.key, []).append(cell)
    while waiting:
        yield [same.pop(0) for same in waiting.values()]
        waiting = {key: same for key, same in waiting.items() if same and outcomes[key].is_of_trace}


def _sizes(
    cells: Iterable[Cell], folder: Path
) -> tuple[dict[TraceSource, Size], dict[str, CellResult]]:
    """The size of each trace that cells wait for, and the cells whose trace cannot be read.

    Numbers the pages of the traces on the way.
    """
    sizes: dict[TraceSource, Size] = {}
    errors: dict[TraceSource, str] = {}
    failures: dict[str, CellResult] = {}
    for cell in cells:
        trace = cell.trace
        if trace not in sizes and trace not in errors:
            try:
                with prepared(trace, cell.trace_sha256, folder).opened() as found:
                    sizes[trace] = found.size
            except PagewiseError as error:
                errors[trace] = str(error)
        if trace in errors:
            failures[cell.key] = CellResult(error=errors[trace], is_of_trace=True)
    return sizes, failures


def _finished(output: str) -> dict[str, str]:
    """The outcomes in the output of an earlier, finished run."""
    if not exists(output):
        return {}
    try:
        rows = table.read(output)
    except UnreadableInput as error:
        raise UsageError(
            f"{output} exists, but does not hold results of a sweep",
            path=output,
            hint="choose another output, or remove the file",
        ) from error
    return {row["key"]: row["outcome"] for row in rows if row["outcome"] is not None}


def _record(
    found: Mapping[str, CellResult], outcomes: dict[str, CellResult], journal: Journal
) -> None:
    outcomes.update(found)
    finished = {key: result.outcome for key, result in found.items() if result.outcome is not None}
    if finished:
        journal.append(finished)
