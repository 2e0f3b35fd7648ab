"""Finds, fetches or generates the trace files that a spec names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pagewise import _core
from pagewise.errors import UnreadableInput
from pagewise.grids.key import digest, file_digest
from pagewise.grids.memory import Size
from pagewise.recording import Progress, Trace
from pagewise.scratch import scratch
from pagewise.storage import fetch, is_remote, local_path, refuse_endless
from pagewise.units import PAGE_BYTES


@dataclass(frozen=True)
class TraceSource:
    """A trace file by its address, or a scenario by its parameters; results show ``name``.

    ``scenario`` holds ``(parameter, value)`` pairs, the seed among them. ``place`` is where the
    spec has the trace, and ``is_of_many`` whether it names a folder or a pattern there.
    """

    name: str
    address: str | None = None
    scenario: tuple[tuple[str, str | int | float], ...] = ()
    seed: int | None = None
    place: str = field(default="", compare=False)
    is_of_many: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Numbered:
    """A trace file with numbered pages: many passes read it fast, and none needs a table of
    pages."""

    trace: Trace
    size: Size


def materialize(source: TraceSource, folder: Path) -> Path:
    """The trace as a local file: itself, a copy in ``folder``, or generated in ``folder``.

    Several processes may request the same trace in the same folder at once.
    """
    if source.address is None:
        path = folder / f"{digest(source.scenario)}.parquet"
        if not path.exists():
            _core.write_scenario(json.dumps(dict(source.scenario)), str(path))
        return path
    if is_remote(source.address):
        path = copy_of(source.address, folder)
        if not path.exists():
            fetch(source.address, path)
        return path
    refuse_endless(local_path(source.address))
    return Path(local_path(source.address))


def copy_of(address: str, folder: Path) -> Path:
    """Where `materialize` puts the copy of what is at an address."""
    return folder / digest(address)


def numbered(
    trace: Trace, copy: Path, progress: Progress | None = None, *, page_bytes: int = PAGE_BYTES
) -> Numbered:
    """The trace with numbered pages of this size: itself if it has them, or else a copy at
    ``copy``.

    Makes the copy if it does not exist. Several processes may request the same copy at once.
    """
    source = Trace(str(copy)) if copy.exists() else trace
    is_copied, pages, events = _core.number_trace(
        *source.arguments(), output=str(copy), page_bytes=page_bytes, progress=progress
    )
    return Numbered(Trace(str(copy)) if is_copied else source, Size(pages, events))


def prepared(source: TraceSource, sha256: str, folder: Path) -> Numbered:
    """The trace with numbered pages; ``sha256`` is that of its content."""
    return numbered(Trace(str(materialize(source, folder))), folder / f"{sha256}.parquet")


@contextmanager
def numbered_meanwhile(
    trace: Trace, progress: Progress | None = None, *, page_bytes: int = PAGE_BYTES
) -> Iterator[Numbered]:
    """The trace with numbered pages of this size; removes its copy when the block ends."""
    with scratch() as folder:
        yield numbered(trace, folder / "numbered.parquet", progress, page_bytes=page_bytes)


def content_digest(path: Path) -> str:
    """sha256 of the trace file."""
    try:
        return file_digest(path)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
