"""Random memory touches, a swap file, and the kernel's counters: for benches and tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Touches pages of a region at random, three of eight times with a write: every access that misses
# causes one to four events.
TOUCH = """
import mmap, random
random.seed(42)
pages = {mib} * 256
region = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(pages):
    region[page * 4096] = 1
for _ in range({touches}):
    page = random.randrange(pages)
    if random.random() < 0.375:
        region[page * 4096 + 1] = 1
    else:
        region[page * 4096]
"""


def counters(path: Path = Path("/proc/vmstat")) -> dict[str, int]:
    """``/proc/vmstat`` or a copy of it: in pages unless the name indicates otherwise."""
    lines = path.read_text().splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


@contextmanager
def swap_file(folder: Path, mib: int) -> Iterator[Path]:
    """A swap area in a file, used before others; it is given back and removed."""
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, mib << 20)
    path.chmod(0o600)
    subprocess.run(["mkswap", "-q", path], check=True, capture_output=True, timeout=120)
    subprocess.run(["swapon", "-p", "32000", path], check=True, capture_output=True, timeout=120)
    try:
        yield path
    finally:
        subprocess.run(["swapoff", path], check=True, timeout=300)
        path.unlink()
    assert str(path) not in Path("/proc/swaps").read_text()


@contextmanager
def without_readahead() -> Iterator[None]:
    """Disables readahead, so that each read of a swap device is for the faulting page."""
    cluster = Path("/proc/sys/vm/page-cluster")
    before = cluster.read_text()
    cluster.write_text("0")
    try:
        yield
    finally:
        cluster.write_text(before)
