"""S0's phones among launch runs, told by their plans: memory, applications, swap on or off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pagewise.launch_runs import LaunchRun
from pagewise.units import GIB, MIB

SWAP_ON = "swap-file"
"""The mode that stands for S0's swap on; compressed swap is shown, not judged."""
SWAP_OFF = "kill"
NO_LIMIT = "no-limit"

BUDGETS = {"1 GB": (GIB // 2, GIB), "2 GB": (GIB, 2 * GIB)}
"""Budgets in bytes that stand for a phone, the second excluded: of a 1 GB phone applications get
0.55-0.65 GB, of a 2 GB phone about 1.5 GB (spec sheet S0.3)."""
APPLICATIONS_BORDER = 15
"""S0 launches 9 applications, or 25."""


@dataclass(frozen=True)
class Phone:
    """One of S0's phones; ``wanted`` says what a run needs to stand for it, ``plans`` are the
    plans of ours that do, swap on and off."""

    memory: str
    wanted: str
    plans: tuple[str, str]
    on: tuple[LaunchRun, ...]
    off: tuple[LaunchRun, ...]
    other: tuple[LaunchRun, ...]

    @property
    def runs(self) -> tuple[LaunchRun, ...]:
        """Every run in this memory, whatever its mode."""
        return self.on + self.off + self.other

    def label(self) -> str:
        """``1 GB, 9 apps``, with the applications of its runs."""
        counts = sorted({len(run.applications) for run in self.runs})
        return f"{self.memory}, {'/'.join(map(str, counts))} apps" if counts else self.wanted

    def pairs(self) -> Iterator[tuple[LaunchRun, LaunchRun]]:
        """Each run with swap beside each without, of the same applications and budget."""
        for on, off in itertools.product(self.on, self.off):
            if setting(on) == setting(off):
                yield on, off

    def missing(self, *modes: str) -> str:
        """The first run that has to be made before this phone can be judged; empty if none."""
        plans = zip((SWAP_ON, SWAP_OFF), (self.on, self.off), self.plans, strict=True)
        for mode, runs, plan in plans:
            if not runs and mode in (modes or (SWAP_ON, SWAP_OFF)):
                return f"needs a run in mode {mode} with {self.wanted} (lab/plans/{plan}.toml)"
        if not modes and not any(self.pairs()):
            return "needs runs with and without swap of the same applications and budget"
        return ""


@dataclass(frozen=True)
class Phones:
    """The three phones of S0's Fig. 3, and the runs without a limit."""

    small: Phone
    large: Phone
    crowded: Phone
    unlimited: tuple[LaunchRun, ...]

    def each(self) -> tuple[Phone, Phone, Phone]:
        """The three in the order of the figure."""
        return self.small, self.large, self.crowded


def phones_of(runs: Sequence[LaunchRun]) -> Phones:
    """Sorts the runs; many applications in a small memory stand for no phone of S0."""

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
        by_mode = {
            mode: tuple(run for run in mine if run.mode == mode) for mode in (SWAP_ON, SWAP_OFF)
        }
        other = tuple(run for run in mine if run.mode not in by_mode)
        return Phone(memory, wanted, plans, by_mode[SWAP_ON], by_mode[SWAP_OFF], other)

    return Phones(
        small=phone("1 GB", False, ("phone-1g", "kill-1g")),
        large=phone("2 GB", False, ("phone-2g", "kill-2g")),
        crowded=phone("2 GB", True, ("phone-2g-25apps", "kill-2g-25apps")),
        unlimited=tuple(run for run in runs if run.mode == NO_LIMIT),
    )


def setting(run: LaunchRun) -> tuple[int, frozenset[str]]:
    """Budget in bytes (0 without) and applications: runs of one setting differ in their mode."""
    return run.budget_bytes or 0, frozenset(run.applications)


def state(run: LaunchRun) -> str:
    """``swap on``, ``kill at 0.4`` (the killer's threshold) for swap off, or the mode; for minfree
    how it kills as well."""
    if run.mode == SWAP_OFF:
        return f"kill at {run.threshold:g}"
    if run.killer:
        return f"{run.mode}, {run.killer}"
    return "swap on" if run.mode == SWAP_ON else run.mode


def series(run: LaunchRun) -> str:
    """What charts and readings call a run."""
    return f"{state(run)} ({run.name})"
