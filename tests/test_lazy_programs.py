"""Whole programs have the same outcome with the preload library: the quick rows of bench-programs.

Needs root and control groups of version 1. A program that is not installed is skipped, with the
reason; tools/bench_programs_setup.sh installs all of them.
"""

import subprocess
from pathlib import Path

import pytest
from programs.building import build
from programs.catalog import PROGRAMS
from programs.group import absent
from programs.modes import MODES, OFF, STOCK
from programs.outcome import difference
from programs.places import AGENT, LIBRARY
from programs.program import Program
from programs.running import Ran, run
from programs.selftest import selftest
from programs.summary import is_held, refusal

REPEATS = 3
PEAK_PAIRS = 5
QUICK = {name: program for name, program in PROGRAMS.items() if program.is_quick}
LONG = ("stop the world", "node workers")


def lacking() -> str | None:
    if reason := absent():
        return reason
    return None if AGENT.exists() and LIBRARY.exists() else "needs the preload library: make build"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that other users can enter."""
    folder = tmp_path_factory.mktemp("programs")
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o755)
    return folder


@pytest.mark.long
def test_a_broken_library_is_reported(place: Path) -> None:
    selftest(place)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in QUICK],
)
def test_a_program_has_the_same_outcome_with_the_library(name: str, place: Path) -> None:
    program = QUICK[name]
    if reason := program.absent():
        pytest.skip(reason)
    try:
        for built in program.built:
            build(built)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{error.cmd[0]} ends with status {error.returncode}")
    stock = run(program, MODES[STOCK], place)
    assert refusal(program, stock.end, stock.outcome) is None
    for mode in list(MODES)[1:]:
        must_be_served = False if mode == OFF else program.must_be_served
        for _ in range(REPEATS):
            ours = run(program, MODES[mode], place)
            # A thread looks at the program meanwhile. On a busy machine it may look too rarely.
            if ours.served > 0 or not must_be_served:
                break
        if must_be_served is not None:
            assert (ours.served > 0) is must_be_served, f"{mode}: loaded: {ours.is_loaded}"
        if ours.outcome != stock.outcome:
            differences = same_as_any_stock(program, ours, stock, place)
            assert differences is None, f"{mode}:\n{differences}"
        if not is_held(stock.peak_bytes, ours.peak_bytes):
            peaks = peaks_in_turn(program, mode, place)
            held = sum(is_held(stock_bytes, bytes) for stock_bytes, bytes in peaks)
            assert held > PEAK_PAIRS // 2, f"{mode}: bytes without the library and with it: {peaks}"


def peaks_in_turn(program: Program, mode: str, place: Path) -> list[tuple[int, int]]:
    """Peaks in bytes without the library and with it, in pairs of runs.

    The peak of threads depends on how many run at once, which changes with the load of the machine.
    """
    return [
        (
            run(program, MODES[STOCK], place).peak_bytes,
            run(program, MODES[mode], place).peak_bytes,
        )
        for _ in range(PEAK_PAIRS)
    ]


def same_as_any_stock(program: Program, ours: Ran, stock: Ran, place: Path) -> str | None:
    """None if another stock run has the same outcome, else the difference."""
    for _ in range(REPEATS):
        if run(program, MODES[STOCK], place).outcome == ours.outcome:
            return None
    return difference(stock.outcome, ours.outcome)
