#!/usr/bin/env python3
"""Writes what this version promises to keep, tests/compat/VERSION; tests/test_compat.py reads it.

    make build && .venv/bin/python tools/compat.py

Run it once for each release, after putting recordings of that version into its folder
`recordings`. It imports the recording of swap, runs the commands in ANSWERS on the recordings, and
writes their results, and `interface.json`: the commands and options of both programs, the functions
of the Python package with their parameters, and the fields of every result.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from website.reference import AGENT, names_of_agent, parts_of, printed

import pagewise
from pagewise.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "python/pagewise/schemas"
SWAP = "recordings/swap.pgr"
DEVICES = ("--fast", "zram-lz4", "--slow", "ufs-3.1")
ANSWERS = {
    "info-swap": ("info", SWAP),
    "info-trace": ("info", "recordings/swap.parquet"),
    "info-kills": ("info", "recordings/kills.pgr"),
    "info-allocations": ("info", "recordings/allocations.pgr"),
    "info-references": ("info", "recordings/references.pwf"),
    "analyze": ("analyze", SWAP, "--by", "process"),
    "misses": ("misses", SWAP, "--policy", "lru,s3-fifo,opt", "--frames", "100,400"),
    "simulate": (
        *("simulate", SWAP, "--architecture", "hierarchical"),
        *("--fast-tier", "1MiB", *DEVICES),
    ),
    "advice": ("advise", "swap", SWAP, *DEVICES),
    "replay-kills": ("replay-kills", "recordings/kills.pgr", "--policy", "largest,lmkd"),
    "curves": ("curves", "recordings/references.pwf", "--frames", "70"),
}
"""The arguments of `pagewise` behind each result, without --json; run in the version's folder."""
OPTION = re.compile(r"(?m)^ {2,6}(?:-\w, )?(--[a-z][\w-]*)")


def main() -> None:
    """Writes the folder of this version."""
    folder = ROOT / "tests/compat" / pagewise.__version__
    if not (folder / SWAP).exists():
        sys.exit(f"{folder / SWAP} is missing: record it with this version first")
    if not (folder / "recordings/swap.parquet").exists():
        ran(folder, "import", SWAP, "-o", "recordings/swap.parquet")
    results = folder / "results"
    results.mkdir(exist_ok=True)
    for name, arguments in ANSWERS.items():
        (results / f"{name}.json").write_text(ran(folder, *arguments, "--json"))
    text = json.dumps(interface(), indent=1, sort_keys=True)
    (folder / "interface.json").write_text(f"{text}\n")


def ran(folder: Path, *arguments: str) -> str:
    """What `pagewise` prints with these arguments, in this folder."""
    run = subprocess.run(
        [sys.executable, "-m", "pagewise", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    # 1 is a finding: the small recording cannot carry the size of a swap area.
    if run.returncode not in (0, 1):
        raise RuntimeError(f"pagewise {' '.join(arguments)}: {run.stderr}")
    return run.stdout


def interface() -> dict[str, Any]:
    """What programs and people rely on: options, functions with parameters, fields of results."""
    return {
        "commands": commands() | (agent_commands() if AGENT.exists() else {}),
        "functions": functions(),
        "fields": fields(),
    }


def commands() -> dict[str, list[str]]:
    """The options of each command of `pagewise`."""
    found = {}
    for row in COMMANDS:
        for words in [[row.name], *([row.name, name] for name in parts_of(row))]:
            command = [sys.executable, "-m", "pagewise", *words, "--help"]
            found[f"pagewise {' '.join(words)}"] = options_in(printed(command))
    return found


def agent_commands() -> dict[str, list[str]]:
    """The options of each command of `pagewise-agent`."""
    return {
        f"pagewise-agent {name}": options_in(printed([str(AGENT), name, "--help"]))
        for name in names_of_agent()
    }


def options_in(text: str) -> list[str]:
    """The long options that a help text lists."""
    return sorted(set(OPTION.findall(text)))


def functions() -> dict[str, list[str]]:
    """The parameters of each function of the package; none for classes."""
    return {
        name: list(inspect.signature(found).parameters)
        if inspect.isfunction(found := getattr(pagewise, name))
        else []
        for name in pagewise.__all__
    }


def fields() -> dict[str, list[str]]:
    """The fields of each layout, with those of the types inside, as `Type.field`."""
    found = {}
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text())
        found[schema["$id"]] = sorted(fields_of(schema))
    return found


def fields_of(schema: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a schema."""
    yield from schema.get("properties", {})
    for name, inner in schema.get("$defs", {}).items():
        yield from (f"{name}.{field}" for field in inner.get("properties", {}))


if __name__ == "__main__":
    os.environ["COLUMNS"] = "200"
    main()
