"""Languages that bring their own memory management."""

from __future__ import annotations

from programs.building import Built
from programs.program import Program

JAVA = "/usr/lib/jvm/java-17-openjdk-amd64/bin"
PYTHON = "/usr/bin/python3.11"


def java(collector: str) -> Program:
    """The same work under one of the collectors."""
    return Program(
        name=f"java {collector}",
        what=f"-XX:+Use{collector}GC: three threads, arrays to 1 MiB, direct buffers, a child",
        words=[
            *(f"{JAVA}/java", f"-XX:+Use{collector}GC", "-Xms96m", "-Xmx96m", "-XX:-UsePerfData"),
            *("-cp", "BIN/churn.jar", "Churn"),
        ],
        expects="^finished [0-9]+",
        version=[f"{JAVA}/java", "-version"],
        needs=[f"{JAVA}/java"],
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
    )


PROGRAMS = (
    Program(
        name="python",
        what="python3.11: large bytearrays, lists, threads, subprocesses and mmap",
        words=[PYTHON, "SOURCES/work.py"],
        expects="^finished [0-9a-f]+",
        version=[PYTHON, "--version"],
        needs=[PYTHON],
        allocates_large=True,
    ),
    Program(
        name="node workers",
        what="node with four worker threads: buffers to 4 MiB, objects, zlib, crypto",
        words=["node", "SOURCES/workers.js"],
        expects="^finished [0-9a-f]+",
        version=["node", "--version"],
        needs=["node"],
        allocates_large=True,
    ),
    *(java(collector) for collector in ("Serial", "Parallel", "G1")),
    Program(
        name="mono",
        what="mono: three threads, arrays to 1 MiB; the collector stops threads by signals",
        words=["/usr/bin/mono", "BIN/churn.exe"],
        expects="^finished [0-9]+",
        version=["/usr/bin/mono", "--version"],
        needs=["/usr/bin/mono"],
        built=[
            Built(
                "churn.exe", "churn.cs", ["/usr/bin/mcs", "-out:OUTPUT", "SOURCE"], ["/usr/bin/mcs"]
            )
        ],
    ),
    Program(
        name="sbcl",
        what="sbcl: four threads, foreign blocks; the collector stops threads by signals",
        words=["/usr/bin/sbcl", "--script", "SOURCES/churn.lisp"],
        expects="^finished [0-9]+",
        version=["/usr/bin/sbcl", "--version"],
        needs=["/usr/bin/sbcl"],
        allocates_large=True,
    ),
    Program(
        name="go static",
        what="go without C: goroutines, maps, slices to 1 MiB, collections; statically linked",
        words=["BIN/churn-go"],
        expects="^finished [0-9]+",
        version=["/usr/lib/go-1.19/bin/go", "version"],
        needs=["/usr/lib/go-1.19/bin/go"],
        built=[
            Built(
                "churn-go",
                "churn.go",
                [
                    "env",
                    "CGO_ENABLED=0",
                    "GO111MODULE=off",
                    "/usr/lib/go-1.19/bin/go",
                    "build",
                    "-o",
                    "OUTPUT",
                    "SOURCE",
                ],
                ["/usr/lib/go-1.19/bin/go"],
            )
        ],
    ),
    Program(
        name="go with C",
        what="the same in a program that calls malloc and free of C from goroutines",
        words=["BIN/churn-cgo"],
        expects="^finished [0-9]+",
        needs=["/usr/lib/go-1.19/bin/go"],
        built=[
            Built(
                "churn-cgo",
                "churn_c.go",
                [
                    "env",
                    "CGO_ENABLED=1",
                    "GO111MODULE=off",
                    "/usr/lib/go-1.19/bin/go",
                    "build",
                    "-o",
                    "OUTPUT",
                    "SOURCE",
                ],
                ["/usr/lib/go-1.19/bin/go", "gcc"],
            )
        ],
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
    Program(
        name="perl",
        what="perl: strings that grow, hashes, forks",
        words=["/usr/bin/perl", "SOURCES/work.pl"],
        expects="^finished [0-9]+",
        version=["/usr/bin/perl", "--version"],
        needs=["/usr/bin/perl"],
        allocates_large=True,
    ),
)
