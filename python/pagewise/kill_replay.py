"""Replays recordings of memory and processes against kill policies."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pagewise import _core
from pagewise.errors import NothingRecorded, UsageError
from pagewise.recording import PathLike, Progress
from pagewise.units import parse_time

if TYPE_CHECKING:
    from pagewise.types import RecordedKill, ReplayKills

KILLS = ("serial", "batch")


def replay_kills(
    recording: PathLike,
    *,
    policy: str | Sequence[str],
    options: Mapping[str, Mapping[str, object]] | None = None,
    freeze_share: float = 0.5,
    freeze_time: str | float = "1s",
    window: str | float = "10s",
    kills: str = "serial",
    progress: Progress | None = None,
) -> ReplayKills:
    """Which processes kill policies would have killed in a recording, when and why, and why not.

    ``recording``: from ``pagewise-agent record --kills``. ``policy``: names from ``pagewise list
    kill-policies``; ``options``: {policy: {option: value}}. A freeze is a time of at least
    ``freeze_time`` (seconds, or text such as ``500ms``) in which every task stalled for memory for
    at least ``freeze_share`` of it (0 to 1), or a kill by the kernel. A decision is a false alarm
    if the recording has neither a freeze nor a kill within ``window`` after it. ``kills``: as in
    the settings of ``killd``, ``serial`` or ``batch``.

    Raises UnreadableInput, UsageError, NothingRecorded.
    """
    names = policy.split(",") if isinstance(policy, str) else list(policy)
    given = dict(options or {})
    if unknown := [name for name in given if name not in names]:
        raise UsageError(f"options for {', '.join(unknown)}, which is not replayed")
    if not 0 < freeze_share <= 1:
        raise UsageError(
            f"--freeze-share {freeze_share:g}: not a share of time", hint="above 0, at most 1"
        )
    if kills not in KILLS:
        raise UsageError(f"--kills {kills}: unknown", hint=f"one of {', '.join(KILLS)}")
    freeze_ns, window_ns = parse_time(freeze_time), parse_time(window)
    request = {
        "policies": [
            {
                "name": name,
                "options": [(key, str(value)) for key, value in given.get(name, {}).items()],
            }
            for name in names
        ],
        "freeze_share": freeze_share,
        "freeze_ns": freeze_ns,
        "window_ns": window_ns,
        "is_batch": kills == "batch",
    }
    path = os.fspath(recording)
    result = _core.replay_kills(path, json.dumps(request), progress=progress)
    if not result["moments"]:
        raise NothingRecorded(f"{path}: has no moments: the recorder was stopped at once")
    result["recording"] = path  # which need not be UTF-8
    return result


def killer_of(kill: RecordedKill) -> str | None:
    """Who killed; None if the recording, or the pagewise that replayed it, does not say."""
    if kill["is_of_kernel"]:
        return "the kernel (out of memory)"
    number = kill.get("killer")
    return None if number is None else process_named(kill.get("killer_name"), number)


def process_named(name: str | None, number: int) -> str:
    """A process by its name, which can be unknown, and its number."""
    return f"{name} ({number})" if name else f"process {number}"
