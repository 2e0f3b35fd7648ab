"""Files by path or by fsspec address (``s3://bucket/key``, ``gs://...``, ``file:///...``).

Only addresses need fsspec, which comes with the extra ``ray``; ``file://`` does not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import has_magic
from pathlib import Path
from typing import Any

from pagewise.errors import OF_CLUSTERS, Missing, UnreadableInput, UnwritableOutput, UsageError
from pagewise.scratch import BESIDE, scratch
from pagewise.units import MIB, format_size

FILE = "file://"
BLOCK_BYTES = 4 * MIB
"""How much of a file is copied at once."""
FREE_SHARE = 0.5
"""The share of the free space in the folder for temporary files that a copy may take."""
TEXT_BYTES_MAX = 4 * MIB
"""The largest spec or description that is read. Most are written by hand, and all are small."""
KERNEL_FOLDERS = ("/proc/", "/sys/")
"""Where the kernel writes the content of a file while it is read."""


def is_remote(address: str) -> bool:
    """Whether the text is an address, neither a path nor ``file://``."""
    return "://" in address and not address.startswith(FILE)


def local_path(address: str) -> str:
    """The path in a path or a ``file://`` address."""
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


def addresses_of(pattern: str) -> list[str]:
    """The files in the folder at an address and in the folders below it, or those that fit a
    pattern, by name; for the address of a file, that file.

    Hidden files and folders are left out, unless a pattern names them. Raises UnreadableInput if
    the place cannot be read.
    """
    files, path = filesystem(pattern)
    try:
        # An HTTP server answers for a folder as it does for a file.
        if not pattern.endswith("/") and files.isfile(path):
            return [str(files.unstrip_protocol(path))]
        listed = files.glob if has_magic(path) else files.find
        found = {name: each["type"] for name, each in listed(path, detail=True).items()}
    except FileNotFoundError:
        return []
    except Exception as error:
        raise refused(pattern, error) from error
    folder = path if not has_magic(path) else fixed_part(path)
    may_be_hidden = has_magic(path) and "/." in path
    return sorted(
        str(files.unstrip_protocol(name))
        for name, kind in found.items()
        if kind == "file" and (may_be_hidden or "/." not in f"/{name.removeprefix(folder)}")
    )


def refused(address: str, error: Exception) -> UnreadableInput:
    """The error about an address that cannot be read. Drivers raise exceptions of their own."""
    why = str(error).strip() or type(error).__name__
    return UnreadableInput(f"{address}: {why}", path=address)


def fixed_part(pattern: str) -> str:
    """The folders of a pattern before the first special character, with a slash at the end."""
    folders = pattern.split("/")
    fixed = next((at for at, name in enumerate(folders) if has_magic(name)), len(folders) - 1)
    return "".join(f"{name}/" for name in folders[:fixed])


def fetch(address: str, destination: Path) -> None:
    """Copies the content of an address to the file ``destination``, completely or not at all.

    Raises UnreadableInput if it cannot be read, or if it takes more than half of the free space.
    """
    files, path = filesystem(address)
    aside = destination.with_name(f"{destination.name}.{os.getpid()}.part")
    limit = int(shutil.disk_usage(destination.parent).free * FREE_SHARE)
    left = limit
    try:
        with files.open(path, "rb") as source, open(aside, "wb") as copy:
            while block := source.read(BLOCK_BYTES):
                left -= len(block)
                if left < 0:
                    raise UnreadableInput(
                        f"{address}: larger than {format_size(limit)}, half of what is free in "
                        f"{destination.parent}",
                        path=address,
                        hint="set TMPDIR to a folder with more room",
                    )
                copy.write(block)
    except Exception as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, UnreadableInput):
            raise
        raise refused(address, error) from error
    aside.replace(destination)


def refuse_endless(path: str | Path) -> None:
    """Raises an error for a pipe, a device, or a file that the kernel writes as it is read.

    A pipe cannot be read twice. Some devices never end, and files such as /proc/kmsg wait for more.
    """
    if not os.path.isfile(path) and not os.path.isdir(path) and os.path.exists(path):
        raise UnreadableInput(
            f"{path}: not a regular file",
            path=str(path),
            hint="save what comes from a pipe to a file, and give that file",
        )
    if os.path.realpath(path).startswith(KERNEL_FOLDERS) and os.path.isfile(path):
        raise UnreadableInput(
            f"{path}: a file of the kernel, which may have no end",
            path=str(path),
            hint="copy its content to a file, and give that file",
        )


def read_json(path: str | Path, hint: str | None = None) -> object:
    """The content of a JSON file.

    Raises UnreadableInput, with the hint if it is not JSON, for a pipe, a device, and a file that
    cannot be read.
    """
    refuse_endless(path)
    try:
        return parse_json(Path(path).read_bytes(), str(path), hint)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error


def parse_json(text: bytes | str, source: str, hint: str | None = None) -> object:
    """The content of a JSON text. Raises UnreadableInput, which names the source."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{source}: not JSON: {error}", path=source, hint=hint) from error
    return found


def read_text(path: Path) -> str:
    """The text of a small file, such as a spec.

    Raises UnreadableInput for a pipe, a device, a file larger than `TEXT_BYTES_MAX`, and a file
    that cannot be read; UnicodeDecodeError if it is not UTF-8.
    """
    refuse_endless(path)
    try:
        with open(path, "rb") as file:
            content = file.read(TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error
    if len(content) > TEXT_BYTES_MAX:
        raise UnreadableInput(
            f"{path}: larger than {TEXT_BYTES_MAX // MIB} MiB, the limit for such a file",
            path=str(path),
        )
    return content.decode("utf-8")


def refuse_special(path: Path) -> None:
    """Raises an error for standard output, and for a path that is a pipe, a folder or a device."""
    if str(path) == "-":
        raise UsageError(
            "'-' is not the name of a file",
            hint="results are written completely or not at all, so never to standard output",
        )
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file", path=str(path), hint="name another file")


def refuse_unwritable(path: Path, *, force: bool = True) -> None:
    """Raises an error if the path cannot be written, or if a file exists that may not be replaced.

    Call it before the work whose result goes to the path.
    """
    refuse_special(path)
    # A dangling link also counts as an existing file.
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists", path=str(path), hint="--force replaces it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UnwritableOutput(
            f"{path}: cannot write to the folder {path.parent}",
            path=str(path.parent),
            hint="name one that exists and that you may write to",
        )


def exists(address: str) -> bool:
    """Whether there is a file at this path or address."""
    if is_remote(address):
        files, path = filesystem(address)
        return bool(files.exists(path))
    return Path(local_path(address)).is_file()


@contextmanager
def readable(address: str) -> Iterator[Path]:
    """A local file with the content of a path or address."""
    if not is_remote(address):
        yield Path(local_path(address))
        return
    with scratch() as folder:
        copy = folder / address.rstrip("/").rsplit("/", 1)[-1]
        fetch(address, copy)
        yield copy


@contextmanager
def replacing(address: str) -> Iterator[Path]:
    """A local file to write. If the block succeeds, the file replaces the path or address.

    The file is in a new folder that only this user may enter, so no link can take its place.
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
    """Writes a text file, completely or not at all."""
    with replacing(str(path)) as aside:
        aside.write_text(text, encoding="utf-8")


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Creates the folder. If the block fails, removes the empty folders that it created.

    Raises UnwritableOutput if the folder cannot be created.
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
