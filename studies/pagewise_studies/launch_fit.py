"""Fits simulated lives to real launches: predicts a run of the launch lab from the other runs.

Each run is left out in turn. The other runs give the read time of a page from swap and from a file
(least squares, none negative), the own times of each app (the median of its launches less those
reads) and the share of its memory that a visit uses. The run itself gives its plan and, without
swap, the speed of the machine in its first round, which is not judged. With `Touches`
(`launch_touches`), launches come back to their files as recorded ones did; else they touch each
page once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pagewise.launch_runs import LaunchRun, Visit
from pagewise.lives import Again, App, Life, Phone, Rule
from pagewise.units import MIB, PAGE_BYTES
from pagewise_studies.launch_touches import Launch, Touches

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
"""Further runs, used only for the fit."""
UNLIMITED = ("no-limit-25apps", "no-limit")
"""Runs that show the need of each app; if both have an app, the later run counts."""
SCARCE = 2.0
"""If applications take turns and want this many times the budget, all memory that a visit uses was
swapped out before."""
SWAP_WRITE_US = 40
"""The time to write a page to swap; no process waits for it."""
LINKED_PERCENT = 50
"""The share of its program's files that an app uses, as in docs/scenarios.md."""
POLL_MS = 50
"""The lab's killer checks memory twenty times a second."""
OWN_MS_MIN = 5.0
SWAPPING = ("swap-file", "tiers")
"""Modes of the lab with a swap area."""
RULES: dict[str, Rule] = {"minfree": {"by": "policy", "name": "minfree"}}
"""Killers of modes without a threshold."""
AMPLE_MIB = 16384
"""Memory of a run without a limit."""
AGAIN_LEAST = 0.01
"""Rarer repeated touches of a class, per page, are left out."""


@dataclass(frozen=True)
class Rates:
    """Microseconds to read a page from swap and from a file."""

    swap_us: float
    file_us: float

    def waited_s(self, visit: Visit) -> float:
        """The time that the reads of a visit take."""
        swapped = visit.swap_in_bytes / PAGE_BYTES
        files = max(0, visit.bytes_in - visit.swap_in_bytes) / PAGE_BYTES
        return 1e-6 * (swapped * self.swap_us + files * self.file_us)


@dataclass(frozen=True)
class Need:
    """The memory that the first launch of an app adds in ample memory, in MiB."""

    program: str
    anonymous_mib: int
    file_mib: int


def needs(unlimited: Sequence[LaunchRun]) -> dict[str, Need]:
    """The need of each app: the growth of all memory over its first visit."""
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
    """Read times, fitted to what warm launches take beyond the quickest launch of the same app."""
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


def rates_beside_own_times(runs: Sequence[LaunchRun]) -> Rates:
    """Read times, fitted together with the own time of each app's cold and warm launches.

    Least squares of the relative errors, all times at least 0, over launches after the first round.
    In contrast to `rates` this uses cold launches, whose quickest may also wait for reads.
    """
    from numpy import ones, zeros
    from scipy.optimize import nnls

    visits = [visit for run in runs for visit in _launched(run) if visit.round > 1]
    kinds = sorted({(visit.app, visit.is_cold) for visit in visits})
    shares = zeros((len(visits), 2 + len(kinds)))
    for row, visit in zip(shares, visits, strict=True):
        row[0] = visit.swap_in_bytes / PAGE_BYTES
        row[1] = max(0, visit.bytes_in - visit.swap_in_bytes) / PAGE_BYTES
        row[2 + kinds.index((visit.app, visit.is_cold))] = 1
        row /= max(1e-3, visit.launch_s or 0.0)
    (swap_s, file_s, *_), _ = nnls(shares, ones(len(visits)))
    return Rates(float(swap_s) * 1e6, float(file_s) * 1e6)


def _launched(run: LaunchRun) -> Iterator[Visit]:
    return (visit for visit in run.visits if visit.launch_s is not None)


@dataclass(frozen=True)
class Warm:
    """What visits of running apps use: their pages in all and how many are the same each time.

    ``factor``: all pages per page that a recording shows, as it does not show those that were in
    memory. ``core_percent``: see docs/lifecycle.md.
    """

    factor: float = 1.0
    core_percent: int | None = None


@dataclass(frozen=True)
class Fit:
    """The model of a machine and its apps, made without the judged run; times are in seconds."""

    rates: Rates
    needs: Mapping[str, Need]
    own_s: Mapping[tuple[str, bool], float]
    """Own time of a launch, by app and whether the launch is cold."""
    used: Mapping[str, float]
    """The share of its anonymous memory that a visit uses, by app."""
    touches: Mapping[Launch, Touches] = field(default_factory=dict)
    """What launches touch of files; without an entry, each page once."""
    repeats: Mapping[str, float] = field(default_factory=dict)
    """Factor of the repeated touches of an app; 1 if it has none."""
    warm: Warm = Warm()

    def ms_per_mib(self) -> float:
        """Own time of a cold launch per MiB of need, the median over apps."""
        return median(
            1000 * self.own_s[name, True] / (need.anonymous_mib + need.file_mib)
            for name, need in self.needs.items()
            if (name, True) in self.own_s and need.anonymous_mib + need.file_mib > 0
        )

    def speed(self, run: LaunchRun) -> float:
        """Duration of the first round of a run without swap, relative to other runs, without reads.

        With swap it is 1: first launches then also wait for the pages that they evict, which does
        not depend on the speed of the machine.
        """
        if run.threshold is None and run.mode not in RULES:
            return 1.0
        return median(
            max(1e-3, visit.launch_s - self.rates.waited_s(visit)) / self.own_s[visit.app, True]
            for visit in run.during(1, 1)
            if visit.launch_s is not None and visit.is_cold
        )

    def life(self, run: LaunchRun) -> Life:
        """The simulated life of the run's plan."""
        apps = list(run.applications)
        speed = self.speed(run)
        libraries = self._libraries(apps)
        threshold = run.threshold
        rule = RULES.get(run.mode, {"by": "none"})
        if threshold is not None:
            rule = {"by": "threshold", "share": threshold}
        phone: Phone = {
            "memory_mib": run.budget_bytes // MIB if run.budget_bytes else AMPLE_MIB,
            "swap_mib": 4096 if run.mode in SWAPPING else 0,
            "is_machine": False,
            "cores": 2,
            "apps": [self.app(name, apps, libraries, speed) for name in apps],
            "libraries": [
                {"name": name, "mib": mib, "linked_percent": self.linked_percent(name, mib)}
                for name, mib in libraries.items()
            ],
            "visits": [apps.index(visit.app) for visit in run.visits],
            "killer": {"rule": rule, "poll_ms": POLL_MS},
            "costs": {"file_read_ns_per_page": round(self.rates.file_us * 1000)},
            "seed": 1,
            "is_use_reading": not self.touches,
        }
        if self.warm.core_percent is not None:
            phone["core_percent"] = self.warm.core_percent
        return Life(phone, slow=f"{self.rates.swap_us:.3f}/{SWAP_WRITE_US}us")

    def _libraries(self, apps: Sequence[str]) -> dict[str, int]:
        """Shared files in MiB by program: what its first app read more than each further app."""
        files: dict[str, list[int]] = {}
        for name in apps:
            need = self.needs[name]
            files.setdefault(need.program, []).append(need.file_mib)
        return {
            program: max(0, first - min(further, default=0))
            for program, (first, *further) in files.items()
        }

    def linked_percent(self, program: str, mib: int) -> int:
        """The share of a library that an app uses: of its apps, the one that reads most of it."""
        read = [
            touched.pages * PAGE_BYTES / MIB
            for (name, is_cold), touched in self.touches.items()
            if is_cold and self.needs[name].program == program
        ]
        if not read or not mib:
            return LINKED_PERCENT
        return max(1, min(100, round(100 * max(read) / mib)))

    def app(
        self, name: str, apps: Sequence[str], libraries: Mapping[str, int], speed: float
    ) -> App:
        """The simulated app ``name`` among ``apps``; sizes of the shared ``libraries`` in MiB.

        ``speed`` is the factor of its own times.
        """
        need = self.needs[name]
        is_first = next(app for app in apps if self.needs[app].program == need.program) == name
        shared = libraries[need.program] if is_first else 0
        file_mib = need.file_mib - shared
        app: App = {
            "name": name,
            "anonymous_mib": need.anonymous_mib,
            "file_mib": file_mib,
            "libraries": [need.program],
            "cold_ms": max(OWN_MS_MIN, 1000 * speed * self.own_s[name, True]),
            "warm_ms": max(OWN_MS_MIN, 1000 * speed * self.own_s[name, False]),
            "used_percent": self._percent(self.used[name]),
            "cold_again": self._again(name, is_cold=True),
            "warm_again": self._again(name, is_cold=False),
        }
        warm = self.touches.get((name, False))
        if warm is not None:
            library_mib = libraries[need.program]
            linked = self.linked_percent(need.program, library_mib) / 100 * library_mib
            share = warm.pages * PAGE_BYTES / MIB / max(1.0, file_mib + linked)
            app["file_percent"] = self._percent(share)
        return app

    def _percent(self, share: float) -> int:
        """The part of its pages that a visit uses, of which a recording shows ``share``."""
        return max(1, min(100, round(100 * self.warm.factor * share)))

    def _again(self, name: str, *, is_cold: bool) -> list[Again]:
        touched = self.touches.get((name, is_cold))
        if touched is None:
            return []
        factor = self.repeats.get(name, 1.0)
        return [
            {"mib": mib, "percent": round(100 * factor * share)}
            for mib, share in touched.again.items()
            if share >= AGAIN_LEAST
        ]


def fit(
    runs: Sequence[LaunchRun],
    unlimited: Sequence[LaunchRun],
    touches: Mapping[Launch, Touches] | None = None,
    used: Mapping[str, float] | None = None,
) -> Fit:
    """Fits a model to ``runs``, which must not include the judged run.

    ``used``: the share of its anonymous memory that a visit uses, by app; default: from ``runs``.
    """
    found = rates(runs) if touches is None else rates_beside_own_times([*runs, *unlimited])
    need = needs(unlimited)
    own: dict[tuple[str, bool], list[float]] = {}
    for run in runs:
        for visit in _launched(run):
            rest = max(1e-3, (visit.launch_s or 0.0) - found.waited_s(visit))
            own.setdefault((visit.app, visit.is_cold), []).append(rest)
    return Fit(
        rates=found,
        needs=need,
        own_s={key: median(values) for key, values in own.items()},
        used=shares_used(runs, need) if used is None else used,
        touches=touches or {},
    )


def shares_used(runs: Sequence[LaunchRun], need: Mapping[str, Need]) -> dict[str, float]:
    """The share of its anonymous memory that a visit uses, by app, from runs in scarce memory."""
    used: dict[str, list[float]] = {}
    for run in runs:
        if run.mode in SWAPPING and _takes_turns(run) and _wanted(run, need) > SCARCE:
            for visit in _launched(run):
                if not visit.is_cold:
                    share = visit.swap_in_bytes / MIB / max(1, need[visit.app].anonymous_mib)
                    used.setdefault(visit.app, []).append(share)
    shares = {name: median(values) for name, values in used.items()}
    usual = median(shares.values())
    return {name: shares.get(name, usual) for name in need}


def _takes_turns(run: LaunchRun) -> bool:
    """Whether each round visits each app once, so that all other apps ran since its last visit."""
    return all(
        sorted(visit.app for visit in run.during(number, number)) == sorted(run.applications)
        for number in {visit.round for visit in run.visits}
    )


def _wanted(run: LaunchRun, need: Mapping[str, Need]) -> float:
    """The anonymous memory that the run's apps need, as a multiple of the budget."""
    wanted = sum(need[name].anonymous_mib for name in run.applications) * MIB
    return wanted / run.budget_bytes if run.budget_bytes else 0.0
