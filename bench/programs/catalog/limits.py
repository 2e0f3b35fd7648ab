"""Programs that the loader treats specially, and programs at resource limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from programs.building import Built, c
from programs.catalog.installed import installed
from programs.catalog.tools import text
from programs.places import BINARIES
from programs.program import MIB, Program

OVERFLOW_UID = 65534
BLOCKS = c("blocks", "-fno-builtin")
PLAIN = ("gcc", "-O1", "-fno-builtin")
STATIC = Built(
    "blocks-static",
    "blocks.c",
    ["gcc", "-O2", "-static", "-pthread", "-fno-builtin", "SOURCE", "-o", "OUTPUT"],
    ["gcc"],
)


def setuid(folder: Path) -> None:
    """A copy of the program with the setuid bit, owned by another user."""
    path = folder / "privileges"
    shutil.copy(BINARIES / "privileges", path)
    os.chown(path, OVERFLOW_UID, OVERFLOW_UID)
    path.chmod(0o6755)


def squeezed(
    name: str, what: str, words: list[str], has_swap: bool = False, **more: object
) -> Program:
    """A program in a memory cgroup of 64 MiB."""
    where = "with" if has_swap else "without"
    return Program(
        name=f"64 MiB {where} swap, {name}",
        what=f"{what}, in a memory cgroup of 64 MiB {where} swap",
        words=words,
        group_bytes=64 * MIB,
        has_swap=has_swap,
        allocates_large=True,
        limit_s=90,
        **more,  # type: ignore[arg-type]
    )


SQUEEZES = [
    program
    for has_swap in (False, True)
    for program in (
        squeezed(
            "churn",
            "40 MiB in use, freed and used again by malloc and mmap",
            ["BIN/squeeze", "40"],
            has_swap,
            expects="^finished",
            built=[c("squeeze")],
            is_quick=not has_swap,
        ),
        squeezed(
            "sort",
            "sort of 24 MiB",
            ["sort", "--parallel=2", "-S", "16M", "-T", "FOLDER", "-o", "sorted", "INPUTS/text"],
            has_swap,
            expects="status 0",
            prepare=text,
            results=["sorted"],
        ),
    )
]

PROGRAMS = (
    Program(
        name="setuid",
        what="a program that runs as another user, directly and by sh",
        words=["sh", "-c", "FOLDER/privileges && exec FOLDER/privileges"],
        expects="^secure 1",
        built=[c("privileges")],
        prepare=setuid,
        is_quick=True,
    ),
    Program(
        name="setuid directly",
        what="a program that runs as another user, started by the command itself",
        words=["FOLDER/privileges"],
        expects="^secure 1",
        is_served=False,
        built=[c("privileges")],
        prepare=setuid,
    ),
    Program(
        name="static",
        what="a statically linked program, directly",
        words=["BIN/blocks-static"],
        expects="^finished [0-9]+",
        built=[STATIC],
        is_quick=True,
        allocates_large=True,
        is_served=False,
    ),
    Program(
        name="static by sh",
        what="a statically linked program and a dynamic one, started by sh",
        words=["sh", "-c", "BIN/blocks-static; BIN/blocks; exit 4"],
        expects="^finished [0-9]+",
        status=4,
        built=[STATIC, BLOCKS],
        allocates_large=True,
    ),
    installed(
        name="bwrap",
        what="bubblewrap: own namespaces, the file system read-only, a private /tmp",
        words=[
            *("/usr/bin/bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--unshare-pid", "--unshare-net", "--die-with-parent"),
            *("sh", "-c", "BIN/blocks; echo process $$; ls /proc | grep -c '^[0-9]'"),
        ],
        expects="^finished [0-9]+",
        built=[BLOCKS],
        is_quick=True,
        allocates_large=True,
    ),
    Program(
        name="RLIMIT_AS",
        what="allocates until RLIMIT_AS refuses, checks errno, frees all, repeats; also in a child",
        words=[
            "sh",
            "-c",
            "BIN/address_space own; ulimit -v 200000; BIN/address_space given; BIN/blocks 5",
        ],
        expects="^refused: Cannot allocate memory",
        built=[c("address_space"), BLOCKS],
        is_quick=True,
        allocates_large=True,
    ),
    Program(
        name="RLIMIT_NOFILE",
        what="opens files until RLIMIT_NOFILE refuses; descriptor numbers; work with none left",
        words=["sh", "-c", "BIN/descriptors 16; BIN/descriptors 256; ulimit -n 4; BIN/blocks 3"],
        expects="^refused at 16",
        built=[c("descriptors"), BLOCKS],
        is_quick=True,
        allocates_large=True,
    ),
    Program(
        name="SIGPIPE ignored",
        what="a writer to a closed pipe, started by a shell that ignores SIGPIPE",
        caller=["sh", "-c", "trap '' PIPE; exec \"$@\"", "sh"],
        words=["sh", "-c", "(cat /dev/zero; echo status $? >&2) | true"],
        expects="status 1",
        is_quick=True,
    ),
    Program(
        name="closed streams",
        what="a list of descriptors, started by a shell that closes standard input and error",
        caller=["sh", "-c", 'exec "$@" <&- 2>&-', "sh"],
        words=["sh", "-c", "ls /proc/$$/fd"],
        expects="^1$",
        is_quick=True,
    ),
    Program(
        name="two phases",
        what="200 blocks of 1 MiB, all freed, then 200 MiB in blocks of 1,000 bytes",
        words=["BIN/phases", "200"],
        expects="^finished [0-9]+",
        built=[Built("phases", "phases.c", [*PLAIN, "SOURCE", "-o", "OUTPUT"], ["gcc"])],
        allocates_large=True,
    ),
    squeezed(
        "too much",
        "120 MiB: killed",
        ["BIN/squeeze", "120"],
        expects="signal 9",
        status=-9,
        built=[c("squeeze")],
        is_quick=True,
    ),
    squeezed(
        "more than fits",
        "100 MiB: the rest goes to swap",
        ["BIN/squeeze", "100"],
        True,
        expects="^finished",
        built=[c("squeeze")],
    ),
    *SQUEEZES,
)
