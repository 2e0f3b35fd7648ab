"""Finds the files that a program opens, and copies them to a folder that can be its root.

The program runs once under QEMU's user-mode emulation with ``-strace``, which prints every path
that it gives to the kernel. So libraries, plugins and input files are found without being named,
also those of a program for another processor. Not found: what only its children name, and paths
relative to another folder than the current one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from pagewise.capture.process import emulation
from pagewise.capture.program import Program, image_of
from pagewise.errors import UsageError
from pagewise.signals import Ended

TEXT = re.compile(rb'"((?:[^"\\\n]|\\.)*)"')
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""File systems of the kernel, which a guest has its own of."""


def copy_files(program: Program, log: Path, root: Path) -> int:
    """Copies the files of a program to the same paths below ``root``; returns their bytes.

    Runs the program to find them, with its output discarded; ``log`` holds what it names. Folders
    that it names, and those of files that it creates, become empty folders. Raises UsageError if
    the program fails.
    """
    interpreter = image_of(program.path).interpreter
    loaded = {os.path.abspath(program.path)} | ({interpreter} if interpreter else set())
    return sum(
        copy(path, program.library_root, root) for path in sorted(loaded | named(program, log))
    )


def named(program: Program, log: Path) -> set[str]:
    """The absolute paths that the program gives to the kernel."""
    words = [*program.qemu(), "-strace", "-D", str(log), program.path, *program.arguments]
    with emulation() as running:
        running.start(words, (), subprocess.DEVNULL)
        status = running.status()
    if running.ended_by is not None:
        raise Ended(running.ended_by)
    if status != 0:
        raise UsageError(
            f"{program.name} ended with status {status}", hint="try the command by itself first"
        )
    texts = {os.fsdecode(text) for text in TEXT.findall(log.read_bytes())}
    return {os.path.abspath(text) for text in texts if text and "\0" not in text}


def copy(path: str, library_root: str | None, root: Path) -> int:
    """Copies a file, and makes a folder, if this machine has it; returns the bytes of a file.

    Of a path that does not exist or cannot be read, makes the folder above it if that exists here.
    """
    if any(Path(path).is_relative_to(folder) for folder in KERNEL_FOLDERS):
        return 0
    below = root / path.lstrip("/")
    source = Path(path)
    if library_root is not None and os.path.exists(library_root + path):
        source = Path(library_root + path)
    # os.path.isdir returns False, where Path.is_dir raises, for a name that is too long or that is
    # in a closed folder: the program cannot open it either.
    if os.path.isdir(source):
        below.mkdir(parents=True, exist_ok=True)
    elif os.path.isfile(source) and os.access(source, os.R_OK):
        below.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, below)
        return source.stat().st_size
    elif os.path.isdir(source.parent):
        below.parent.mkdir(parents=True, exist_ok=True)
    return 0
