"""Markers of Android's system_server for the launches of a run of the launch lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def marks_of(visits: list[dict[str, Any]], began_ns: int) -> Iterator[tuple[int, str]]:
    """The time in nanoseconds and the text of each marker; the run began at ``began_ns``."""
    for visit in visits:
        begin = began_ns + round(visit["start_s"] * 1e9)
        end = begin + round(visit["launch_s"] * 1e9)
        number = visit["visit"] + 1
        slice_of = f"launchingActivity#{number}"
        kind = "cold" if visit["cold"] else "hot"
        yield begin, f"S|1|{slice_of}|{number}\n"
        yield end, f"F|1|{slice_of}|{number}\n"
        yield end, f"I|1|{slice_of}:completed-{kind}:{visit['app']}\n"
