"""Killed recorders and storms of events: a short form of bench/recorder_kills.py.

Needs root, BPF, a C compiler, a memory cgroup of version 1 and, for text events, tracefs.
"""

import random
import shutil
from pathlib import Path

import pytest
from agent import refusal
from recorder_kills import (
    MODES,
    killed,
    killed_allocations,
    other_storm,
    swap_storm,
)
from recorder_work import MEMORY
from test_record_text import TEXT_REFUSAL

REFUSAL = refusal("swapon", "record --swap", "record --kills")
if REFUSAL is None and not (MEMORY / "memory.limit_in_bytes").exists():
    REFUSAL = "needs a memory cgroup of version 1"
if REFUSAL is None and shutil.which("cc") is None:
    REFUSAL = "no C compiler"
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))

KILLS = 2
STORM_S = 3
SHORT = ("record", "record --backend tracefs")
"""Modes that `make test` tries; `make test-all` tries all of them."""


@pytest.fixture
def alone() -> None:
    """No other program swaps: the kernel's counters cover the whole machine."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("another swap area is in use: the kernel's counters would count its pages")


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=() if mode in SHORT else pytest.mark.long)
        for mode in (*MODES, "record --allocations")
    ],
)
def test_a_killed_recorder_leaves_a_readable_file(alone: None, mode: str, tmp_path: Path) -> None:
    if "tracefs" in mode and TEXT_REFUSAL is not None:
        pytest.skip(TEXT_REFUSAL)
    draw = random.Random(mode)
    if mode in MODES:
        found = killed(mode, KILLS, draw, tmp_path)
    else:
        found = killed_allocations(KILLS, draw, tmp_path)
    assert found.recorders == KILLS
    assert (found.wrong, found.left) == ([], [])
    assert (found.without_file, found.unreadable, found.torn_bytes) == (0, 0, 0)
    assert found.recorded > 0


def test_a_swap_storm_agrees_with_the_kernels_counters(alone: None, tmp_path: Path) -> None:
    found = swap_storm(STORM_S, tmp_path)
    assert found.report["lost"] == 0
    for name, recorded, expected in found.rows:
        assert expected > 1000
        # Other programs may swap until the recorder ends.
        assert recorded == pytest.approx(expected, rel=0.02), name


def test_a_storm_of_processes_and_files_is_counted_exactly(tmp_path: Path) -> None:
    found = other_storm(STORM_S, tmp_path)
    assert found.report["lost"] == 0
    for name, recorded, expected in found.rows:
        assert expected > 10, name
        if name == "file_added":
            # Readahead and the executables of the group's programs add pages.
            assert recorded >= expected - 256
        else:
            # The programs are stopped between an event and its count.
            assert abs(recorded - expected) <= 4, name
