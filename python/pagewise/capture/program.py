"""Resolves a command to the program that QEMU runs: scripts, other processors, errors."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pagewise.binaries.elf import Damaged, Image, read_image
from pagewise.errors import Missing, UnreadableInput, UsageError

SCRIPTS_MAX = 5
"""How many scripts may interpret one another; Linux has the same limit (fs/exec.c)."""
ENV = "env"
"""env of coreutils, which as an interpreter looks up its argument in PATH."""
ASKS = set("='\"\\$#")
"""Characters of arguments of env that set a variable, or need the language of ``-S``."""
FIRST_LINE_BYTES = 256
"""How many bytes of a script's first line Linux reads (BINPRM_BUF_SIZE)."""


@dataclass(frozen=True)
class Processor:
    """A processor: its QEMU name, and the Debian package of its libraries for other machines."""

    architecture: str
    root: str
    package: str


TARGETS = {
    ("x86-64", 64): Processor("x86_64", "/usr/x86_64-linux-gnu", "libc6-amd64-cross"),
    ("x86", 32): Processor("i386", "/usr/i686-linux-gnu", "libc6-i386-cross"),
    ("arm64", 64): Processor("aarch64", "/usr/aarch64-linux-gnu", "libc6-arm64-cross"),
    ("arm", 32): Processor("arm", "/usr/arm-linux-gnueabihf", "libc6-armhf-cross"),
    ("riscv", 64): Processor("riscv64", "/usr/riscv64-linux-gnu", "libc6-riscv64-cross"),
}


@dataclass(frozen=True)
class Program:
    """The program that QEMU runs; ``name`` is its argv[0]."""

    path: str
    name: str
    arguments: tuple[str, ...]
    architecture: str
    library_root: str | None
    notes: tuple[str, ...]

    def qemu(self) -> list[str]:
        """The emulator and its arguments, without the program. Raises Missing."""
        emulator = shutil.which(f"qemu-{self.architecture}")
        if emulator is None:
            raise Missing(
                f"qemu-{self.architecture} is not installed", hint="apt-get install -y qemu-user"
            )
        root = ["-L", self.library_root] if self.library_root else []
        return [emulator, *root, "-0", self.name]


def find(command: Sequence[str]) -> Program:
    """Finds the program of a command as a shell would, and its processor.

    Raises UsageError if it cannot run, Missing if something is not installed.
    """
    path, arguments = located(command[0]), tuple(command[1:])
    name = command[0]
    notes = []
    for _ in range(SCRIPTS_MAX):
        if is_setuid(path):
            notes.append(f"{path} is setuid or setgid; under QEMU it runs with your own rights")
        interpreter = interpreter_of(path)
        if interpreter is None:
            target, root = emulated(path)
            return Program(path, name, arguments, target.architecture, root, tuple(notes))
        interpreter = without_env(interpreter)
        arguments = (*interpreter[1:], path, *arguments)
        try:
            path = name = located(interpreter[0])
        except UsageError as error:
            error.args = (f"{path} is a script; its interpreter: {error}",)
            error.hint = "correct its first line, or install the interpreter"
            raise
    raise UsageError(f"{command[0]}: more than {SCRIPTS_MAX} scripts interpret one another")


def located(name: str) -> str:
    """The path of a program. Raises UsageError if there is no executable program."""
    if "/" not in name:
        found = shutil.which(name)
        if found is None:
            raise UsageError(f"no program is called {name!r}", hint="give its path, or install it")
        return found
    path = Path(name)
    if not path.exists():
        raise UsageError(f"{name} does not exist", hint="the command comes after --", path=name)
    if not path.is_file():
        raise UsageError(f"{name} is not a program", path=name)
    if not os.access(path, os.X_OK):
        hint = f"chmod +x {shlex.quote(name)}"
        raise UsageError(f"{name} is not executable", hint=hint, path=name)
    return name


def is_setuid(path: str) -> bool:
    """Whether a program runs as its owner or group, not as its caller."""
    found = os.stat(path)
    as_owner = found.st_mode & stat.S_ISUID and found.st_uid != os.geteuid()
    as_group = found.st_mode & stat.S_ISGID and found.st_gid != os.getegid()
    return bool(as_owner or as_group)


def interpreter_of(path: str) -> list[str] | None:
    """The interpreter of a script and its argument, if any; None for any other file."""
    try:
        with open(path, "rb") as file:
            line = file.read(FIRST_LINE_BYTES).split(b"\n")[0]
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=path) from None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).strip(" \t\r").split(maxsplit=1)
    if not words:
        raise UsageError(f"{path} is a script without an interpreter", path=path)
    return words


def without_env(interpreter: list[str]) -> list[str]:
    """The program that ``#!/usr/bin/env python3`` or ``env -S python3 -u`` starts.

    env executes that program, where a capture would end. Keeps env if its arguments are not simple.
    """
    if Path(interpreter[0]).name != ENV or len(interpreter) < 2:
        return interpreter
    option, *split = interpreter[1].split()
    words = split if option in ("-S", "--split-string") else [interpreter[1]]
    asks_more = not words or words[0].startswith("-") or any(set(word) & ASKS for word in words)
    return interpreter if asks_more else words


def emulated(path: str) -> tuple[Processor, str | None]:
    """The processor of a program, and the folder of its libraries if it is not /."""
    image = image_of(path)
    target = TARGETS.get((image.machine, image.bits))
    if target is None:
        raise UsageError(
            f"{path} is made for {image.machine} with {image.bits} bits",
            hint="these can be captured: "
            f"{', '.join(row.architecture for row in TARGETS.values())}",
            path=path,
        )
    if image.interpreter is None or os.path.exists(image.interpreter):
        return target, None
    if os.path.exists(target.root + image.interpreter):
        return target, target.root
    raise Missing(
        f"{path} needs {image.interpreter}, which is not installed",
        hint=f"link the program statically, or run: apt-get install -y {target.package}",
        path=path,
    )


def image_of(path: str) -> Image:
    """The image in the program's file."""
    try:
        with open(path, "rb") as file:
            image = read_image(file, os.fstat(file.fileno()).st_size)
    except Damaged as error:
        raise UnreadableInput(f"{path}: {error}", path=path) from None
    if image is None:
        raise UsageError(
            f"{path} is neither a program nor a script with an interpreter",
            hint="a script begins with #! and the path of its interpreter",
            path=path,
        )
    return image
