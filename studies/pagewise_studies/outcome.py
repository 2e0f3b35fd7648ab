"""The result of a study: figures, tables, verdicts, sensitivity, and what they rest on."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pagewise import _core
from pagewise.grids.key import file_digest
from pagewise.storage import write_text
from pagewise_studies.figure import Figure
from pagewise_studies.table import Table
from pagewise_studies.text import markdown
from pagewise_studies.verdict import Verdict

SCHEMA = "pagewise.study/1"


def assemble(
    name: str,
    output: Path,
    *,
    title: str,
    figures: Sequence[Figure],
    verdicts: Sequence[Verdict],
    inputs: Mapping[str, Path],
    arguments: str,
    seeds: Sequence[int],
    seeded: str,
    tables: Sequence[Table] = (),
    sensitivity: Sequence[Mapping[str, Any]] = (),
    losses: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    called: str = "",
) -> dict[str, Any]:
    """Writes ``NAME.json``, ``NAME.md`` and one CSV per figure into ``output``; returns the JSON
    object.

    ``inputs`` are the files it rests on, which the result names with their sha256; ``arguments``
    completes the command that made it, in which the study is ``called`` so where not by its name;
    ``seeded`` says what the seeds are for; ``losses`` what each recording lost.
    """
    for figure in figures:
        figure.write(output)
    result = {
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
    }
    write_text(output / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_text(output / f"{name}.md", markdown(result))
    return result


def about(name: str) -> str:
    """What the paper of a study claims, and what the study does about it."""
    text = resources.files(__package__).joinpath("checks", "about.toml").read_text("utf-8")
    return str(tomllib.loads(text)[name])
