"""Removes operations of a script as long as it still fails (delta debugging)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from generate import Script

LONG_ENOUGH_S = 120


def minimise(script: Script, fails: Callable[[Script], bool]) -> Script:
    """The shortest failing script that removing operations finds within two minutes."""
    begin = time.monotonic()
    kept: Sequence[str] = script.operations
    size = max(len(kept) // 2, 1)
    while True:
        start, is_shorter = 0, False
        while start < len(kept) and time.monotonic() - begin < LONG_ENOUGH_S:
            fewer = [*kept[:start], *kept[start + size :]]
            if fewer and fails(replace(script, operations=fewer)):
                kept, is_shorter = fewer, True
            else:
                start += size
        if size == 1 and not is_shorter:
            return replace(script, operations=kept)
        size = max(size // 2, 1)
