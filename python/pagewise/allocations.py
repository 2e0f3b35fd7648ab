"""Recordings of allocations: what they hold, and replays with other allocators."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

from pagewise import _core
from pagewise.recording import PathLike, Progress

if TYPE_CHECKING:
    from pagewise.types import Allocations, AllocatorOutcome

SCHEMA = "pagewise.allocations/1"
BASELINE = "no-pool"
"""The allocator that all others are compared with."""
OURS = "lazy"
"""The allocator of pagewise's preload library."""


class ReplayRequest(TypedDict):
    """A replay: an allocator, and the memory it has."""

    allocator: str
    budget_pages: NotRequired[int | None]
    hears_pressure: NotRequired[bool]


def is_allocations(path: PathLike) -> bool:
    """Whether a regular file is a recording of allocations; reads nothing from a pipe."""
    return os.path.isfile(path) and _core.is_allocations(os.fspath(path))


def allocations_info(path: PathLike, *, progress: Progress | None = None) -> Allocations:
    """The content of a recording of allocations: blocks from 64 KiB by kind and size, pages
    touched, sums of smaller blocks, time and faults of its processes, losses.

    ``pages_touched``, ``processor_ns``, ``system_ns`` and ``minor_faults`` are None if unknown, as
    for a program that was killed. ``is_cut`` says that the recording stops before its end. Raises
    UnreadableInput.
    """
    return _core.allocations_info(os.fspath(path), progress=progress)


def replay_allocations(
    path: PathLike, requests: Sequence[ReplayRequest], *, progress: Progress | None = None
) -> list[AllocatorOutcome]:
    """Replays a recording once per request, on all cores.

    A request names an ``allocator`` (``pagewise list allocators``) and may limit the memory
    (``budget_pages``, pages of 4 KiB). With ``hears_pressure`` an allocator inside the program
    learns of memory pressure in time to give back memory before a kill.

    Raises UnreadableInput, UsageError.
    """
    text = json.dumps([dict(request) for request in requests])
    return _core.replay_allocations(os.fspath(path), text, progress=progress)
