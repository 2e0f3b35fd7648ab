"""A swap file, only while programs that need swap run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from programs.places import BUILD

SIZE_BYTES = 128 << 20
LIMIT_S = 120


@contextmanager
def swap() -> Iterator[None]:
    """Adds a swap file in the build folder to the machine's swap."""
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
