"""The result of a study: figures, tables, verdicts, sensitivity and inputs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pagewise import _core
from pagewise.comparisons import Scalar, StudyCell, StudyLaunch, StudyResult
from pagewise.grids.key import file_digest
from pagewise.launch_runs import LaunchRun
from pagewise.storage import write_text
from pagewise.studies import refuse_foreign
from pagewise.types import Loss
from pagewise_studies.figure import Figure
from pagewise_studies.table import Table
from pagewise_studies.text import markdown
from pagewise_studies.verdict import Verdict

SCHEMA = "pagewise.study/1"
INVALID = " (invalid run)"
"""Marks a row that rests on a run that can carry no verdict."""


def assemble(
    name: str,
    output: Path,
    *,
    title: str,
    figures: Sequence[Figure],
    verdicts: Sequence[Verdict],
    inputs: Mapping[str, Path],
    runs: Iterable[LaunchRun] = (),
    arguments: str,
    seeds: Sequence[int],
    seeded: str,
    tables: Sequence[Table] = (),
    sensitivity: Sequence[Mapping[str, Scalar]] = (),
    losses: Mapping[str, Sequence[Loss]] | None = None,
    cells: Sequence[StudyCell] = (),
    launches: Sequence[StudyLaunch] = (),
    flawed: Mapping[str, Sequence[str]] | None = None,
    called: str = "",
) -> StudyResult:
    """Writes ``NAME.json``, ``NAME.md`` and one CSV per figure into ``output``; returns the JSON
    object.

    ``inputs`` are the input files; the result names each with its sha256. ``runs`` are the launch
    runs among them: if one of them is invalid, or ``flawed`` names one, every row is marked.
    ``arguments`` completes the
    command that made the result; ``called`` is the study's name in that command, if it is not
    ``name``. ``seeded`` is the use of the seeds, and ``losses`` are the losses of each recording.
    """
    refuse_foreign(output, name, [f"{figure.name}.csv" for figure in figures])
    by_name = {run.name: run for run in runs}
    invalid = {
        run.name: list(run.invalid_because) for run in by_name.values() if run.invalid_because
    }
    for label, reasons in (flawed or {}).items():
        invalid[label] = [*invalid.get(label, []), *reasons]
    if invalid:
        arguments = f"{arguments} --allow-invalid"
        figures = [figure.marked(INVALID) for figure in figures]
        tables = [table.marked(INVALID) for table in tables]
        verdicts = [replace(verdict, data=verdict.data + INVALID) for verdict in verdicts]
    result: StudyResult = {
        "schema": SCHEMA,
        "study": name,
        "title": title,
        "about": about(name),
        "pagewise": _core.version(),
        "command": f"pagewise study {called or name} {arguments}",
        "seeds": list(seeds),
        "seeded": seeded,
        "inputs": {label: file_digest(path) for label, path in inputs.items()},
        "verdicts": [verdict.row() for verdict in verdicts],
        "figures": [figure.to_json() for figure in figures],
        "tables": [table.to_json() for table in tables],
        "sensitivity": [dict(row) for row in sensitivity],
        "losses": {label: list(lost) for label, lost in (losses or {}).items() if lost},
        "invalid_runs": invalid,
        "unjudged_runs": [run.name for run in by_name.values() if run.invalid_because is None],
    }
    if cells:
        result["cells"] = list(cells)
    if launches:
        result["launches"] = list(launches)
    write_text(output / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_text(output / f"{name}.md", markdown(result))
    for figure in figures:
        figure.write(output)
    return result


def about(name: str) -> str:
    """The first paragraph of a study's page: the paper's claim, and how the study checks it."""
    text = resources.files(__package__).joinpath("checks", "about.toml").read_text("utf-8")
    return str(tomllib.loads(text)[name])
