"""Simulates the lives of phones: apps are launched, swapped out and killed, on any architecture.

docs/lifecycle.md has every rule, parameter and constant with its source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from pagewise import _core
from pagewise.grids import memory
from pagewise.grids.simulations import SimulateRequest
from pagewise.grids.spec import option_text
from pagewise.recording import Progress
from pagewise.units import parse_size

if TYPE_CHECKING:
    from pagewise.types import Lifecycle


class Again(TypedDict):
    """Touches of files that a launch repeats at one reuse distance."""

    mib: int
    percent: int


class App(TypedDict):
    """An app of a phone; the parameters are those of docs/lifecycle.md."""

    name: str
    anonymous_mib: int
    file_mib: int
    libraries: list[str]
    cold_ms: float
    warm_ms: float
    used_percent: NotRequired[int]
    file_percent: NotRequired[int]
    cold_again: NotRequired[Sequence[Again]]
    warm_again: NotRequired[Sequence[Again]]


class Library(TypedDict):
    """Files that apps share."""

    name: str
    mib: int
    linked_percent: int


class Rule(TypedDict):
    """When a killer kills."""

    by: Literal["none", "threshold", "policy"]
    share: NotRequired[float]
    name: NotRequired[str]
    options: NotRequired[Mapping[str, str]]


class Killer(TypedDict):
    """The killer of a phone."""

    rule: Rule
    order: NotRequired[str]
    poll_ms: NotRequired[int]


class Phone(TypedDict, total=False):
    """A phone; parameters that are absent have their defaults."""

    memory_mib: int
    swap_mib: int
    is_machine: bool
    cores: int
    apps: list[App]
    libraries: list[Library]
    services_mib: int
    visits: list[int]
    used_percent: int
    core_percent: int
    busy_threads: int
    is_use_reading: bool
    tiers_hold_files: bool
    killer: Killer
    costs: Mapping[str, int]
    seed: int


class LifeRequest(TypedDict):
    """A request of the core."""

    phone: Mapping[str, object]
    below: SimulateRequest


@dataclass(frozen=True)
class Life:
    """A phone, with the parameters of docs/lifecycle.md, and the storage below its memory.

    ``fast_tier``: a size. ``fast`` and ``slow``: names from ``pagewise devices``, or READ/WRITE
    times.
    """

    phone: Mapping[str, object]
    architecture: str = "flash"
    fast_tier: int | str = 0
    fast: str = "10/20us"
    slow: str = "emmc-5.1"
    option: Mapping[str, object] = field(default_factory=dict)
    profile: str | None = None

    def request(self) -> LifeRequest:
        """The request for the simulator."""
        return {
            "phone": dict(self.phone),
            "below": {
                "architecture": self.architecture,
                "fast_tier_bytes": parse_size(self.fast_tier),
                "fast": self.fast,
                "slow": self.slow,
                "options": {name: option_text(value) for name, value in self.option.items()},
                "profile": self.profile,
            },
        }


def lifecycle(
    phone: Mapping[str, object],
    *,
    architecture: str = "flash",
    fast_tier: int | str = 0,
    fast: str = "10/20us",
    slow: str = "emmc-5.1",
    option: Mapping[str, object] | None = None,
    profile: str | None = None,
    progress: Progress | None = None,
) -> Lifecycle:
    """Simulates the visits of one phone: launch times with their causes, kills, storage I/O.

    ``phone``: its parameters by name (docs/lifecycle.md). The others are as in `simulate`; the swap
    area lies on ``slow``, behind a fast tier of this size. Each of the ``visits`` has
    ``launch_ns`` and its parts, which add up to it; ``kills`` has the phases of each kill.
    """
    life = Life(phone, architecture, fast_tier, fast, slow, option or {}, profile)
    return live_all([life], progress=progress)[0]


def live_all(lives: Sequence[Life], *, progress: Progress | None = None) -> list[Lifecycle]:
    """The outcomes of many lives in order, computed on all cores; each as `lifecycle` returns it.

    They take at most as much of the free memory as cells of a grid do (docs/sweep.md).
    """
    memory.give_back_what_is_freed()
    text = json.dumps([life.request() for life in lives])
    return _core.lifecycle(text, room_bytes=memory.room_bytes(), progress=progress)
