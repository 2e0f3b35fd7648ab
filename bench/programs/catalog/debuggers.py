"""Debuggers, tracers and sanitizers, started directly and by children."""

from __future__ import annotations

from programs.building import Built, c
from programs.catalog.installed import installed
from programs.program import Program

ADDRESSES = (r"0x[0-9a-f]+", "ADDRESS")
PROCESSES = (r"==[0-9]+==", "==PROCESS==")
WORK = c("blocks", "-fno-builtin")
FAULTY = Built(
    "faulty", "faulty.c", ["gcc", "-O0", "-g", "-fno-builtin", "SOURCE", "-o", "OUTPUT"], ["gcc"]
)
REPORT = (
    PROCESSES,
    ADDRESSES,
    (r"\+ADDRESS\)( \(BuildId: [0-9a-f]+\))?", "+ADDRESS)"),
    (r"\(.*\+ADDRESS\)", "(FILE+ADDRESS)"),
    (r"T[0-9]+", "THREAD"),
    (r"(pid|tid)=[0-9]+", r"\1=NUMBER"),
)
"""Normalises a sanitizer's report: process numbers, addresses, library files, thread numbers."""
REPORTS = {
    "address": REPORT,
    # Either of the two accesses of a race may come first, and its thread may have ended.
    "thread": (
        *REPORT,
        (r"\b(Read|Write|read|write) of size", "Access of size"),
        (r", (running|finished)\) created", ", STATE) created"),
    ),
}
GDB_WRITES_REGISTERS = [
    *("/usr/bin/gdb", "-q", "-nx", "-batch"),
    *("-ex", "starti", "-ex", "set $xmm0.v4_int32[0] = 1", "/bin/true"),
]
"""gdb 13 cannot write the registers of processors with AMX, and so calls no function there."""
SIGNAL = ((r"si_pid=[0-9]+", "si_pid=NUMBER"), (r", si_utime=.*}", "}"))
SHADOW = r"^(=>| )+ADDRESS: |0x[0-9a-f]+: [0-9a-f]{2}[ \[]|thread_local|is located"


FAULTS = (
    ("address", "use after free", ("faulty", "free"), "heap-use-after-free", 1),
    ("address", "heap overflow", ("faulty", "over"), "heap-buffer-overflow", 1),
    ("thread", "data race", ("racing",), "data race", 66),
)
"""Faulty programs by the sanitizer that reports them: kind, name, words, report, exit status."""
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "exitcode=66"}
QUICK = (("gcc", "address", "sh"), ("clang", "thread", "sh"))
"""The rows with a sanitizer that tests/live runs: compiler, kind, start."""


def with_sanitizer(source: str, compiler: str, kind: str) -> Built:
    """A program built with a sanitizer."""
    # clang's runtime is linked statically, gcc's is a library of its own.
    return Built(
        f"{source}-{kind[0]}san-{compiler}",
        f"{source}.c",
        [
            compiler,
            "-O1",
            "-g",
            "-fno-builtin",
            "-fno-omit-frame-pointer",
            f"-fsanitize={kind}",
            "-pthread",
            "SOURCE",
            "-o",
            "OUTPUT",
        ],
        [compiler],
    )


def fault(
    compiler: str, kind: str, name: str, words: tuple[str, ...], report: str, status: int
) -> Program:
    """A faulty program built with a sanitizer, started directly."""
    built = with_sanitizer(words[0], compiler, kind)
    return installed(
        name=f"{compiler} {kind} sanitizer, {name}",
        what=f"a program with one fault, {compiler} -fsanitize={kind}; started: directly",
        words=[f"BIN/{built.name}", *words[1:]],
        expects=report,
        command=compiler,
        built=[built],
        variables=OPTIONS,
        substitutions=REPORTS[kind],
        dropped=SHADOW,
        status=status,
        allocates_large=True,
        is_served=False,
        is_quick=True,
    )


def sanitized(compiler: str, kind: str, start: str) -> Program:
    """A correct program built with a sanitizer, and as children also two faulty ones."""
    name = f"{kind[0]}san-{compiler}"
    built = [with_sanitizer(source, compiler, kind) for source in ("blocks", "faulty", "racing")]
    tried = "a correct program" if start == "directly" else "a correct and two faulty programs"
    report = {"address": "heap-use-after-free", "thread": "data race"}[kind]
    script = {"directly": "sanitized.sh", "sh": "sanitized.sh", "make": "sanitized.mk"}[start]
    direct = ["BIN/blocks-" + name]
    children = ["sh", f"SOURCES/{script}", f"BIN/%-{name}"]
    made = ["make", "-s", "-k", "-f", f"SOURCES/{script}", f"PROGRAMS=BIN/%-{name}"]
    return installed(
        name=f"{compiler} {kind} sanitizer, {start}",
        what=f"{tried}, {compiler} -fsanitize={kind}; started: {start}",
        words={"directly": direct, "sh": children, "make": made}[start],
        expects="^finished" if start == "directly" else report,
        command=compiler,
        built=built,
        variables=OPTIONS,
        substitutions=REPORTS[kind],
        dropped=SHADOW,
        status=0,
        is_quick=(compiler, kind, start) in QUICK,
    )


PROGRAMS = (
    *(
        sanitized(compiler, kind, start)
        for compiler in ("gcc", "clang")
        for kind in ("address", "thread")
        for start in ("directly", "sh", "make")
    ),
    *(fault(compiler, *row) for compiler in ("gcc", "clang") for row in FAULTS),
    installed(
        name="valgrind",
        what="valgrind memcheck of a correct program and of one that uses freed memory and leaks",
        words=[
            "sh",
            "-c",
            "/usr/bin/valgrind -q BIN/blocks 3;/usr/bin/valgrind --leak-check=full BIN/faulty free",
        ],
        expects="Invalid read of size 1",
        is_quick=True,
        command="/usr/bin/valgrind",
        built=[WORK, FAULTY],
        substitutions=(PROCESSES, ADDRESSES),
    ),
    installed(
        name="gdb",
        what="gdb -batch: breakpoint, backtrace, call of malloc in the program, watchpoint, end",
        words=["/usr/bin/gdb", "-q", "-nx", "-batch", "-x", "SOURCES/session.gdb", "BIN/blocks"],
        expects="exited normally",
        probe=GDB_WRITES_REGISTERS,
        built=[WORK],
        substitutions=(
            ADDRESSES,
            (r"LWP [0-9]+", "LWP NUMBER"),
            (r"process [0-9]+", "process NUMBER"),
        ),
        dropped=r"^\[(New Thread|New process|Thread) ",
        variables={"DEBUGINFOD_URLS": ""},
        is_quick=True,
    ),
    installed(
        name="strace",
        what="strace -f of execve, write and exit_group in a program and its child",
        words=[
            "sh",
            "-c",
            "/usr/bin/strace -f -q -e trace=execve,write,exit_group -e signal=all -o calls"
            " sh -c 'BIN/blocks 3; exit 5'",
        ],
        expects="exit_group\\(5\\)",
        status=5,
        command="/usr/bin/strace",
        built=[WORK],
        substitutions=(
            (r"^[0-9]+ +", "PROCESS "),
            (r"[0-9]+ vars", "VARIABLES"),
            ADDRESSES,
            *SIGNAL,
        ),
        # The library's thread writes to its own descriptors and exits. Its variables change `vars`.
        dropped=r"^[0-9]+ +(write\((0|[3-9])|<... write resumed|\+\+\+ exited)",
        text_results=["calls"],
        is_quick=True,
    ),
)
