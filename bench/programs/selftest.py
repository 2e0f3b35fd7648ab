"""Proves that the comparison can fail: it must report every library that is broken on purpose."""

from __future__ import annotations

from pathlib import Path

from programs.building import Built, c
from programs.modes import MODES, STOCK, Mode
from programs.program import Program
from programs.running import Ran, run
from programs.summary import is_held

BROKEN: Built = c("libbroken.so", "-shared", "-fPIC", source="broken.c")
DIFFERENT = ("output", "status", "errors", "file", "crash", "hang", "leave")
"""Ways to be broken that change the outcome."""
HONEST = Program(
    name="honest",
    what="prints a line, writes a file, works for a quarter of a second",
    words=["BIN/honest"],
    expects="^worked$",
    built=[c("honest"), BROKEN],
    results=["result"],
    limit_s=5,
)


class NotReported(Exception):
    """The comparison missed a broken library."""


def selftest(place: Path) -> None:
    """Raises NotReported with the name of what was missed."""
    stock = run(HONEST, MODES[STOCK], place)
    for way in DIFFERENT:
        if broken(way, place).outcome == stock.outcome:
            raise NotReported(way)
    if is_held(stock.peak_bytes, broken("memory", place).peak_bytes):
        raise NotReported("memory")
    if broken("cpu", place).cpu_s <= HONEST.cpu_ratio_most * stock.cpu_s:
        raise NotReported("cpu")
    nothing = broken("nothing", place)
    if nothing.outcome != stock.outcome or not is_held(stock.peak_bytes, nothing.peak_bytes):
        raise NotReported(f"a library that does nothing differs: {nothing.outcome}")


def broken(way: str, place: Path) -> Ran:
    """A run of the honest program with the broken library."""
    prefix = ("/usr/bin/env", f"LD_PRELOAD={BROKEN.path}", f"BROKEN={way}")
    return run(HONEST, Mode(way, "broken on purpose", prefix), place)
