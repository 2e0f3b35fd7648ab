"""TOML files that say what to do: reading one, and complaints that name the place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pagewise.errors import UnreadableInput, UsageError


def read_toml(path: Path) -> dict[str, Any]:
    """The whole file; UnreadableInput where it cannot be read, UsageError where it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}", path=str(path)) from error


def require_text(table: Mapping[str, Any], name: str, where: str) -> str:
    """An entry that must be there, as text."""
    if name not in table:
        raise UsageError(f"{where} needs {name!r}")
    return str(table[name])


def require_table(value: object, where: str) -> Mapping[str, Any]:
    """The value, which must be a table."""
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{where}: {value!r} is no table", hint="a table is { name = value } or a [[section]]"
        )
    return value


def require_known(value: object, names: set[str], where: str) -> None:
    """An error for a table with entries of other names: most are spelled wrong."""
    unknown = sorted(set(require_table(value, where)) - names)
    if unknown:
        raise UsageError(
            f"{where} has unknown entries: {', '.join(unknown)}",
            hint=f"known are: {', '.join(sorted(names))}",
        )
