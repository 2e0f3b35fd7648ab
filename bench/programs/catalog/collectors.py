"""Collectors that stop threads by signals; many threads, processes and commands."""

from __future__ import annotations

from typing import Any

from programs.building import c
from programs.program import Program


def compiled(
    name: str,
    what: str,
    program: str,
    *arguments: str,
    options: tuple[str, ...] = (),
    expects: str = "^finished [0-9]+",
    **more: Any,
) -> Program:
    """A program in C of this comparison, compiled with options of the linker."""
    return Program(
        name=name,
        what=what,
        words=[f"BIN/{program}", *arguments],
        expects=expects,
        built=[c(program, *options)],
        is_quick=True,
        **more,
    )


PROGRAMS = (
    compiled(
        "stop the world",
        "300 times: suspend 4 threads inside malloc and mmap by signals, then map and unmap",
        "stop_the_world",
        "300",
        expects="^finished 300",
        allocates_large=True,
    ),
    compiled(
        "boehm gc",
        "libgc: four threads, lists, arrays to 512 KiB, malloc as well, finalizers",
        "boehm",
        options=("-lgc",),
        version=["dpkg-query", "-W", "libgc1"],
        allocates_large=True,
    ),
    compiled(
        "300 threads",
        "300 threads: each allocates, passes blocks on and frees those of others",
        "many_threads",
        "300",
        allocates_large=True,
    ),
    compiled(
        "1000 forks",
        "1,000 short children with blocks up to 400 KB, 8 at a time",
        "many_forks",
        "1000",
        cpu_ratio_most=1.1,
    ),
    Program(
        name="1000 commands",
        what="a shell runs /bin/true 1,000 times: the cost of program starts",
        words=["sh", "-c", "for at in $(seq 1000); do /bin/true || exit 1; done; echo finished"],
        expects="^finished",
        version=["dpkg-query", "-W", "dash"],
    ),
)
