"""Finds, fetches or generates the trace files that a spec names."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pagewise import _core
from pagewise.errors import PagewiseError, UnreadableInput
from pagewise.grids.key import digest, file_digest
from pagewise.grids.memory import Size
from pagewise.recording import Progress, Trace
from pagewise.scratch import scratch
from pagewise.storage import fetch, is_remote, local_path, refuse_endless
from pagewise.units import PAGE_BYTES


@dataclass(frozen=True)
class FileState:
    """Figures of a file that differ once the file is changed or replaced."""

    size_bytes: int
    modified_ns: int
    status_changed_ns: int
    """Differs from before even if a program writes the file and sets ``modified_ns`` back."""
    inode: int


@dataclass(frozen=True)
class TraceSource:
    """A trace file by its address, or a scenario by its parameters; results show ``name``.

    ``scenario`` holds ``(parameter, value)`` pairs, the seed among them. ``place`` is where the
    spec has the trace, and ``is_of_many`` whether it names a folder or a pattern there. ``state``
    is that of a file on this machine before its sha256 was taken; a fetched or generated trace has
    none, since no other program writes it.
    """

    name: str
    address: str | None = None
    scenario: tuple[tuple[str, str | int | float], ...] = ()
    seed: int | None = None
    place: str = field(default="", compare=False)
    is_of_many: bool = field(default=False, compare=False)
    state: FileState | None = field(default=None, compare=False)


def escaped(text: str) -> str:
    """The text for a table: with escapes for bytes of a file's name that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


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


def identified(source: TraceSource, folder: Path) -> tuple[TraceSource, str]:
    """The trace with the state of its file, once it is known to open, and its sha256."""
    path = materialize(source, folder)
    Trace(str(path)).events()  # raises an error for an unknown format
    is_own = source.address is None or is_remote(source.address)
    return replace(source, state=None if is_own else state_of(path)), content_digest(path)


def state_of(path: Path) -> FileState:
    """The state of a file that could be read before. Raises UnreadableInput if it has vanished."""
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableInput(
            f"{path}: cannot be read any more: {error.strerror}; "
            "restore it and run the sweep again",
            path=str(path),
        ) from error
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True)
class Content:
    """The content that a trace had when its sha256 was taken."""

    source: TraceSource
    sha256: str
    folder: Path
    """Where fetched, generated and numbered traces are."""

    @contextmanager
    def opened(self) -> Iterator[Numbered]:
        """The content with numbered pages, while the block runs.

        Raises UnreadableInput, before the block or after it, if the file has changed or vanished.
        Once a copy with numbered pages exists, the file is no longer needed.
        """
        copy = self.folder / f"{self.sha256}.parquet"
        if not copy.exists():
            path = materialize(self.source, self.folder)
            aside = self.folder / f"{secrets.token_hex(8)}.parquet"
            try:
                with self._unchanged(path):
                    found = numbered(Trace(str(path)), aside)
                    if not aside.exists():
                        yield found
                        return
                aside.replace(copy)
            finally:
                aside.unlink(missing_ok=True)
        yield numbered(Trace(str(copy)), copy)

    @contextmanager
    def _unchanged(self, path: Path) -> Iterator[None]:
        """Raises UnreadableInput, before the block or after it, if the trace's file no longer has
        the content."""
        if self.source.state is None:
            yield
            return
        changed = UnreadableInput(
            f"{path}: changed while the sweep ran; run the sweep again", path=str(path)
        )
        state = state_of(path)
        # A file with another state may have the same content: it was touched, or it is on another
        # machine.
        if state != self.source.state and content_digest(path) != self.sha256:
            raise changed
        try:
            yield
        except PagewiseError as error:
            if state_of(path) != state:
                raise changed from error
            raise
        # The owner, the mode and the number of names are part of the state, but not of the content.
        if state_of(path) != state and content_digest(path) != self.sha256:
            raise changed


def prepared(source: TraceSource, sha256: str, folder: Path) -> Content:
    """The content of a trace, for `cells.run`; nothing is read before it is opened."""
    return Content(source, sha256, folder)


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
