"""Reads the result of `make kills`: real kills phase by phase, with the requested victim sizes.

A measurement is a folder with a file for each repeat.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypedDict

from pagewise import types
from pagewise.errors import UnreadableInput, UsageError
from pagewise.units import MIB
from pagewise_studies.repeats import estimate_of
from pagewise_studies.verdict import Estimate

SCHEMA = "pagewise.kill-runs/2"
FILES = "kills-*.json.gz"
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
class KillRepeat:
    """One repeat of a measurement; ``asked`` is the number of kills that were requested."""

    path: Path
    started: str
    """UTC, as in 2026-11-27T20:30:56+00:00."""
    kernel: str
    machine: str
    """The architecture, such as x86_64."""
    processors: int
    backend: str
    load: tuple[float, float]
    """Load average over one minute, before and after the repeat; its own kills are part of it."""
    load_other: tuple[float, ...]
    """The share of all processors that other programs used, in each round."""
    rounds_busy: int
    """Rounds that were measured again, because other programs used too much of the processors."""
    lost: int
    asked: int
    kills: tuple[Kill, ...]

    def of(self, experiment: str) -> list[Kill]:
        """The kills of one experiment, in order."""
        return [kill for kill in self.kills if kill.experiment == experiment]


@dataclass(frozen=True)
class KillMeasurement:
    """The repeats of one measurement, in the order of their files; all of one kernel and machine.

    ``name`` is the name of their folder.
    """

    name: str
    repeats: tuple[KillRepeat, ...]

    @property
    def machine(self) -> str:
        """Kernel, architecture and processors in words."""
        repeat = self.repeats[0]
        return f"Linux {repeat.kernel}, {repeat.machine}, {repeat.processors} processors"

    @property
    def processors(self) -> int:
        """The number of processors."""
        return self.repeats[0].processors

    @property
    def kills(self) -> list[Kill]:
        """The kills of all repeats."""
        return [kill for repeat in self.repeats for kill in repeat.kills]

    def of(self, experiment: str) -> list[Kill]:
        """The kills of one experiment in all repeats."""
        return [kill for kill in self.kills if kill.experiment == experiment]

    def estimate(self, figure: Callable[[KillRepeat], float | None]) -> Estimate | None:
        """The mean of a figure over the repeats, and its 95 % interval.

        None unless two repeats or more have the figure.
        """
        return estimate_of([value for value in map(figure, self.repeats) if value is not None])


def read_kill_measurement(place: Path) -> KillMeasurement:
    """Reads a measurement: a folder of repeats, or the file of one.

    Raises UnreadableInput if there is no file or one has another format, and UsageError for repeats
    that are the same one, or of different machines.
    """
    paths = sorted(place.glob(FILES), key=_number) if place.is_dir() else [place]
    if not paths:
        raise UnreadableInput(f"{place}: no {FILES} in it", path=str(place), hint=AGAIN)
    repeats = tuple(_read_repeat(path) for path in paths)
    for first, second in pairwise(sorted(repeats, key=lambda repeat: repeat.started)):
        if first.started == second.started:
            raise UsageError(
                f"{first.path} and {second.path} are the same repeat",
                path=str(second.path),
                hint="keep one of them",
            )
        if _place(first) != _place(second):
            raise UsageError(
                f"{first.path} and {second.path} are of different machines",
                path=str(second.path),
                hint="keep repeats of one kernel and machine in a folder",
            )
    return KillMeasurement(paths[0].resolve().parent.name, repeats)


def _number(path: Path) -> tuple[int, str]:
    """The number of a repeat, so that the tenth comes after the second."""
    digits = re.search(r"\d+", path.name)
    return (int(digits[0]) if digits else 0, path.name)


def _place(repeat: KillRepeat) -> tuple[str, str, int]:
    return repeat.kernel, repeat.machine, repeat.processors


def _read_repeat(path: Path) -> KillRepeat:
    try:
        content = json.loads(gzip.decompress(path.read_bytes()))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, expected {SCHEMA!r}")
        rows: list[KillRow] = content["rows"]
        first, last = content["load"]
        repeat = KillRepeat(
            path=path,
            started=str(content["started"]),
            kernel=str(content["kernel"]),
            machine=str(content["machine"]),
            processors=int(content["processors"]),
            backend=str(content["backend"]),
            load=(float(first), float(last)),
            load_other=tuple(map(float, content["load_other"])),
            rounds_busy=int(content["rounds_busy"]),
            lost=int(content["lost"]),
            asked=len(rows),
            kills=tuple(kill(row, found) for row in rows if (found := row["kill"]) is not None),
        )
    except gzip.BadGzipFile as error:
        raise UnreadableInput(
            f"{path}: not a file of `make kills`: {error}", path=str(path), hint=AGAIN
        ) from error
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path), hint=AGAIN) from error
    except (
        EOFError,
        zlib.error,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UnreadableInput(
            f"{path}: not a file of `make kills`: {reason}", path=str(path), hint=AGAIN
        ) from error
    if not repeat.kills:
        raise UnreadableInput(f"{path}: no kill was seen", path=str(path), hint=AGAIN)
    if not repeat.load_other:
        raise UnreadableInput(f"{path}: load_other has no round", path=str(path), hint=AGAIN)
    return repeat


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


def typical(kills: Sequence[Kill]) -> Kill:
    """The kill whose total is nearest to the median total."""
    totals = seen(kills, "total")
    middle = median(totals) if totals else 0.0
    return min(kills, key=lambda kill: abs((kill.total_us or 0.0) - middle))
