"""Recorded pages of zeros agree with the kernel's own counters (Linux 6.12 and newer).

Needs root, a memory cgroup, a swap file, BPF and an agent built with it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import MIB, Group, entering
from touches import counters, swap_file

import pagewise as pw
from pagewise import _core

ZSWAP = Path("/sys/module/zswap/parameters/enabled")
ZERO = 128
LIMIT_MIB = 48

# Writes pages of zeros and half as many of noise, more than the group holds; then reads them again.
PROGRAM = """
import mmap, os
def region(mib):
    return mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
zeros, noise = region(100), region(50)
for page in range(0, len(zeros), 4096):
    zeros[page] = 0
for block in range(0, len(noise), 1 << 20):
    noise[block:block + (1 << 20)] = os.urandom(1 << 20)
for held in (zeros, noise, zeros):
    sum(held[page] for page in range(0, len(held), 4096))
"""

REFUSAL = refusal("swapon", "record --swap", "record --faults")
if REFUSAL is None and "swpout_zero" not in counters():
    REFUSAL = "needs Linux 6.12, which skips pages of zeros"
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A memory cgroup with a swap file, both removed afterwards; no other program swaps."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("another swap area is in use: the kernel's counters would count its pages")
    with swap_file(tmp_path, 256), Group(LIMIT_MIB * MIB) as group:
        yield group.folder


@contextmanager
def zswap(switch: str) -> Iterator[None]:
    """With zswap on (Y) or off (N)."""
    before = ZSWAP.read_text() if ZSWAP.exists() else "N"
    if before.strip() != switch:
        try:
            ZSWAP.write_text(switch)
        except OSError as error:
            pytest.skip(f"zswap cannot be switched to {switch}: {error}")
    try:
        yield
    finally:
        if before.strip() != switch:
            ZSWAP.write_text(before)


def recorded(group: Path, output: Path, *options: str) -> tuple[pw.Trace, dict[str, int]]:
    """Records the program in the group; returns the trace, and the growth of kernel counters."""
    before = counters()
    words = [AGENT, "record", "-o", output, *options, "--", *entering(group)]
    finished = subprocess.run(
        [*words, sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    after = counters()
    assert finished.returncode == 0, finished.stderr
    pw.import_trace(output, trace := output.with_suffix(".parquet"))
    return pw.read(trace), {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize("scope", ["machine", "cgroup"])
def test_pages_of_zeros_agree_with_the_kernel(group: Path, tmp_path: Path, scope: str) -> None:
    options = ["--cgroup", group.name] if scope == "cgroup" else []
    with zswap("N"):
        trace, grown = recorded(group, tmp_path / "zeros.pgr", *options)
    info = trace.info()
    zeros, kinds = info["zero_pages"], dict(info["kinds"])
    assert zeros["outs"] > 10_000 and kinds["device_write"] > 1_000
    assert kinds["swap_out"] - zeros["outs"] == pytest.approx(kinds["device_write"], rel=0.03)
    # The kernel also counts pages of readahead that never fault.
    assert 0 < zeros["ins"] <= 1.03 * grown["swpin_zero"]
    # The counters and a recording of the machine include other programs.
    if scope == "machine":
        assert zeros["outs"] == pytest.approx(grown["swpout_zero"], rel=0.03)
        assert kinds["device_write"] == pytest.approx(grown["pswpout"], rel=0.03)
        assert zeros["kernel_outs"] == pytest.approx(grown["swpout_zero"], rel=0.01)
    assert info["header"]["losses"] == []

    flags, kind = trace.column("flags"), trace.column("kind")
    is_out = kind == _core.kinds().index("swap_out")
    assert ((flags & ZERO != 0) & is_out).sum() == zeros["outs"]

    alone = pw.simulate(trace, architecture="flash", fast_tier=0, fast="4/5us", slow="90/40us")
    assert alone["slow"]["writes"] == pytest.approx(kinds["device_write"], rel=0.03)
    assert alone["zero_pages"] == {"outs": zeros["outs"], "ins": zeros["ins"]}


def test_with_zswap_the_recording_says_that_zeros_are_not_marked(
    group: Path, tmp_path: Path
) -> None:
    with zswap("Y"):
        trace, grown = recorded(group, tmp_path / "zswap.pgr")
    info = trace.info()
    assert grown["swpout_zero"] > 10_000
    assert "zero_pages" not in info
    (why,) = (what for what in info["absent"] if what.startswith("pages of zeros"))
    assert "zswap is on" in why
    assert not (trace.column("flags") & ZERO).any()
    alone = pw.simulate(trace, architecture="flash", fast_tier=0, fast="4/5us", slow="90/40us")
    assert any("does not mark them" in note for note in alone["notes"])
