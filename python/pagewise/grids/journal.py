"""The finished cells of an unfinished grid, safe against a kill at any moment.

A local journal is one append-only file of lines ``LENGTH CHECKSUM JSON``. A line counts only if
length and checksum fit, so a torn tail is ignored and cut off by the next run. Object stores cannot
append: there each append is an object of its own, in the same form.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from pagewise.errors import UnwritableOutput
from pagewise.storage import filesystem, is_remote, local_path

SUFFIX = ".journal"


class Journal(Protocol):
    """Finished cells by key; the value is the outcome as JSON text."""

    finished: dict[str, str]

    def append(self, cells: Mapping[str, str]) -> None:
        """Makes the cells durable before it returns."""

    def remove(self) -> None:
        """The results are written: the journal has done its work."""

    def close(self) -> None:
        """Lets another run have it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_journal(results: str) -> Journal:
    """The journal that belongs to the results at this path or fsspec address."""
    if is_remote(results):
        return RemoteJournal(results + SUFFIX)
    return LocalJournal(Path(local_path(results) + SUFFIX))


class _Closing:
    def close(self) -> None:
        """Lets another run have it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LocalJournal(_Closing):
    """A journal in a file; a lock keeps a second run of the same grid out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] = path.open("a+b")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.file.close()
            raise UnwritableOutput(
                f"{path}: another run is writing these results",
                path=str(path),
                hint="wait for it, or choose another output",
            ) from error
        self.file.seek(0)
        content = self.file.read()
        self.finished, sound_bytes = decode(content)
        if sound_bytes < len(content):
            self.file.truncate(sound_bytes)

    def append(self, cells: Mapping[str, str]) -> None:
        """Makes the cells durable before it returns."""
        self.file.write(encode(cells))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.finished.update(cells)

    def remove(self) -> None:
        """The results are written: the journal has done its work."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file, which releases the lock."""
        self.file.close()


class RemoteJournal(_Closing):
    """A journal in an object store: one object per append, numbered, with a name of the run's own.

    Object stores have no locks. Two runs of one grid at the same time both do all the work; neither
    overwrites what the other has finished, and both write the same results.
    """

    def __init__(self, address: str) -> None:
        self.files, self.folder = filesystem(address)
        self.finished: dict[str, str] = {}
        self.run = secrets.token_hex(8)
        self.parts = 0
        try:
            for part in self.files.ls(self.folder, detail=False):
                self.finished.update(decode(self.files.cat_file(part))[0])
        except FileNotFoundError:
            # There is none, or another run has just written its results and removed it.
            pass

    def append(self, cells: Mapping[str, str]) -> None:
        """Makes the cells durable before it returns."""
        self.files.makedirs(self.folder, exist_ok=True)
        self.files.pipe_file(f"{self.folder}/{self.run}-{self.parts:08}", encode(cells))
        self.parts += 1
        self.finished.update(cells)

    def remove(self) -> None:
        """The results are written: the journal has done its work."""
        if self.files.exists(self.folder):
            self.files.rm(self.folder, recursive=True)


def encode(cells: Mapping[str, str]) -> bytes:
    """The cells as journal lines."""
    return b"".join(_line({"key": key, "outcome": outcome}) for key, outcome in cells.items())


def decode(content: bytes) -> tuple[dict[str, str], int]:
    """The cells of the sound lines, and how many bytes those lines take."""
    cells = {}
    sound_bytes = 0
    for record, end in _records(content):
        cells[record["key"]] = record["outcome"]
        sound_bytes = end
    return cells, sound_bytes


def _line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%d %08x %s\n" % (len(text), zlib.crc32(text), text)


def _records(content: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    """Sound records from the front with the offset behind each; stops at the first unsound one."""
    start = 0
    while (newline := content.find(b"\n", start)) >= 0:
        text = _checked(content[start:newline].split(b" ", 2))
        if text is None:
            return
        start = newline + 1
        yield json.loads(text), start


def _checked(parts: Iterable[bytes]) -> bytes | None:
    match list(parts):
        case [length, checksum, text] if length == b"%d" % len(
            text
        ) and checksum == b"%08x" % zlib.crc32(text):
            return text
        case _:
            return None
