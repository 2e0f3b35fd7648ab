"""Reads TOML specs, and reports problems with their places."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pagewise.errors import PagewiseError, UsageError
from pagewise.storage import read_text


class Problems:
    """The problems of a spec, collected and reported together; ``path`` is its file, if any."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self._hints: dict[str, str | None] = {}

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Records an error inside the block as a problem of this place, once."""
        try:
            yield
        except PagewiseError as error:
            text = str(error)
            named = text if text.startswith(place) else f"{place}: {text}"
            self._hints.setdefault(named, error.hint)

    def refuse(self) -> None:
        """Raises UsageError that names every problem, if there are any."""
        if not self._hints:
            return
        file = f"{self.path}: " if self.path else ""
        if len(self._hints) == 1:
            [(text, hint)] = self._hints.items()
            raise UsageError(f"{file}{text}", path=self.path, hint=hint)
        lines = (f"  {text}" + (f" ({hint})" if hint else "") for text, hint in self._hints.items())
        first = f"{file}{len(self._hints)} problems; nothing was run"
        raise UsageError("\n".join([first, *lines]), path=self.path)


def read_toml(path: Path) -> dict[str, object]:
    """The content of a file. Raises UnreadableInput if unreadable, UsageError if not TOML."""
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}", path=str(path)) from error


def require_text(table: Mapping[str, object], name: str, where: str) -> str:
    """A required entry, as text."""
    if name not in table:
        raise UsageError(f"{where} needs {name!r}")
    return str(table[name])


def require_table(value: object, where: str) -> Mapping[str, object]:
    """The value, which must be a table."""
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{where}: {value!r} is not a table",
            hint="a table is { name = value } or a [[section]]",
        )
    return value


def require_known(value: object, names: set[str], where: str) -> None:
    """Raises UsageError for a table with unknown entries, most of which are misspelled."""
    unknown = sorted(set(require_table(value, where)) - names)
    if unknown:
        raise UsageError(
            f"{where} has unknown entries: {', '.join(unknown)}",
            hint=f"known are: {', '.join(sorted(names))}",
        )
