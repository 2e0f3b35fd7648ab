"""Native libraries in an Android package (a zip file with ``lib/ABI/NAME.so``).

Source: the Android guide "Support 16 KB page sizes": libraries that are stored uncompressed are
mapped from the package, so each must begin at a multiple of the page size in it.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from pagewise.binaries.problems import Checked, Problem, check_file
from pagewise.units import format_size

ABIS_64_BIT = ("arm64-v8a", "x86_64", "riscv64")
LOCAL_HEADER_BYTES = 30
LOCAL_HEADER_LENGTHS = 26
"""Offsets in a local header of the lengths of name and extra field, 16 bits each."""
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""The errors of zipfile for damaged, encrypted and unknown entries."""


def check_package(path: str, file: BinaryIO, page_bytes: int) -> list[Checked]:
    """The problems of each native library with pages of ``page_bytes``.

    Skips libraries for 32-bit devices if there are some for 64-bit ones: a device with larger pages
    uses those.
    """
    try:
        package = zipfile.ZipFile(file)
    except (*UNREADABLE, ValueError) as error:
        return [_wrong(path, f"is not a complete package: {error}", "build or copy it again")]
    with package:
        libraries = [entry for entry in package.infolist() if _abi(entry.filename)]
        wide = [entry for entry in libraries if _abi(entry.filename) in ABIS_64_BIT]
        return [_checked(path, package, file, entry, page_bytes) for entry in wide or libraries]


def _abi(name: str) -> str | None:
    """The ABI in ``lib/ABI/NAME.so``; None for any other entry."""
    parts = PurePosixPath(name).parts
    return parts[1] if len(parts) == 3 and parts[0] == "lib" and name.endswith(".so") else None


def _checked(
    path: str,
    package: zipfile.ZipFile,
    file: BinaryIO,
    entry: zipfile.ZipInfo,
    page_bytes: int,
) -> Checked:
    """The problems of one library, as an ELF file and as a part of the package."""
    name = f"{path}!{entry.filename}"
    try:
        with package.open(entry) as library:
            found = check_file(name, cast(BinaryIO, library), entry.file_size, page_bytes)
    except (*UNREADABLE, OSError) as error:
        return _wrong(name, f"cannot be unpacked: {error}", "build the package again")
    if found is None:
        return _wrong(name, "is not a shared object", "build the package again")
    return replace(found, problems=(*found.problems, *_placed(file, entry, page_bytes)))


def _wrong(name: str, what: str, fix: str) -> Checked:
    """The result for a broken package or library."""
    return Checked(name, None, None, (Problem(what, fix),))


def _placed(file: BinaryIO, entry: zipfile.ZipInfo, page_bytes: int) -> Iterator[Problem]:
    """The problem of a stored library that does not begin at a page boundary."""
    if entry.compress_type != zipfile.ZIP_STORED:
        return
    file.seek(entry.header_offset + LOCAL_HEADER_LENGTHS)
    name_bytes, extra_bytes = struct.unpack("<HH", file.read(4))
    start = entry.header_offset + LOCAL_HEADER_BYTES + name_bytes + extra_bytes
    if start % page_bytes:
        yield Problem(
            f"stored uncompressed at byte {start}, not a multiple of {format_size(page_bytes)}",
            f"zipalign -P {page_bytes // 1024} -f 4 IN.apk OUT.apk, then sign it again",
        )
