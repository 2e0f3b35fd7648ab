"""Recordings of memory and processes replayed against kill policies."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from pagewise import _core
from pagewise.errors import NothingRecorded, UsageError
from pagewise.recording import PathLike, Progress
from pagewise.types import ReplayKills
from pagewise.units import parse_time


def replay_kills(
    recording: PathLike,
    *,
    policy: str | Sequence[str],
    options: Mapping[str, Mapping[str, object]] | None = None,
    freeze_share: float = 0.5,
    freeze_time: str | float = "1s",
    window: str | float = "10s",
    progress: Progress | None = None,
) -> ReplayKills:
    """Whom kill policies would have killed in a recording, when and why, and why not.

    ``recording``: of ``pagewise-agent record --kills``. ``policy``: names, see ``pagewise list
    kill-policies``; ``options``: {policy: {option: value}}. A freeze is a time of at least
    ``freeze_time`` (seconds, or as in ``500ms``) in which every task stalled for memory for at
    least ``freeze_share`` of it (0 to 1), or a kill of the kernel's; a decision is a false alarm if
    within ``window`` after it the recording has neither a freeze nor a kill.

    Fields: ``moments``, ``duration_s``, ``total_bytes``, ``has_watermarks`` (whether the recording
    tells them and what the kernel keeps), ``has_weights`` (whether it has weights of
    processes, what their end frees; if not, shared memory counts in full), ``memory`` [{time_s,
    available_bytes, swap_free_bytes}], ``freezes`` [{from_s, to_s, is_kernel_kill}], ``recorded``
    [{time_s, process, name, is_of_kernel, has_moment}], and for each of ``policies`` its
    ``decisions`` [{time_s, why, available_bytes, victims, spared, judgement}], ``reasons``
    [{from_s, to_s, why}] for doing nothing, ``false_alarms``, ``missed_freezes``, and of the
    recorded victims ``victims_named``, ``victims_not_named`` and ``victims_unknown``, whose kills
    have no moment of their own, so that the recording cannot tell what their killer saw. Raises
    UnreadableInput, UsageError, NothingRecorded.
    """
    names = policy.split(",") if isinstance(policy, str) else list(policy)
    given = dict(options or {})
    if unknown := [name for name in given if name not in names]:
        raise UsageError(f"options for {', '.join(unknown)}, which is not replayed")
    if not 0 < freeze_share <= 1:
        raise UsageError(f"a share of time of {freeze_share:g}", hint="above 0, at most 1")
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
    }
    path = os.fspath(recording)
    result = _core.replay_kills(path, json.dumps(request), progress=progress)
    if not result["moments"]:
        raise NothingRecorded(f"{path}: has no moment of memory: its recorder was stopped at once")
    result["recording"] = path  # which need not be UTF-8
    return result
