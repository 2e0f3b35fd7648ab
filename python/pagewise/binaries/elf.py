"""The parts of an ELF file that the loader reads: machine, interpreter and LOAD segments.

Source: elf(5); the limits are those of fs/binfmt_elf.c of Linux 6.18. Sections are ignored: a
program runs even if its section table is stripped or damaged.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"\x7fELF"
LOADED_TYPES = (2, 3)
"""e_type of programs and shared objects; relocatable files and core dumps are never mapped."""
MACHINES = {3: "x86", 40: "arm", 62: "x86-64", 183: "arm64", 243: "riscv", 258: "loongarch"}
PT_LOAD = 1
PT_INTERP = 3
PATH_BYTES_MAX = 4096
"""PATH_MAX: the longest name of an interpreter."""
HEADERS_BYTES_MAX = 65536
"""Linux runs no program with larger program headers."""
IDENTITY_BYTES = 16

# By EI_CLASS: bits, the header after e_ident, one program header, the places in it of offset,
# address
# and alignment, and the place of the bytes in the file.
CLASSES = {
    1: (32, "HHIIIIIHHHHHH", "8I", (1, 2, 7), 4),
    2: (64, "HHIQQQIHHHHHH", "2I6Q", (2, 3, 7), 5),
}
BYTE_ORDERS = {1: "<", 2: ">"}


class Damaged(Exception):
    """An ELF file that no loader could map; the text says what is wrong and where."""


@dataclass(frozen=True)
class Segment:
    """A segment that the loader maps: offset, address, lengths and alignment, in bytes."""

    offset: int
    address: int
    alignment: int


@dataclass(frozen=True)
class Image:
    """A program or shared object; ``machine`` is a name of `MACHINES`.

    ``interpreter`` is the path of the dynamic loader; None if statically linked.
    """

    machine: str
    bits: int
    segments: tuple[Segment, ...]
    interpreter: str | None = None


def read_image(file: BinaryIO, size_bytes: int) -> Image | None:
    """The image in a file of this size; None for files that are not ELF or are never mapped.

    Raises Damaged if the header does not fit the file.
    """
    identity = file.read(IDENTITY_BYTES)
    if identity[:4] != MAGIC:
        return None
    if len(identity) < IDENTITY_BYTES:
        raise Damaged("the file ends within the ELF header")
    if identity[4] not in CLASSES or identity[5] not in BYTE_ORDERS:
        raise Damaged(f"byte 4: unknown ELF class {identity[4]} or byte order {identity[5]}")
    bits, header, entry, places, length = CLASSES[identity[4]]
    order = BYTE_ORDERS[identity[5]]
    kind, machine, _, _, start, _, _, _, entry_bytes, entries, *_ = _unpacked(
        order + header, file, "ELF header"
    )
    if kind not in LOADED_TYPES:
        return None
    form = struct.Struct(order + entry)
    if entries and entry_bytes != form.size:
        raise Damaged(f"program headers of {entry_bytes} bytes instead of {form.size}")
    if entries * form.size > HEADERS_BYTES_MAX:
        raise Damaged(f"{entries} program headers, more than Linux accepts")
    if start + entries * form.size > size_bytes:
        raise Damaged(f"byte {start}: the program headers lie beyond the end of the file")
    file.seek(start)
    table = file.read(entries * form.size)
    if len(table) < entries * form.size:
        raise Damaged(f"byte {start}: the file ends within the program headers")
    found = (fields for fields in form.iter_unpack(table) if fields[0] == PT_LOAD)
    named = (fields for fields in form.iter_unpack(table) if fields[0] == PT_INTERP)
    interpreter = next(
        (_text(file, fields[places[0]], fields[length], size_bytes) for fields in named), None
    )
    return Image(
        MACHINES.get(machine, f"machine {machine}"),
        bits,
        tuple(Segment(*(fields[place] for place in places)) for fields in found),
        interpreter,
    )


def _text(file: BinaryIO, offset: int, length: int, size_bytes: int) -> str:
    """The path at ``offset``."""
    if not 0 < length <= PATH_BYTES_MAX or offset + length > size_bytes:
        raise Damaged(f"byte {offset}: expected the interpreter's path")
    file.seek(offset)
    return os.fsdecode(file.read(length).split(b"\0")[0])


def _unpacked(form: str, file: BinaryIO, what: str) -> tuple[int, ...]:
    """The next fields of the file."""
    raw = file.read(struct.calcsize(form))
    if len(raw) < struct.calcsize(form):
        raise Damaged(f"the file ends within the {what}")
    return struct.unpack(form, raw)
