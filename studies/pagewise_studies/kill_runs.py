"""What `make kills` left: real kills taken apart, each with what was asked of its victim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagewise.errors import UnreadableInput
from pagewise.units import MIB

SCHEMA = "pagewise.kill-runs/1"
FILE = "kills.json"
AGAIN = "give a folder that `make kills` left, as root: build/kill-anatomy"


@dataclass(frozen=True)
class Kill:
    """One kill; times in microseconds, None where the kernel does not tell.

    ``asked_threads`` and ``asked_mib`` are the requested size of the victim, the others what was
    seen; ``others`` died at the same time.
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
    """Microseconds since the kill began, MiB still resident."""
    steps: tuple[tuple[str, int, float, float], ...]
    """What, by which thread, from when, for how long."""

    @property
    def victim(self) -> str:
        """What kind of victim it is, in words."""
        return f"{self.asked_threads} threads, {self.asked_mib} MiB"

    @property
    def reclaim_share(self) -> float | None:
        """The share of reclaim in the whole kill; None unless both were recorded."""
        return self.reclaim_us / self.total_us if self.reclaim_us and self.total_us else None

    def phase(self, name: str) -> float | None:
        """The phase of this name, in microseconds."""
        value: float | None = getattr(self, f"{name}_us")
        return value


@dataclass(frozen=True)
class KillRuns:
    """All kills of one measurement; ``asked`` is how many there should be."""

    name: str
    path: Path
    kernel: str
    machine: str
    backend: str
    load: tuple[float, float]
    """Load average of a minute before and after."""
    lost: int
    asked: int
    kills: tuple[Kill, ...]

    def of(self, experiment: str) -> list[Kill]:
        """The kills of one experiment, in order."""
        return [kill for kill in self.kills if kill.experiment == experiment]


def read_kill_runs(folder: Path) -> KillRuns:
    """What a measurement left. Raises UnreadableInput for what is missing or foreign."""
    path = folder / FILE if folder.is_dir() else folder
    try:
        told = json.loads(path.read_bytes())
        if told["schema"] != SCHEMA:
            raise ValueError(f"schema {told['schema']!r}, expected {SCHEMA!r}")
        rows = told["rows"]
        first, last = told["load"]
        runs = KillRuns(
            name=path.resolve().parent.name,
            path=path,
            kernel=str(told["kernel"]),
            machine=str(told["machine"]),
            backend=str(told["backend"]),
            load=(float(first), float(last)),
            lost=int(told["lost"]),
            asked=len(rows),
            kills=tuple(kill(row) for row in rows if row["kill"] is not None),
        )
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}", path=str(path), hint=AGAIN) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        said = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UnreadableInput(
            f"{path}: not what kills left: {said}", path=str(path), hint=AGAIN
        ) from error
    if not runs.kills:
        raise UnreadableInput(f"{path}: no kill was seen", path=str(path), hint=AGAIN)
    return runs


def kill(row: Mapping[str, Any]) -> Kill:
    """A row of the file."""
    told = row["kill"]
    return Kill(
        experiment=str(row["experiment"]),
        asked_threads=int(row["threads"]),
        asked_mib=int(row["mib"]),
        others=int(row["others"]),
        round=int(row["round"]),
        threads=None if told["threads"] is None else int(told["threads"]),
        rss_mib=None if told["rss_bytes"] is None else float(told["rss_bytes"]) / MIB,
        **{name: microseconds(told[name]) for name in TIMES},
        trigger=str(told["trigger"]),
        curve=tuple((float(time), float(size) / MIB) for time, size in told["rss_curve"]),
        steps=tuple(
            (
                str(one["name"]),
                int(one["thread"]),
                float(one["start_us"]),
                float(one["duration_us"]),
            )
            for one in told["steps"]
        ),
    )


TIMES = ("signal_us", "threads_us", "reclaim_us", "unmap_us", "pagetables_us", "total_us")


def microseconds(value: object) -> float | None:
    """A time; None if it was not recorded."""
    return None if value is None else float(value)  # type: ignore[arg-type]


def seen(kills: Sequence[Kill], phase: str) -> list[float]:
    """A phase, of the kills in which it was recorded."""
    return [value for kill in kills if (value := kill.phase(phase)) is not None]
