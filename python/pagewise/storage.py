"""Files by path or by fsspec address (``s3://bucket/key``, ``gs://...``, ``file:///...``).

fsspec is needed only for addresses; it comes with the extra ``ray``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pagewise.errors import OF_CLUSTERS, Missing, UnreadableInput, UnwritableOutput, UsageError
from pagewise.scratch import BESIDE, scratch

FILE = "file://"


def is_remote(address: str) -> bool:
    """Whether the address is neither a path nor a ``file://`` address."""
    return "://" in address and not address.startswith(FILE)


def local_path(address: str) -> str:
    """The path of a path or of a ``file://`` address."""
    return address.removeprefix(FILE)


def filesystem(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path in it."""
    try:
        import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise Missing(f"{address}: fsspec is needed for this address", hint=OF_CLUSTERS) from error
    try:
        files, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise Missing(f"{address}: {error}") from error
    return files, path


def fetch(address: str, destination: Path) -> None:
    """Copies what the address names into the file ``destination``, which appears whole or not."""
    files, path = filesystem(address)
    aside = destination.with_name(f"{destination.name}.{os.getpid()}.part")
    try:
        files.get_file(path, str(aside))
    except (OSError, RuntimeError) as error:
        aside.unlink(missing_ok=True)
        raise UnreadableInput(f"{address}: {error}", path=address) from error
    aside.replace(destination)


def refuse_endless(path: str | Path) -> None:
    """An error for a pipe or a device: a second reading of a pipe is empty, and some devices never
    end."""
    if not os.path.isfile(path) and not os.path.isdir(path) and os.path.exists(path):
        raise UnreadableInput(
            f"{path}: not a regular file",
            path=str(path),
            hint="give a file; save what comes from a pipe in one",
        )


def refuse_special(path: Path) -> None:
    """An error if the path is standard output, or if a pipe, a folder or a device is there."""
    if str(path) == "-":
        raise UsageError(
            "'-' is no name of a file",
            hint="results appear complete or not at all, so not on standard output",
        )
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file", path=str(path))


def refuse_unwritable(path: Path, *, force: bool = True) -> None:
    """Raises an error if no file can be written at the path, or if one exists that may not be
    replaced. Call it before the work whose result goes there."""
    refuse_special(path)
    if path.exists() and not force:
        raise UsageError(f"{path} exists already", path=str(path), hint="--force replaces it")
    if not os.access(path.parent, os.W_OK):
        raise UnwritableOutput(
            f"{path}: cannot write to the folder {path.parent}", path=str(path.parent)
        )


def exists(address: str) -> bool:
    """Whether there is a file at this path or address."""
    if is_remote(address):
        files, path = filesystem(address)
        return bool(files.exists(path))
    return Path(local_path(address)).is_file()


@contextmanager
def readable(address: str) -> Iterator[Path]:
    """A local file with the content of the path or address."""
    if not is_remote(address):
        yield Path(local_path(address))
        return
    with scratch() as folder:
        copy = folder / address.rsplit("/", 1)[-1]
        fetch(address, copy)
        yield copy


@contextmanager
def replacing(address: str) -> Iterator[Path]:
    """A local file to write; when the block ends well it takes the place of the path or address.

    It lies in a new folder that only this user may enter, so that no link can stand in its place.
    """
    if not is_remote(address):
        target = Path(local_path(address))
        try:
            with scratch(target.parent, BESIDE) as private:
                aside = private / target.name
                yield aside
                with open(aside, "rb") as written:
                    os.fsync(written.fileno())
                aside.replace(target)
        except OSError as error:
            raise UnwritableOutput(f"{target}: {error.strerror}", path=str(target)) from error
        return
    files, path = filesystem(address)
    with scratch() as folder:
        aside = folder / "result"
        yield aside
        files.put_file(str(aside), path)


def write_text(path: Path, text: str) -> None:
    """Writes a file of text, which appears whole or not."""
    with replacing(str(path)) as aside:
        aside.write_text(text, encoding="utf-8")


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Makes the folder; if the block then fails, what was made and is empty goes again.

    Raises UnwritableOutput where it cannot be made.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableOutput(f"{folder}: {error.strerror}", path=str(folder)) from error
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise
