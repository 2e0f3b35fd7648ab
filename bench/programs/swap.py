"""A swap file while programs run that are to have swap, and not a moment longer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs.places import BUILD

SIZE_BYTES = 512 << 20
LIMIT_S = 120


def has_swap() -> bool:
    """Whether the machine has any now."""
    return len(Path("/proc/swaps").read_text().splitlines()) > 1


@contextmanager
def swap() -> Iterator[None]:
    """A swap file in the build folder; none where the machine has swap already."""
    if has_swap():
        yield
        return
    file = BUILD / "swap"
    with file.open("wb") as opened:
        file.chmod(0o600)
        for _ in range(SIZE_BYTES >> 20):
            opened.write(bytes(1 << 20))
    try:
        subprocess.run(["/sbin/mkswap", "-q", file], check=True, timeout=LIMIT_S)
        subprocess.run(["/sbin/swapon", file], check=True, timeout=LIMIT_S)
        try:
            yield
        finally:
            subprocess.run(["/sbin/swapoff", file], check=True, timeout=LIMIT_S)
    finally:
        file.unlink()
