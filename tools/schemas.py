#!/usr/bin/env python3
"""Writes what follows from the definitions of results, or with --check says what is out of date.

    make build && .venv/bin/python tools/schemas.py [--check]

The definitions are the Rust structs in crates/python/src/results.rs and, for results that Python
computes, the types that LAYOUTS in python/pagewise/layouts.py names. From them follow the JSON
Schemas in python/pagewise/schemas/, the types in python/pagewise/types.py, and docs/results.md.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typed import born, classes, tables

from pagewise import _core

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "python/pagewise/schemas"


def main() -> None:
    """Writes every file, or compares it."""
    is_check = "--check" in sys.argv[1:]
    compiled = [resolved(schema) for schema in _core.schemas().values()]
    parts = resolved(_core.part_schemas())
    types = {
        ROOT / "python/pagewise/types.py": formatted(classes.source([*compiled, parts], computed()))
    }
    # The types of Python's results extend these, so they are written first.
    changed = [] if is_check else written(types)
    wanted = types | files(compiled, parts)
    stale = [path for path in SCHEMAS.glob("*.json") if path not in wanted]
    if is_check:
        stale += [path for path, text in wanted.items() if not holds(path, text)]
        sys.exit(f"out of date: {named(stale)}; run tools/schemas.py" if stale else 0)
    for path in stale:
        path.unlink()
    changed += written(wanted)
    print(f"written: {named(changed + stale) or 'nothing, all is up to date'}")


def computed() -> dict[str, str]:
    """The results that Python computes, with their modules, by the names in LAYOUTS.

    Read from the source: the modules extend the types, which may be out of date.
    """
    tree = ast.parse((ROOT / "python/pagewise/layouts.py").read_text())
    homes = {
        alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (layouts,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "LAYOUTS"
    )
    assert isinstance(layouts, ast.Dict), "LAYOUTS is a dictionary"
    names = sorted(map(ast.unparse, layouts.values), key=lambda name: (homes[name], name))
    return {name: homes[name] for name in names}


def files(compiled: list[dict[str, Any]], parts: dict[str, Any]) -> dict[Path, str]:
    """The text of every file but the types; ``parts`` are of Rust, too, but have no layout."""
    from pagewise.layouts import LAYOUTS  # which takes in the types

    known = dict(classes.definitions([*compiled, parts]))
    computed = [born.schema_of(layout, kind, known) for layout, kind in LAYOUTS.items()]
    everything = compiled + computed
    texts = {path_of(schema): json.dumps(schema, indent=1) + "\n" for schema in everything}
    return texts | {ROOT / "docs/results.md": tables.page(everything)}


def written(texts: Mapping[Path, str]) -> list[Path]:
    """Writes the files that are not as they should be."""
    stale = [path for path, text in texts.items() if not holds(path, text)]
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path])
    return stale


def named(paths: list[Path]) -> str:
    """The files, in a line."""
    return ", ".join(sorted(str(path.relative_to(ROOT)) for path in paths))


def path_of(schema: Mapping[str, Any]) -> Path:
    """The file of a schema: analyze.json of pagewise.analyze/1."""
    name = str(schema["$id"]).removeprefix("pagewise.").partition("/")[0]
    return SCHEMAS / f"{name}.json"


def resolved(schema: Any, words: Mapping[str, Any] | None = None) -> Any:
    """The schema with definitions that are no objects, such as sets of words, in their places."""
    if words is None:
        defined = schema.get("$defs", {})
        words = {name: inner for name, inner in defined.items() if "properties" not in inner}
        kept = {name: inner for name, inner in defined.items() if name not in words}
        schema = {**schema, "$defs": kept} if kept else without(schema, "$defs")
    if isinstance(schema, list):
        return [resolved(inner, words) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in words:
        return {**resolved(words[name], words), **resolved(without(schema, "$ref"), words)}
    return {field: resolved(inner, words) for field, inner in schema.items()}


def without(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """All fields but one."""
    return {field: inner for field, inner in schema.items() if field != name}


def formatted(source: str) -> str:
    """Python source as `make check` wants it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "types.py", "-"]
    run = subprocess.run(
        command, input=source, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    return run.stdout


def holds(path: Path, text: str) -> bool:
    """Whether a file has this text."""
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    main()
