"""Temporary folders. Folders that a killed process left are removed by the next process.

A process that uses a folder holds a lock on it, which the kernel releases when the process ends,
even by kill -9. A link in the folder marks it as ours, so a marked folder without a lock is left
over. Only folders of this user are removed, and symbolic links are never followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pagewise.errors import UnwritableOutput

PREFIX = "pagewise-"
"""The prefix of names in the folder for temporary files."""
BESIDE = ".pagewise-"
"""The prefix of names beside a result."""
MARK = ".made-by"
OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 10
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_held: dict[Path, int] = {}
"""The folders that this process shares with others, and the locks on them."""


def temporary() -> Path:
    """The folder for temporary files."""
    return Path(tempfile.gettempdir())


@contextmanager
def scratch(place: Path | None = None, prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder that only this user may enter, in ``place`` (default: `temporary`).

    Removes the folder after the block.
    """
    place = place or temporary()
    clear(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    lock = None
    try:
        lock = os.open(folder, OPENED)
        _hold(lock)
        yield folder
    finally:
        # Still locked, so no other process removes it at the same time.
        with suppress(OSError):
            _remove(folder)
        if lock is not None:
            os.close(lock)


def shared(name: str) -> Path:
    """A folder in `temporary` that all processes of this user share under this name.

    Creates the folder if needed, and holds it until this process ends. Raises UnwritableOutput if
    another user made it or may write to it.
    """
    folder = temporary() / f"{PREFIX}{name}"
    for _ in range(TRIES):
        if folder in _held:
            if _is_at(folder, _held[folder]):
                return folder
            os.close(_held.pop(folder))
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # removed before this process locked it
            _held[folder] = _opened(folder)
            _hold(_held[folder])
    raise UnwritableOutput(f"{folder}: other processes keep removing it", path=str(folder))


def clear(place: Path, prefix: str = PREFIX) -> None:
    """Removes the folders in ``place`` whose processes have ended."""
    with suppress(OSError):
        names = [name for name in os.listdir(place) if name.startswith(prefix)]
        for name in names:
            with suppress(OSError):  # not a folder, in use, or gone
                _remove_if_left(place / name)


def _opened(folder: Path) -> int:
    """A descriptor of a folder that belongs to this user."""
    foreign = UnwritableOutput(
        f"{folder}: other users made it or may write to it",
        path=str(folder),
        hint="remove it, or set TMPDIR to your own folder",
    )
    try:
        lock = os.open(folder, OPENED)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise foreign from error
    if not _is_own(lock):
        os.close(lock)
        raise foreign
    return lock


def _hold(lock: int) -> None:
    """Locks and marks a folder. If it cannot be locked, it stays unmarked, so that no process
    removes it."""
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.symlink(_maker(), MARK, dir_fd=lock)


def _maker() -> str:
    """The text of a mark: the host, since locks on a network file system may be local to a host."""
    return f"pagewise on {os.uname().nodename}"


def _is_own(lock: int) -> bool:
    """Whether a folder belongs to this user, and no other user may write to it."""
    found = os.fstat(lock)
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE


def _is_at(folder: Path, lock: int) -> bool:
    """Whether the path still leads to the open folder."""
    try:
        return os.path.samestat(folder.lstat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _remove_if_left(folder: Path) -> None:
    """Removes a marked folder that no process has locked. Raises OSError for any other folder."""
    lock = os.open(folder, OPENED)
    try:
        if not _is_own(lock) or os.readlink(MARK, dir_fd=lock) != _maker():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(folder, lock):
            _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Removes a folder, and its mark last, so that a later process finds what could not be
    removed."""
    for entry in folder.iterdir():
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (folder / MARK).unlink(missing_ok=True)
    folder.rmdir()
