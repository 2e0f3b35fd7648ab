"""The programs of bench/kernel.py: how each is built, its command, and which runs apply to it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import kernel_browsers as browsers

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "bench" / "lazy" / "programs"
JAVA_SOURCE = ROOT / "bench" / "programs" / "sources" / "Churn.java"
MUSL_OPTIONS = (
    "-static",
    "-idirafter",
    "/usr/include",
    "-idirafter",
    "/usr/include/x86_64-linux-gnu",
)
"""musl-gcc has no headers of the kernel."""
BUILD_TIMEOUT_S = 600
FIXED = (128 << 10, 64 << 10)
"""Fixed thresholds of malloc in bytes: glibc's first one, and bionic's of S3."""


@dataclass(frozen=True)
class Program:
    """A program to measure.

    ``command`` has the fields {built}, the file or folder that ``source`` was compiled to, {blocks}
    and {idle}. A program ``on_machine`` uses this machine's files, which the guest sees read-only.
    """

    command: str
    source: Path | None = None
    compiler: str = "cc"
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Programs that this machine must have."""
    says_figures: bool = False
    """Whether the program measures its work and idle memory; else `measured` counts a run."""
    thresholds: tuple[int | None, ...] = FIXED
    """Thresholds of malloc to run with, one for an allocator that does not heed glibc's; None:
    glibc's own, which grows."""
    mthp: tuple[bool, ...] = (False, True)
    rounds: int = 1
    library_serves: bool = True
    on_machine: bool = False
    is_browser: bool = False
    once: str = ""
    """The command of the run that fills the guest's cache; if empty, ``command``."""

    def missing(self) -> list[str]:
        """What this machine lacks to run it."""
        return [name for name in (self.compiler, *self.needs) if shutil.which(name) is None]

    def build(self, name: str, folder: Path) -> Path | None:
        """Compiles the source, if there is one, in ``folder``."""
        if self.source is None:
            return None
        built = folder / f"bench-{name}"
        if self.compiler == "javac":
            words = ["javac", "-d", built, self.source]
        else:
            words = [self.compiler, "-std=gnu17", "-O2", "-o", built, self.source, *self.options]
            words += ["-lm", "-pthread"]
        subprocess.run(words, check=True, timeout=BUILD_TIMEOUT_S)
        return built


def c_program(source: str, arguments: str, *options: str, **fields: bool) -> Program:
    """A program of bench/lazy, which runs from the guest's own memory."""
    return Program(f"/{{built}} {arguments}", SOURCES / f"{source}.c", "cc", options, **fields)


def swiped(words: str, *thresholds: int | None) -> Program:
    """WebKitGTK, which is swiped."""
    needs = ("/usr/bin/python3", "Xvfb", "convert-im6.q16")
    return Program(
        words,
        needs=needs,
        thresholds=thresholds,
        mthp=(False,),
        on_machine=True,
        is_browser=True,
        once=browsers.SWIPED_ONCE,
    )


def started(words: str, program: str) -> Program:
    """A browser with its own allocator, which shows a page and ends."""
    needs = (program, "Xvfb", "convert-im6.q16")
    return Program(
        words,
        needs=needs,
        thresholds=(None,),
        mthp=(False,),
        rounds=3,
        library_serves=False,
        on_machine=True,
        is_browser=True,
    )


CHURN = "{blocks} {idle}"
PROGRAMS = {
    "churn": c_program("churn", f"malloc {CHURN}", says_figures=True),
    "churn-calloc": c_program("churn", f"calloc {CHURN}", says_figures=True),
    # The preload library cannot serve a static program.
    "churn-static": c_program(
        "churn", f"malloc {CHURN}", "-static", says_figures=True, library_serves=False
    ),
    "musl": Program(
        f"/{{built}} malloc {CHURN}",
        SOURCES / "churn.c",
        "musl-gcc",
        MUSL_OPTIONS,
        says_figures=True,
        thresholds=FIXED[:1],
        library_serves=False,
    ),
    "small": c_program("small", "replace 1 400000"),
    "exchange": c_program("exchange", "turns 65536 1048576 16 100 1"),
    # The burst takes most of the guest's memory, so the pool must give back what it holds.
    "pressure": c_program("pressure", "64 800"),
    "numpy": Program(
        f"/usr/bin/python3 -B {SOURCES}/temporaries.py 40 {{idle}}",
        needs=("/usr/bin/python3",),
        says_figures=True,
        on_machine=True,
    ),
    "java": Program(
        "java -XX:+UseSerialGC -Xms96m -Xmx96m -XX:-UsePerfData -XX:TieredStopAtLevel=1"
        " -cp {built} Churn",
        JAVA_SOURCE,
        "javac",
        needs=("java",),
        thresholds=FIXED[:1],
        on_machine=True,
    ),
    "redis": Program(
        f"sh {SOURCES}/redis_values.sh 200",
        needs=("redis-server", "redis-benchmark"),
        thresholds=FIXED[:1],
        on_machine=True,
    ),
    "webkit": swiped(browsers.SWIPED, *FIXED, None),
    # With the C library's malloc for all of WebKit.
    "webkit-malloc": swiped(f"env Malloc=1 {browsers.SWIPED}", FIXED[0]),
    "chromium": started(browsers.CHROMIUM, "chromium-headless-shell"),
    "firefox": started(browsers.FIREFOX, "firefox-esr"),
}
