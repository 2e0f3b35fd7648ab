"""S0's phones among launch runs, found by the plan: memory, applications, swap on or off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pagewise.launch_runs import LaunchRun
from pagewise.units import GIB, MIB
from pagewise_studies.live_runs import emulated, emulated_files

SWAP_ON = "swap-file"
"""The mode that stands for S0's swap on, beside `tiers` with the policy flash, which serves a swap
area at the speed of another device. Compressed swap is shown but not judged."""
SWAP_OFF = ("kill", "minfree")
"""The modes that stand for S0's swap off: a threshold, and Android's table."""
NO_LIMIT = "no-limit"

BUDGETS = {"1 GB": (GIB // 2, 5 * GIB // 4), "2 GB": (5 * GIB // 4, 2 * GIB)}
"""The range of budgets in bytes that stand for a phone, without the upper bound. Applications get
0.55 to 0.65 GB of a 1 GB phone, and about 1.5 GB of a 2 GB phone (spec sheet S0.3)."""
APPLICATIONS_BORDER = 15
"""The border between S0's 9 and 25 applications."""


@dataclass(frozen=True)
class Phone:
    """A phone of S0 with its runs.

    ``wanted`` is what a run needs to stand for the phone. ``plans`` are the plans of such runs,
    with swap on and with swap off.
    """

    memory: str
    wanted: str
    plans: tuple[str, str]
    on: tuple[LaunchRun, ...]
    off: tuple[LaunchRun, ...]
    other: tuple[LaunchRun, ...]

    @property
    def runs(self) -> tuple[LaunchRun, ...]:
        """Every run of this phone, in any mode."""
        return self.on + self.off + self.other

    def label(self) -> str:
        """A label such as ``1 GB, 9 apps``, with the number of applications in the runs."""
        counts = sorted({len(run.applications) for run in self.runs})
        return f"{self.memory}, {'/'.join(map(str, counts))} apps" if counts else self.wanted

    def pairs(self) -> Iterator[tuple[LaunchRun, LaunchRun]]:
        """Pairs of a run with swap and a run without, with the same applications and budget."""
        for on, off in itertools.product(self.on, self.off):
            if conditions(on) == conditions(off):
                yield on, off

    def missing(self, *, on: bool = True, off: bool = True) -> str:
        """The first run that a verdict needs and that is missing; empty if none is missing. ``on``,
        ``off``: whether it needs runs with and without swap."""
        for is_needed, runs, mode, plan in (
            (on, self.on, SWAP_ON, self.plans[0]),
            (off, self.off, SWAP_OFF[0], self.plans[1]),
        ):
            if is_needed and not runs:
                return f"needs a run in mode {mode} with {self.wanted} (lab/plans/{plan}.toml)"
        if on and off and not any(self.pairs()):
            return "needs runs with and without swap of the same applications, budget and storage"
        return ""


@dataclass(frozen=True)
class Phones:
    """The three phones of S0's Fig. 3, and the runs without a limit."""

    small: Phone
    large: Phone
    crowded: Phone
    unlimited: tuple[LaunchRun, ...]

    def each(self) -> tuple[Phone, Phone, Phone]:
        """The three phones in the order of the figure."""
        return self.small, self.large, self.crowded


def phones_of(runs: Sequence[LaunchRun]) -> Phones:
    """Assigns runs to phones; S0 has no phone with many applications in a small memory."""

    def phone(memory: str, is_crowded: bool, plans: tuple[str, str]) -> Phone:
        least, limit = BUDGETS[memory]
        count = f"{'more than' if is_crowded else 'at most'} {APPLICATIONS_BORDER} applications"
        wanted = f"{count} and a budget from {least // MIB} to less than {limit // MIB} MiB"
        mine = [
            run
            for run in runs
            if least <= (run.budget_bytes or 0) < limit
            and (len(run.applications) > APPLICATIONS_BORDER) == is_crowded
        ]
        on = tuple(filter(_swaps_to_flash, mine))
        off = tuple(run for run in mine if run.mode in SWAP_OFF)
        other = tuple(run for run in mine if run not in on and run not in off)
        return Phone(memory, wanted, plans, on, off, other)

    return Phones(
        small=phone("1 GB", False, ("phone-1g", "kill-1g")),
        large=phone("2 GB", False, ("phone-2g", "kill-2g")),
        crowded=phone("2 GB", True, ("phone-2g-25apps", "kill-2g-25apps")),
        unlimited=tuple(run for run in runs if run.mode == NO_LIMIT),
    )


def _swaps_to_flash(run: LaunchRun) -> bool:
    """Whether a run has S0's swap on, and its files lie on the same storage as its swap area."""
    if run.mode == SWAP_ON:
        return not emulated_files(run)
    tiers = run.plan.get("tiers")
    policy = tiers.get("policy") if isinstance(tiers, dict) else None
    return run.mode == "tiers" and policy == "flash" and emulated(run) == emulated_files(run)


Conditions: TypeAlias = tuple[int, frozenset[str], str]


def conditions(run: LaunchRun) -> Conditions:
    """Budget in bytes (0 without a budget), applications and storage, which comparable runs
    share."""
    return run.budget_bytes or 0, frozenset(run.applications), emulated_files(run)


def state(run: LaunchRun) -> str:
    """``swap on``, ``kill at 0.4`` (the killer's threshold) or how killd kills for swap off, or the
    mode."""
    if run.threshold is not None:
        return f"kill at {run.threshold:g}"
    if run.killer:
        return f"killd with {run.killer}"
    return "swap on" if _swaps_to_flash(run) else run.mode


def series(run: LaunchRun) -> str:
    """The name of a run in charts and readings."""
    return f"{state(run)} ({run.name})"
