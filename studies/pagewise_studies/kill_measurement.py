"""Reads the result of `make kills`: real kills phase by phase, with the requested victim sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from pagewise import types
from pagewise.errors import UnreadableInput
from pagewise.units import MIB

SCHEMA = "pagewise.kill-runs/1"
FILE = "kills.json"
AGAIN = "run `make kills` as root, then give its folder: build/kill-anatomy"


class KillRow(TypedDict):
    """A row of the file: what was asked for, and the kill if it was seen."""

    experiment: str
    threads: int
    mib: int
    others: int
    round: int
    kill: types.Kill | None


@dataclass(frozen=True)
class Kill:
    """One kill; times are in microseconds, and None if the kernel does not report them.

    ``asked_threads`` and ``asked_mib`` are the requested size of the victim; ``threads`` and
    ``rss_mib`` were measured. ``others`` is the number of processes that died at the same time.
    """

    experiment: str
    asked_threads: int
    asked_mib: int
    others: int
    round: int
    threads: int | None
    rss_mib: float | None
    signal_us: float | None
    threads_us: float | None
    reclaim_us: float | None
    unmap_us: float | None
    pagetables_us: float | None
    total_us: float | None
    trigger: str
    curve: tuple[tuple[float, float], ...]
    """Pairs: microseconds since the kill began, and MiB still resident."""
    steps: tuple[tuple[str, int, float, float], ...]
    """Each step: its name, its thread, its start and its duration."""

    @property
    def victim(self) -> str:
        """The kind of the victim in words: its threads and memory."""
        threads = f"{self.asked_threads} thread{'s' * (self.asked_threads != 1)}"
        return f"{threads}, {self.asked_mib} MiB"

    @property
    def reclaim_share(self) -> float | None:
        """The share of reclaim in the whole kill; None unless both were recorded."""
        return self.reclaim_us / self.total_us if self.reclaim_us and self.total_us else None

    def phase(self, name: str) -> float | None:
        """The duration of a phase in microseconds."""
        value: float | None = getattr(self, f"{name}_us")
        return value


@dataclass(frozen=True)
class KillMeasurement:
    """All kills of one measurement; ``asked`` is the number of kills that were requested."""

    name: str
    path: Path
    kernel: str
    machine: str
    backend: str
    load: tuple[float, float]
    """Load average over one minute, before and after the measurement."""
    lost: int
    asked: int
    kills: tuple[Kill, ...]

    def of(self, experiment: str) -> list[Kill]:
        """The kills of one experiment, in order."""
        return [kill for kill in self.kills if kill.experiment == experiment]


def read_kill_measurement(folder: Path) -> KillMeasurement:
    """Reads a measurement. Raises UnreadableInput if its file is missing or has another format."""
    path = folder / FILE if folder.is_dir() else folder
    try:
        content = json.loads(path.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, expected {SCHEMA!r}")
        rows: list[KillRow] = content["rows"]
        first, last = content["load"]
        measured = KillMeasurement(
            name=path.resolve().parent.name,
            path=path,
            kernel=str(content["kernel"]),
            machine=str(content["machine"]),
            backend=str(content["backend"]),
            load=(float(first), float(last)),
            lost=int(content["lost"]),
            asked=len(rows),
            kills=tuple(kill(row, found) for row in rows if (found := row["kill"]) is not None),
        )
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path), hint=AGAIN) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UnreadableInput(
            f"{path}: not a file of `make kills`: {reason}", path=str(path), hint=AGAIN
        ) from error
    if not measured.kills:
        raise UnreadableInput(f"{path}: no kill was seen", path=str(path), hint=AGAIN)
    return measured


def kill(row: KillRow, measured: types.Kill) -> Kill:
    """The kill of a row of the file; conversions refuse what has another type."""
    return Kill(
        experiment=str(row["experiment"]),
        asked_threads=int(row["threads"]),
        asked_mib=int(row["mib"]),
        others=int(row["others"]),
        round=int(row["round"]),
        threads=None if measured["threads"] is None else int(measured["threads"]),
        rss_mib=None if measured["rss_bytes"] is None else float(measured["rss_bytes"]) / MIB,
        signal_us=microseconds(measured["signal_us"]),
        threads_us=microseconds(measured["threads_us"]),
        reclaim_us=microseconds(measured["reclaim_us"]),
        unmap_us=microseconds(measured["unmap_us"]),
        pagetables_us=microseconds(measured["pagetables_us"]),
        total_us=microseconds(measured["total_us"]),
        trigger=str(measured["trigger"]),
        curve=tuple((float(time), float(size) / MIB) for time, size in measured["rss_curve"]),
        steps=tuple(
            (
                str(step["name"]),
                int(step["thread"]),
                float(step["start_us"]),
                float(step["duration_us"]),
            )
            for step in measured["steps"]
        ),
    )


def microseconds(value: float | None) -> float | None:
    """A time in microseconds; None if it was not recorded."""
    return None if value is None else float(value)


def seen(kills: Sequence[Kill], phase: str) -> list[float]:
    """The durations of a phase in the kills that recorded it."""
    return [value for kill in kills if (value := kill.phase(phase)) is not None]
