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
GDB_WRITES_REGISTERS = [
    *("/usr/bin/gdb", "-q", "-nx", "-batch"),
    *("-ex", "starti", "-ex", "set $xmm0.v4_int32[0] = 1", "/bin/true"),
]
"""gdb 13 cannot write the registers of processors with AMX, and so calls no function there."""
SIGNAL = ((r"si_pid=[0-9]+", "si_pid=NUMBER"), (r", si_utime=.*}", "}"))
SHADOW = r"^(=>| )+ADDRESS: |0x[0-9a-f]+: [0-9a-f]{2}[ \[]|thread_local|is located"


def sanitized(compiler: str, kind: str, start: str) -> Program:
    """A correct and two faulty programs built with a sanitizer, started in one of three ways."""
    name = f"{kind[0]}san-{compiler}"
    option = f"-fsanitize={kind}"
    # clang's runtime is linked statically, gcc's is a library of its own.
    built = [
        Built(
            f"{source}-{name}",
            f"{source}.c",
            [
                compiler,
                "-O1",
                "-g",
                "-fno-builtin",
                "-fno-omit-frame-pointer",
                option,
                "-pthread",
                "SOURCE",
                "-o",
                "OUTPUT",
            ],
            [compiler],
        )
        for source in ("blocks", "faulty", "racing")
    ]
    script = {"directly": "sanitized.sh", "sh": "sanitized.sh", "make": "sanitized.mk"}[start]
    direct = ["BIN/blocks-" + name]
    children = ["sh", f"SOURCES/{script}", f"BIN/%-{name}"]
    made = ["make", "-s", "-k", "-f", f"SOURCES/{script}", f"PROGRAMS=BIN/%-{name}"]
    return installed(
        name=f"{compiler} {kind} sanitizer, {start}",
        what=f"a correct and two faulty programs, {compiler} {option}; started: {start}",
        words={"directly": direct, "sh": children, "make": made}[start],
        expects={"address": "heap-use-after-free|^finished", "thread": "data race|^finished"}[kind],
        command=compiler,
        built=built,
        variables={"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "exitcode=66"},
        substitutions=REPORT,
        dropped=SHADOW,
        status=0,
        is_quick=compiler == "gcc" and kind == "address" and start == "sh",
    )


PROGRAMS = (
    *(
        sanitized(compiler, kind, start)
        for compiler in ("gcc", "clang")
        for kind in ("address", "thread")
        for start in ("directly", "sh", "make")
    ),
    installed(
        name="valgrind",
        what="valgrind memcheck of a correct program and of one that uses freed memory and leaks",
        words=[
            "sh",
            "-c",
            "/usr/bin/valgrind -q BIN/blocks 3;/usr/bin/valgrind --leak-check=full BIN/faulty free",
        ],
        expects="Invalid read of size 1",
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
