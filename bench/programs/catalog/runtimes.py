"""Languages that bring their own memory management."""

from __future__ import annotations

from programs.building import Built
from programs.catalog.installed import installed
from programs.program import Program

JAVA = "/usr/lib/jvm/java-17-openjdk-amd64/bin"
PYTHON = "/usr/bin/python3.11"
GO = "/usr/lib/go-1.19/bin/go"


def java(collector: str) -> Program:
    """A Java program under one of the collectors."""
    return installed(
        name=f"java {collector}",
        what=f"-XX:+Use{collector}GC: three threads, arrays to 1 MiB, direct buffers, a child",
        words=[
            *(f"{JAVA}/java", f"-XX:+Use{collector}GC", "-Xms96m", "-Xmx96m", "-XX:-UsePerfData"),
            *("-cp", "BIN/churn.jar", "Churn"),
        ],
        expects="^finished [0-9]+",
        is_served=True,
        version="-version",
        built=[
            Built(
                "churn.jar",
                "Churn.java",
                [
                    "sh",
                    "-euc",
                    f"mkdir OUTPUT.d; {JAVA}/javac -d OUTPUT.d SOURCE;"
                    f"{JAVA}/jar cf OUTPUT -C OUTPUT.d .",
                ],
                [f"{JAVA}/javac"],
            )
        ],
        is_quick=collector == "G1",
    )


def go(name: str, source: str, has_c: bool) -> Built:
    """A program in Go, with or without cgo."""
    environment = ["env", f"CGO_ENABLED={int(has_c)}", "GO111MODULE=off"]
    command = [*environment, GO, "build", "-o", "OUTPUT", "SOURCE"]
    return Built(name, source, command, [GO, "gcc"] if has_c else [GO])


PROGRAMS = (
    installed(
        name="python",
        what="python3.11: large bytearrays, lists, threads, subprocesses and mmap",
        words=[PYTHON, "SOURCES/work.py"],
        expects="^finished [0-9a-f]+",
        allocates_large=True,
    ),
    installed(
        name="node workers",
        what="node with four worker threads: buffers to 4 MiB, objects, zlib, crypto",
        words=["node", "SOURCES/workers.js"],
        expects="^finished [0-9a-f]+",
        allocates_large=True,
        is_quick=True,
    ),
    *(java(collector) for collector in ("Serial", "Parallel", "G1")),
    installed(
        name="mono",
        what="mono: three threads, arrays to 1 MiB; the collector stops threads by signals",
        words=["/usr/bin/mono", "BIN/churn.exe"],
        expects="^finished [0-9]+",
        is_served=True,
        built=[
            Built(
                "churn.exe", "churn.cs", ["/usr/bin/mcs", "-out:OUTPUT", "SOURCE"], ["/usr/bin/mcs"]
            )
        ],
        is_quick=True,
    ),
    installed(
        name="sbcl",
        what="sbcl: four threads, foreign blocks; the collector stops threads by signals",
        words=["/usr/bin/sbcl", "--script", "SOURCES/churn.lisp"],
        expects="^finished [0-9]+",
        allocates_large=True,
        is_quick=True,
    ),
    installed(
        name="go static",
        what="go without C: goroutines, maps, slices to 1 MiB, collections; statically linked",
        words=["BIN/churn-go"],
        expects="^finished [0-9]+",
        is_served=False,
        version="version",
        command=GO,
        built=[go("churn-go", "churn.go", has_c=False)],
    ),
    Program(
        name="go with C",
        what="go with cgo: goroutines call malloc and free of C",
        words=["BIN/churn-cgo"],
        expects="^finished [0-9]+",
        needs=[GO],
        built=[go("churn-cgo", "churn_c.go", has_c=True)],
        allocates_large=True,
        is_quick=True,
    ),
    Program(
        name="rust",
        what="rust: four threads, vectors that grow to 8 MiB, channels, sorting, strings",
        words=["BIN/churn-rust"],
        expects="^finished [0-9]+",
        version=["rustc", "--version"],
        built=[
            Built(
                "churn-rust",
                "churn.rs",
                ["rustc", "--edition=2021", "-O", "SOURCE", "-o", "OUTPUT"],
                ["rustc"],
            )
        ],
        allocates_large=True,
    ),
    Program(
        name="R",
        what="R: matrices to 8 MiB, sorting, a linear model, data frames, collections",
        words=["/usr/bin/Rscript", "--vanilla", "SOURCES/work.R"],
        expects="^finished",
        version=["/usr/bin/R", "--version"],
        needs=["/usr/bin/Rscript"],
        allocates_large=True,
    ),
    installed(
        name="perl",
        what="perl: strings that grow, hashes, forks",
        words=["/usr/bin/perl", "SOURCES/work.pl"],
        expects="^finished [0-9]+",
        allocates_large=True,
    ),
)
