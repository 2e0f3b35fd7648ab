"""S0's phones among launch runs, told by their plans: memory, applications, swap on or off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pagewise.studies.launch_runs import LaunchRun

SWAP_ON = "swap-file"
"""The mode that stands for S0's swap on; compressed swap is shown, not judged."""
SWAP_OFF = "kill"
NO_LIMIT = "no-limit"

MEMORY_BYTES_BORDER = 2**30
"""Of a 1 GB phone applications get 0.55-0.65 GB, of a 2 GB phone about 1.5 GB (spec sheet S0.3)."""
APPLICATIONS_BORDER = 15
"""S0 launches 9 applications, or 25."""


@dataclass(frozen=True)
class Phone:
    """One of S0's phones; ``wanted`` is how the runs that stand for it are asked for."""

    memory: str
    wanted: str
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
        """Each run with swap beside each without."""
        for on in self.on:
            for off in self.off:
                yield on, off

    def missing(self) -> str:
        """Which runs would have to be made before this phone can be judged; empty if none."""
        modes = [
            f"mode {mode}" for mode, runs in ((SWAP_ON, self.on), (SWAP_OFF, self.off)) if not runs
        ]
        return f"needs a run of {self.wanted} in {' and one in '.join(modes)}" if modes else ""


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

    def phone(memory: str, is_large: bool, is_crowded: bool, wanted: str) -> Phone:
        mine = [
            run
            for run in runs
            if run.budget_bytes is not None
            and (run.budget_bytes >= MEMORY_BYTES_BORDER) == is_large
            and (len(run.applications) > APPLICATIONS_BORDER) == is_crowded
        ]
        by_mode = {
            mode: tuple(run for run in mine if run.mode == mode) for mode in (SWAP_ON, SWAP_OFF)
        }
        other = tuple(run for run in mine if run.mode not in by_mode)
        return Phone(memory, wanted, by_mode[SWAP_ON], by_mode[SWAP_OFF], other)

    return Phones(
        small=phone("1 GB", False, False, "9 applications and less than 1 GiB"),
        large=phone("2 GB", True, False, "9 applications and 1 GiB or more"),
        crowded=phone("2 GB", True, True, "25 applications and 1 GiB or more"),
        unlimited=tuple(run for run in runs if run.mode == NO_LIMIT),
    )


def state(run: LaunchRun) -> str:
    """``swap on``, ``kill at 0.4`` (the killer's threshold) for swap off, or the mode."""
    match run.mode:
        case "swap-file":
            return "swap on"
        case "kill":
            return f"kill at {run.threshold:g}"
        case _:
            return run.mode


def series(run: LaunchRun) -> str:
    """What charts and readings call a run."""
    return f"{state(run)} ({run.name})"
