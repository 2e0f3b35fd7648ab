"""Finds the programs, libraries and packages below some paths that fail with larger pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pagewise.binaries.apk import check_package
from pagewise.binaries.elf import MAGIC
from pagewise.binaries.problems import Checked, check_file
from pagewise.errors import UnreadableInput, UsageError
from pagewise.units import format_size, parse_size

if TYPE_CHECKING:
    from pagewise.measurements import CheckedFile, CheckResult

SCHEMA = "pagewise.pagesize-check/1"
PAGE_SIZES = {4096, 16384, 65536}
"""Base pages that arm64 kernels can have."""
PACKAGE_SUFFIXES = (".apk",)


def check(paths: Iterable[str | Path], page_size: str | int = "16KiB") -> CheckResult:
    """Finds programs and libraries that would fail with pages of this size, why, and the fix.

    ``passed_over`` counts files that are not programs, ``fails`` and ``may_fail`` programs.
    Searches folders without following links. Raises UnreadableInput for a path that is missing, or
    is a file of another kind.
    """
    page_bytes = parse_size(page_size)
    if page_bytes not in PAGE_SIZES:
        known = ", ".join(format_size(size) for size in sorted(PAGE_SIZES))
        raise UsageError(
            f"no kernel has base pages of {format_size(page_bytes)}", hint=f"use one of {known}"
        )
    found: list[Checked] = []
    passed_over = 0
    for path in map(Path, paths):
        for file in _files_below(path) if path.is_dir() else [path]:
            inside = _checked(file, page_bytes)
            if inside is None and file is path:
                raise UnreadableInput(
                    f"{path}: neither an ELF program or library nor an APK",
                    path=str(path),
                    hint="name the program itself, its folder or its package",
                )
            found += inside or []
            passed_over += inside is None
    return {
        "schema": SCHEMA,
        "page_bytes": page_bytes,
        "files": [_to_json(file) for file in found],
        "passed_over": passed_over,
        "fails": sum(any(problem.is_certain for problem in file.problems) for file in found),
        "may_fail": sum(
            bool(file.problems) and not any(problem.is_certain for problem in file.problems)
            for file in found
        ),
    }


def _files_below(folder: Path) -> Iterator[Path]:
    """Regular files in the folder and its subfolders, ordered by name."""

    def refuse(error: OSError) -> None:
        raise UnreadableInput(f"{error.filename}: {error.strerror}", path=error.filename)

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        paths = (Path(parent, name) for name in sorted(names))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _checked(path: Path, page_bytes: int) -> list[Checked] | None:
    """The results for one file; None if it is not a program, library or package."""
    try:
        if not path.is_file():
            reason = "not a regular file" if path.exists() else "no such file"
            raise UnreadableInput(f"{path}: {reason}", path=str(path))
        with path.open("rb") as file:
            if path.suffix.lower() in PACKAGE_SUFFIXES:
                return check_package(str(path), file, page_bytes)
            if file.read(len(MAGIC)) != MAGIC:
                return None
            file.seek(0)
            result = check_file(str(path), file, path.stat().st_size, page_bytes)
            return None if result is None else [result]
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path)) from error


def _to_json(file: Checked) -> CheckedFile:
    """The form in results."""
    return {
        "path": file.path,
        "machine": file.machine,
        "alignment_bytes": file.alignment_bytes,
        "problems": [
            {"what": problem.what, "fix": problem.fix, "is_certain": problem.is_certain}
            for problem in file.problems
        ],
    }
