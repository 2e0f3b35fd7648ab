"""Run folders in mode tiers, as small as those of run_folders: swapd's counts, recording, moves."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run_folders import write_run, zstd_frame

import pagewise as pw

PAGE = 4096
KINDS = {"in": 3, "out": 2, "void": 18}
MOVE_DONE, PAGE_OUT = 19, 1
FLAG_ZEROS = 4
STEPS = (
    *("read_fast", "read_slow", "write_fast", "write_slow"),
    *("promote", "demote_write", "demote", "free"),
)
"""The numbers of moves in a recording: `policy::tiers::Step::ALL`."""
ABOUT = {
    "pagewise": "0.1.0", "kernel": "6.18", "machine": "x86_64", "processors": 2,
    "memory_bytes": 1 << 30, "page_bytes": PAGE, "realtime_offset_ns": 0, "backend": "swapd",
    "sources": ["swap"], "absent": [], "cgroup": None, "process": None, "command": [],
}  # fmt: skip
LATENCIES = {
    "fast_read_ns": 1000, "fast_write_ns": 1000, "slow_read_ns": 100_000, "slow_write_ns": 90_000
}  # fmt: skip

Event = tuple[str, int]
"""What happened to a slot: out, in or void."""


def write_tier_run(
    folder: Path,
    events: Sequence[Event],
    visits: Sequence[dict[str, Any]],
    *,
    policy: str = "hierarchical",
    fast_pages: int = 4,
    emulate: str = "",
    is_recorded: bool = True,
    moves_lost: int = 0,
    counts: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Writes a run whose swap area had these requests, a millisecond apart, at the run's start.

    The moves are those that the policy decides if each ends before the next request. ``counts``
    replaces entries of swapd.json. ``moves_lost`` are missing from the end of the recording.
    """
    devices = f', emulate = {{ slow = "{emulate}" }}' if emulate else ""
    files = f'\nstorage = {{ files = "{emulate}" }}' if emulate else ""
    tiers = f'tiers = {{ policy = "{policy}", fast = "{fast_pages * PAGE}"{devices} }}{files}'
    start_ns = int(more.setdefault("start_ns", 0))
    write_run(folder, visits, mode="tiers", minfree=tiers, **more)
    recording, moves = folder / "swapd.pgr", folder / "moves.csv"
    about = {"policy": policy, "options": {}, "fast_bytes": fast_pages * PAGE}
    ended: list[tuple[int, int, str]] = []
    # Each pass decides at least one more event with all moves before it ended.
    for _ in range(len(events) + 1):
        recording.write_bytes(_recording(events, ended, about, start_ns))
        again = pw.simulate_as_recorded(recording, moves=moves, force=True)
        about["options"] = again["options"]
        decided = [
            (int(event), int(slot), move)
            for event, slot, move in (
                line.split(",") for line in moves.read_text().splitlines()[1:]
            )
        ]
        if decided == ended and again["identical"]:
            break
        ended = decided
    assert decided == ended, "the moves settle"
    if moves_lost:
        recording.write_bytes(_recording(events, ended[:-moves_lost], about, start_ns))
    served = {
        "schema": "pagewise.swapd/1",
        "policy": policy,
        "options": again["options"],
        "fast_bytes": fast_pages * PAGE,
        "fast": again["fast"],
        "slow": again["slow"],
        "wait_us": {
            "fast": {"p50": 6.0, "p99": 300.0, "p999": 3000.0} if again["fast"]["reads"] else None,
            "slow": {"p50": 150.0, "p99": 2000.0, "p999": 6000.0},
        },
        "errors": {"fast": 0, "slow": 0, "checksum": 0},
        "takeovers": 0,
    }
    (folder / "swapd.json").write_text(json.dumps({**served, **(counts or {})}))
    if not is_recorded:
        recording.unlink()
        moves.unlink()
    return folder


def _recording(
    events: Sequence[Event],
    ended: Sequence[tuple[int, int, str]],
    about: Mapping[str, Any],
    start_ns: int,
) -> bytes:
    """A recording of `pagewise-agent swapd --record` in version 2 (docs/recording.md)."""
    size = max((max(slot for _, slot in events) + 1) * PAGE, int(about["fast_bytes"]))
    tiers = {**about, "size_bytes": size, "latencies": LATENCIES}
    records = []
    for number, (event, slot) in enumerate(events):
        at_ns = start_ns + number * 10**6
        records.append(_record(KINDS[event], at_ns, 0, slot, 0))
        records += [
            _record(MOVE_DONE, at_ns, number, moved, STEPS.index(move))
            for of, moved, move in ended
            if of == number
        ]
    return _file({**ABOUT, "tiers": tiers}, records)


def page_outs(is_zeros: Mapping[int, bool]) -> bytes:
    """A recording of `pagewise-agent record` in which these pages of a process go out."""
    about = {**ABOUT, "backend": "bpf", "knows_zeros": True}
    records = [
        _record(PAGE_OUT, 10**6, page, 1, 0, flags=FLAG_ZEROS if zeros else 0)
        for page, zeros in is_zeros.items()
    ]
    return _file(about, records)


def _file(about: Mapping[str, Any], records: Sequence[bytes]) -> bytes:
    ending = {"time_ns": 10**18, "recorded": len(records), "lost": 0}
    blocks = [
        (1, json.dumps(about).encode()),
        *((2, record) for record in records),
        (4, json.dumps(ending).encode()),
    ]
    return b"pgwrec\0\x02" + b"".join(
        struct.pack("<III", kind, len(frame), len(content)) + frame
        for kind, content in blocks
        for frame in [zstd_frame(content)]
    )


def _record(
    kind: int, time_ns: int, address: int, slot: int, step: int, *, flags: int = 0
) -> bytes:
    """A block with one record, so that each distance is from 0; a distance is its double."""
    mask = 8 << 4 | 1 | 2 | 8 | (8 << 8 if address else 0) | (8 << 12 if slot else 0)
    words = [value for value in (address, slot) if value]
    fields = struct.pack("<QBHII", 2 * time_ns, flags, 1, 0, step)
    return (
        struct.pack("<IBH", 1, kind, mask)
        + fields
        + b"".join(struct.pack("<Q", 2 * value) for value in words)
    )
