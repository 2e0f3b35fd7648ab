"""Lives held to real launches: what a run of the launch lab would have taken, from the other runs.

Each run is left out in turn. From the others come the time of a page from swap and from a file
(least squares, none negative), every app's own times (the median of its launches less those reads)
and the share of its memory that a visit uses. From the run itself come its plan and, without
swap, how fast the machine was: its first round, which is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pagewise.launch_runs import LaunchRun, Visit
from pagewise.lives import Life
from pagewise.units import MIB, PAGE_BYTES

JUDGED = (
    "phone-1g",
    "phone-2g",
    "phone-2g-25apps",
    "kill-1g",
    "kill-1g-60",
    "kill-1g-lenient",
    "kill-2g",
    "kill-2g-25apps",
)
MORE = ("multiswap-1", "multiswap-2", "multiswap-3")
"""Further runs that only serve to fit."""
UNLIMITED = ("no-limit-25apps", "no-limit")
"""Runs that tell what an app needs; the later one counts."""
SCARCE = 2.0
"""Where applications that take turns want this many times the budget, what a visit uses had been
swapped out."""
SWAP_WRITE_US = 40
"""A page written to swap, for which no process waits."""
LINKED_PERCENT = 50
"""What an app uses of its program's files, as in docs/scenarios.md."""
POLL_MS = 50
"""The lab's killer looks twenty times a second."""
OWN_MS_MIN = 5.0


@dataclass(frozen=True)
class Rates:
    """Microseconds for a page from swap and from a file."""

    swap_us: float
    file_us: float

    def waited_s(self, visit: Visit) -> float:
        """What the reads of a visit take."""
        swapped = visit.swap_in_bytes / PAGE_BYTES
        files = max(0, visit.bytes_in - visit.swap_in_bytes) / PAGE_BYTES
        return 1e-6 * (swapped * self.swap_us + files * self.file_us)


@dataclass(frozen=True)
class Need:
    """What the first launch of an app adds with ample memory, in MiB."""

    program: str
    anonymous_mib: int
    file_mib: int


def needs(unlimited: Sequence[LaunchRun]) -> dict[str, Need]:
    """Every app's need, from the growth of all memory over its first visit."""
    found = {}
    for run in unlimited:
        anonymous, files = 0, 0
        for visit in run.visits:
            in_files = visit.memory_bytes - visit.anonymous_bytes
            if visit.is_cold:
                grown = visit.anonymous_bytes - anonymous
                found[visit.app] = Need(
                    visit.program, max(0, grown) // MIB, max(0, in_files - files) // MIB
                )
            anonymous, files = visit.anonymous_bytes, in_files
    return found


def rates(runs: Sequence[LaunchRun]) -> Rates:
    """The time of reads, from what warm launches take beyond the quickest of their app."""
    from numpy import array
    from scipy.optimize import nnls

    warm = [visit for run in runs for visit in _launched(run) if not visit.is_cold]
    quickest: dict[str, float] = {}
    for visit in warm:
        launch_s = visit.launch_s or 0.0
        quickest[visit.app] = min(launch_s, quickest.get(visit.app, launch_s))
    pages = [
        [
            visit.swap_in_bytes / PAGE_BYTES,
            max(0, visit.bytes_in - visit.swap_in_bytes) / PAGE_BYTES,
        ]
        for visit in warm
    ]
    waited = [(visit.launch_s or 0.0) - quickest[visit.app] for visit in warm]
    (swap_s, file_s), _ = nnls(array(pages), array(waited))
    return Rates(float(swap_s) * 1e6, float(file_s) * 1e6)


def _launched(run: LaunchRun) -> Iterator[Visit]:
    return (visit for visit in run.visits if visit.launch_s is not None)


@dataclass(frozen=True)
class Fit:
    """All that is known of a machine and its apps without the judged run; times in seconds."""

    rates: Rates
    needs: Mapping[str, Need]
    own_s: Mapping[tuple[str, bool], float]
    """By app and whether the launch is cold."""
    used: Mapping[str, float]

    def ms_per_mib(self) -> float:
        """Own time of a cold launch for each MiB that the app needs, the median over apps."""
        return median(
            1000 * self.own_s[name, True] / (need.anonymous_mib + need.file_mib)
            for name, need in self.needs.items()
            if (name, True) in self.own_s and need.anonymous_mib + need.file_mib > 0
        )

    def speed(self, run: LaunchRun) -> float:
        """How long the first round of a run without swap took beside other runs, reads left out.

        With swap it is 1: first launches then also wait for what they push out, which tells
        nothing of the machine.
        """
        if run.threshold is None:
            return 1.0
        return median(
            max(1e-3, visit.launch_s - self.rates.waited_s(visit)) / self.own_s[visit.app, True]
            for visit in run.during(1, 1)
            if visit.launch_s is not None and visit.is_cold
        )

    def life(self, run: LaunchRun) -> Life:
        """The run's plan as a life."""
        apps = list(run.applications)
        speed = self.speed(run)
        libraries = self._libraries(apps)
        threshold = run.threshold
        rule: dict[str, Any] = {"by": "none"}
        if threshold is not None:
            rule = {"by": "threshold", "share": threshold}
        phone = {
            "memory_mib": (run.budget_bytes or 0) // MIB,
            "swap_mib": 4096 if threshold is None else 0,
            "is_machine": False,
            "cores": 2,
            "apps": [self._app(name, apps, libraries, speed) for name in apps],
            "libraries": [
                {"name": name, "mib": mib, "linked_percent": LINKED_PERCENT}
                for name, mib in libraries.items()
            ],
            "visits": [apps.index(visit.app) for visit in run.visits],
            "killer": {"rule": rule, "poll_ms": POLL_MS},
            "costs": {"file_read_ns_per_page": round(self.rates.file_us * 1000)},
            "seed": 1,
        }
        return Life(phone, slow=f"{self.rates.swap_us:.3f}/{SWAP_WRITE_US}us")

    def _libraries(self, apps: Sequence[str]) -> dict[str, int]:
        """Files by program: what its first app brought beyond what each further one did."""
        files: dict[str, list[int]] = {}
        for name in apps:
            need = self.needs[name]
            files.setdefault(need.program, []).append(need.file_mib)
        return {
            program: max(0, first - min(further, default=0))
            for program, (first, *further) in files.items()
        }

    def _app(
        self, name: str, apps: Sequence[str], libraries: Mapping[str, int], speed: float
    ) -> dict[str, Any]:
        need = self.needs[name]
        is_first = next(app for app in apps if self.needs[app].program == need.program) == name
        shared = libraries[need.program] if is_first else 0
        return {
            "name": name,
            "anonymous_mib": need.anonymous_mib,
            "file_mib": need.file_mib - shared,
            "libraries": [need.program],
            "cold_ms": max(OWN_MS_MIN, 1000 * speed * self.own_s[name, True]),
            "warm_ms": max(OWN_MS_MIN, 1000 * speed * self.own_s[name, False]),
            "used_percent": max(1, min(100, round(100 * self.used[name]))),
        }


def fit(runs: Sequence[LaunchRun], unlimited: Sequence[LaunchRun]) -> Fit:
    """What ``runs`` tell, none of which is the judged one."""
    found = rates(runs)
    need = needs(unlimited)
    own: dict[tuple[str, bool], list[float]] = {}
    used: dict[str, list[float]] = {}
    for run in runs:
        is_scarce = run.mode == "swap-file" and _takes_turns(run) and _wanted(run, need) > SCARCE
        for visit in _launched(run):
            launch_s = visit.launch_s or 0.0
            rest = max(1e-3, launch_s - found.waited_s(visit))
            own.setdefault((visit.app, visit.is_cold), []).append(rest)
            if is_scarce and not visit.is_cold:
                share = visit.swap_in_bytes / MIB / max(1, need[visit.app].anonymous_mib)
                used.setdefault(visit.app, []).append(share)
    shares = {name: median(values) for name, values in used.items()}
    usual = median(shares.values())
    return Fit(
        rates=found,
        needs=need,
        own_s={key: median(values) for key, values in own.items()},
        used={name: shares.get(name, usual) for name in need},
    )


def _takes_turns(run: LaunchRun) -> bool:
    """Whether every round visits each app once, so that all others ran since its last visit."""
    return all(
        sorted(visit.app for visit in run.during(number, number)) == sorted(run.applications)
        for number in {visit.round for visit in run.visits}
    )


def _wanted(run: LaunchRun, need: Mapping[str, Need]) -> float:
    """What the run's apps want of memory of their own, in budgets."""
    wanted = sum(need[name].anonymous_mib for name in run.applications) * MIB
    return wanted / run.budget_bytes if run.budget_bytes else 0.0
