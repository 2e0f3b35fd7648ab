"""The finished cells of an unfinished grid, which survive a kill at any time.

A local journal is an append-only file: a line with the journal's magic text, then lines ``LENGTH
CHECKSUM JSON``. A line counts only if length and checksum match, so damage costs only the lines
that it hits. Object stores cannot append: there, each append is a separate object.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from pagewise.errors import UnwritableOutput
from pagewise.scratch import BESIDE, scratch
from pagewise.storage import filesystem, is_remote, local_path

SUFFIX = ".journal"
HEADER = b"pagewise-journal 1\n"
"""The first line of a local journal. A file without it is never written, truncated or removed,
unless cells follow a line that differs from it by one character other than the version."""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP)
"""How a file system without hard links refuses one."""


class Journal(Protocol):
    """Finished cells by key; values are outcomes as JSON text."""

    finished: dict[str, str]

    def append(self, cells: Mapping[str, str]) -> None:
        """Appends cells; they are durable when it returns."""

    def remove(self) -> None:
        """Removes the journal once the results are written."""

    def close(self) -> None:
        """Releases the journal for other runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_journal(results: str) -> Journal:
    """The journal for the results at this path or fsspec address."""
    if is_remote(results):
        return RemoteJournal(results + SUFFIX)
    return LocalJournal(Path(local_path(results) + SUFFIX))


class _Closing:
    def close(self) -> None:
        """Releases the journal for other runs."""

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
    """A journal in a file, with a lock against a second run of the same grid."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _make(path)
        self.file: IO[bytes] = _found(path)
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
        self.finished = decode(content)
        self.is_torn = not content.endswith(b"\n")

    def append(self, cells: Mapping[str, str]) -> None:
        """Appends cells; they are durable when it returns."""
        try:
            # A torn last line must not damage the line that follows it.
            self.file.write(b"\n" * self.is_torn + encode(cells))
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise UnwritableOutput(f"{self.path}: {error.strerror}", path=str(self.path)) from error
        self.is_torn = False
        self.finished.update(cells)

    def remove(self) -> None:
        """Removes the journal once the results are written."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file, which releases the lock, and removes it if it has no cells."""
        if not self.finished and not self.file.closed:
            self.remove()
        # `append` has already reported what could not be written.
        with suppress(OSError):
            self.file.close()


def _make(path: Path) -> None:
    """Makes a journal, unless the name is taken.

    The file has its header before it has its name, so a kill leaves no file without a header. On a
    file system without hard links, it has its name first.
    """
    if os.path.lexists(path):
        return
    try:
        with scratch(path.parent, BESIDE) as folder:
            aside = folder / path.name
            _write_header(aside)
            with suppress(FileExistsError):
                try:
                    os.link(aside, path)  # unlike a rename, never replaces a file
                except OSError as error:
                    if error.errno not in NO_LINKS:
                        raise
                    _write_header(path)
    except OSError as error:
        raise UnwritableOutput(f"{path}: {error.strerror}", path=str(path)) from error


def _write_header(path: Path) -> None:
    """Writes a new file; on a full disk, removes it."""
    with open(path, "xb") as file:
        try:
            file.write(HEADER)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink()
            raise


def _found(path: Path) -> IO[bytes]:
    """The journal at a path. Raises UnwritableOutput for any other file."""
    foreign = UnwritableOutput(
        f"{path}: not a journal of pagewise",
        path=str(path),
        hint="choose another output, or move the file",
    )
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, os.O_RDONLY | flags), "rb") as seen:
            if not path.is_file() or not _is_ours(seen):
                raise foreign
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | flags), "a+b")
            if not os.path.samestat(os.fstat(seen.fileno()), os.fstat(file.fileno())):
                file.close()
                raise foreign
            return file
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise foreign from error
        raise UnwritableOutput(f"{path}: {error.strerror}", path=str(path)) from error


def _is_ours(file: IO[bytes]) -> bool:
    """Whether a file begins with the header of a journal, or with a damaged one before cells.

    Damage to the version looks like another version, whose lines may mean something else.
    """
    head = file.read(len(HEADER))
    if head == HEADER:
        return True
    version = len(HEADER) - 2
    differing = [
        place
        for place, (byte, expected) in enumerate(zip(head, HEADER, strict=False))
        if byte != expected
    ]
    return len(differing) == 1 and differing != [version] and bool(decode(file.read()))


class RemoteJournal(_Closing):
    """A journal in an object store: one numbered object per append, with a name unique to the run.

    Object stores have no locks. Two runs of one grid at the same time both do all the work, but
    neither overwrites the objects of the other, and both write the same results.
    """

    def __init__(self, address: str) -> None:
        self.files, self.folder = filesystem(address)
        self.finished: dict[str, str] = {}
        self.run = secrets.token_hex(8)
        self.parts = 0
        try:
            for part in self.files.ls(self.folder, detail=False):
                self.finished.update(decode(self.files.cat_file(part)))
        except FileNotFoundError:
            # No journal exists, or another run has just written its results and removed it.
            pass

    def append(self, cells: Mapping[str, str]) -> None:
        """Appends cells; they are durable when it returns."""
        self.files.makedirs(self.folder, exist_ok=True)
        self.files.pipe_file(f"{self.folder}/{self.run}-{self.parts:08}", encode(cells))
        self.parts += 1
        self.finished.update(cells)

    def remove(self) -> None:
        """Removes the journal once the results are written."""
        if self.files.exists(self.folder):
            self.files.rm(self.folder, recursive=True)


def encode(cells: Mapping[str, str]) -> bytes:
    """The cells as journal lines."""
    return b"".join(_line({"key": key, "outcome": outcome}) for key, outcome in cells.items())


def decode(content: bytes) -> dict[str, str]:
    """The cells of the undamaged lines."""
    texts = (_checked(line.split(b" ", 2)) for line in content.split(b"\n"))
    records = (json.loads(text) for text in texts if text is not None)
    return {record["key"]: record["outcome"] for record in records}


def _line(record: Mapping[str, object]) -> bytes:
    text = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%d %08x %s\n" % (len(text), zlib.crc32(text), text)


def _checked(parts: Iterable[bytes]) -> bytes | None:
    match list(parts):
        case [length, checksum, text] if length == b"%d" % len(
            text
        ) and checksum == b"%08x" % zlib.crc32(text):
            return text
        case _:
            return None
