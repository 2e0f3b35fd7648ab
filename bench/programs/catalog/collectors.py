"""Collectors that stop threads by signals, and many threads and processes at once."""

from __future__ import annotations

from programs.building import c
from programs.program import Program

PROGRAMS = (
    Program(
        name="stop the world",
        what="300 times: suspend 4 threads amid malloc and mmap by signals, then map and unmap",
        words=["BIN/stop_the_world", "300"],
        expects="^finished 300",
        built=[c("stop_the_world")],
        limit_s=60,
        allocates_large=True,
        is_quick=True,
    ),
    Program(
        name="boehm gc",
        what="libgc: four threads, lists, arrays to 512 KiB, malloc beside it, finalizers",
        words=["BIN/boehm"],
        expects="^finished [0-9]+",
        version=["dpkg-query", "-W", "libgc1"],
        built=[c("boehm", "-lgc")],
        limit_s=60,
        allocates_large=True,
        is_quick=True,
    ),
    Program(
        name="300 threads",
        what="300 threads at once, each allocates, passes blocks on and frees those of others",
        words=["BIN/many_threads", "300"],
        expects="^finished [0-9]+",
        built=[c("many_threads")],
        limit_s=60,
        allocates_large=True,
        is_quick=True,
    ),
    Program(
        name="1000 forks",
        what="1,000 short children with blocks up to 400 KB, 8 at once",
        words=["BIN/many_forks", "1000"],
        expects="^finished [0-9]+",
        built=[c("many_forks")],
        limit_s=60,
        cpu_ratio_most=1.1,
        is_quick=True,
    ),
    Program(
        name="1000 commands",
        what="1,000 times /bin/true by a shell: what the start of a program costs",
        words=["sh", "-c", "for at in $(seq 1000); do /bin/true || exit 1; done; echo finished"],
        expects="^finished",
        version=["dpkg-query", "-W", "dash"],
    ),
)
