"""S3's checks and its Fig. 3 on programs under the kernel of ``kernel/``, counted in guests.

Reads what ``bench/kernel.py`` and ``bench/kernel_episodes.py`` give with ``--json``. A guest counts
faults, and its clock counts instructions, so a row needs no repeats for time. Runs of several
rounds count by their medians.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from pagewise.errors import UnreadableInput
from pagewise.units import MIB
from pagewise_studies import lazy_unmap_episodes
from pagewise_studies.figure import Figure, Point
from pagewise_studies.lazy_unmap_episodes import Pairs
from pagewise_studies.table import Row, Table
from pagewise_studies.verdict import (
    Choices,
    Reading,
    Verdict,
    in_order,
    judge,
    load_checks,
    unmeasured,
)

DATA = "kernel"
"""The data of these verdicts, beside the names of recordings."""
CHECKS = load_checks("lazy-unmap-kernel")
OFF, ON = "off", "on"
FEWEST, MOST = 0.30, 0.60
LOOP = 0.90
LOOPS = ("churn", "churn-calloc", "churn-static", "musl")
OWN_MALLOC = ("chromium", "firefox")
TIME_LEAST, TIME_MOST = 0.02, 0.10
MORE_MOST = 0.05
FAULTS_MOST, INSTRUCTIONS_MOST, HARM_MOST = 0.35, 0.85, 1.02
COUNT_MAX = 2.0**63
TESTED = ("segv", "hole", "zeros")
"""The cases of tests/vm/lazy_unmap.c about freed memory and zeros."""


class Swipe(TypedDict):
    """Counts of one swipe of a browser."""

    faults: int
    instructions: int
    fault_ns: int


class RunRow(TypedDict):
    """One run of a program, as ``bench/kernel.py`` gives it; other fields are not read here."""

    name: str
    pool: str
    mthp: bool
    threshold_bytes: int | None
    faults: float
    instructions: float
    peak_bytes: int
    idle_bytes: int | None
    output_sha256: NotRequired[str | None]
    swipes: NotRequired[list[Swipe]]


class Counted(TypedDict):
    """The object that ``bench/kernel.py --json`` prints."""

    rows: list[RunRow]
    cases: dict[str, bool]


@dataclass(frozen=True)
class Comparison:
    """What two runs that are compared have in common."""

    program: str
    threshold_bytes: int | None
    mthp: bool

    @property
    def choices(self) -> Choices:
        """The choices of a reading."""
        return (
            ("program", self.program),
            ("fixed threshold", "yes" if self.threshold_bytes else "no"),
            ("threshold", self.threshold),
            ("mTHP", "64 KiB" if self.mthp else "off"),
        )

    @property
    def threshold(self) -> str:
        """The threshold of malloc."""
        return f"{self.threshold_bytes >> 10} KiB" if self.threshold_bytes else "its own"


@dataclass(frozen=True)
class Runs:
    """All runs of a program with one setting and one kind of pool."""

    rows: Sequence[RunRow]

    @property
    def faults(self) -> float:
        """Page faults, of a swipe for a program that is swiped."""
        return statistics.median(row["faults"] for row in self.rows)

    @property
    def instructions(self) -> float:
        """Instructions, of a swipe for a program that is swiped."""
        return statistics.median(row["instructions"] for row in self.rows)

    @property
    def peak_bytes(self) -> float:
        """The most resident memory."""
        return statistics.median(row["peak_bytes"] for row in self.rows)

    @property
    def idle_bytes(self) -> float | None:
        """Resident memory after an idle time, where the program waits for it."""
        found = [row["idle_bytes"] for row in self.rows if row["idle_bytes"] is not None]
        return statistics.median(found) if found else None

    @property
    def swipes(self) -> list[Swipe]:
        """The swipes, for a program that is swiped."""
        return [swipe for row in self.rows for swipe in row.get("swipes", ())]

    @property
    def fault_share(self) -> float:
        """The share of a swipe's instructions in page faults."""
        return statistics.median(swipe["fault_ns"] / swipe["instructions"] for swipe in self.swipes)

    @property
    def outputs(self) -> set[str]:
        """The digests of what the runs wrote."""
        found = (row.get("output_sha256") for row in self.rows)
        return {digest for digest in found if digest is not None}


@dataclass(frozen=True)
class KernelRuns:
    """Runs by setting and pool, cases that hold or do not hold, and episodes of pressure."""

    runs: dict[Comparison, dict[str, Runs]]
    cases: dict[str, bool] = field(default_factory=dict)
    episodes: Sequence[Pairs] = ()

    def pairs(self) -> Iterator[tuple[Comparison, Runs, Runs]]:
        """The runs without the pool and with it, by setting."""
        for setting, pools in self.runs.items():
            if OFF in pools and ON in pools:
                yield setting, pools[OFF], pools[ON]


def is_counted(path: Path) -> bool:
    """Whether a file may be what a bench of the kernel wrote."""
    return path.suffix == ".json"


def read(paths: Sequence[Path]) -> KernelRuns:
    """Reads the files. Raises UnreadableInput for one that no bench of the kernel wrote."""
    rows: list[RunRow] = []
    cases: dict[str, bool] = {}
    episodes: list[Pairs] = []
    for path in paths:
        try:
            parsed = json.loads(path.read_bytes())
            if lazy_unmap_episodes.is_pairs(parsed):
                episodes.append(lazy_unmap_episodes.checked(parsed))
                continue
            found = _checked(parsed)
        except (OSError, ValueError, RecursionError) as error:
            raise UnreadableInput(
                f"{path}: not counts of programs under lazy unmapping: {error}",
                path=str(path),
                hint="bench/kernel.py and bench/kernel_episodes.py write such files with --json",
            ) from error
        rows += found["rows"]
        cases |= found["cases"]
    return KernelRuns(grouped(rows), cases, episodes)


def _is_count(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < cast("float", value) < COUNT_MAX


def _are_swipes(value: object) -> bool:
    names = Swipe.__required_keys__
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(_is_count(each.get(name)) for name in names)
        for each in value
    )


A_COUNT = "a number above 0"
FIELDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "name": ("a text", lambda value: isinstance(value, str)),
    "pool": ("off, on or library", lambda value: value in (OFF, ON, "library")),
    "mthp": ("true or false", lambda value: isinstance(value, bool)),
    "threshold_bytes": (
        "null or a whole number above 0",
        lambda value: value is None or (isinstance(value, int) and _is_count(value)),
    ),
    "faults": (A_COUNT, _is_count),
    "instructions": (A_COUNT, _is_count),
    "peak_bytes": (A_COUNT, _is_count),
    "idle_bytes": (f"null or {A_COUNT}", lambda value: value is None or _is_count(value)),
    "output_sha256": ("a text or null", lambda value: value is None or isinstance(value, str)),
    "swipes": ("a list of counts above 0", lambda value: value is None or _are_swipes(value)),
}
"""What each field of a row must be."""


def _checked(found: object) -> Counted:
    """Raises ValueError, which names the first field that ``bench/kernel.py`` does not print."""
    rows = found.get("rows") if isinstance(found, dict) else None
    cases = found.get("cases") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not isinstance(cases, dict):
        raise ValueError("expected an object with rows and cases")
    for at, row in enumerate(rows):
        for name, (expected, is_right) in FIELDS.items():
            if not isinstance(row, dict) or not is_right(row.get(name)):
                raise ValueError(f"rows[{at}].{name}: expected {expected}")
    for name, holds in cases.items():
        if not isinstance(holds, bool):
            raise ValueError(f"cases.{name}: expected true or false")
    return cast("Counted", found)


def grouped(rows: Sequence[RunRow]) -> dict[Comparison, dict[str, Runs]]:
    """Rows by setting and pool."""
    found: dict[Comparison, dict[str, list[RunRow]]] = {}
    for row in rows:
        setting = Comparison(row["name"], row["threshold_bytes"], row["mthp"])
        found.setdefault(setting, {}).setdefault(row["pool"], []).append(row)
    return {
        setting: {pool: Runs(rows) for pool, rows in pools.items()}
        for setting, pools in found.items()
    }


Test = Callable[[Runs, Runs], tuple[bool, float]]


def verdicts(kernel: KernelRuns) -> list[Verdict]:
    """The verdict of each check."""
    pairs = list(kernel.pairs())
    swiped = [pair for pair in pairs if pair[1].swipes]
    loops = [pair for pair in pairs if pair[0].program in LOOPS]
    own = [pair for pair in pairs if pair[0].program in OWN_MALLOC]
    drawn = [pair for pair in pairs if pair[1].outputs and pair[2].outputs]
    idle = [pair for pair in pairs if pair[1].idle_bytes is not None]
    found = {
        "mix": _each(swiped, _mix),
        "loop": _each(loops, lambda off, on: (_saved(off, on) >= LOOP, _saved(off, on))),
        "never_more": _each(pairs, _at_most(1.0, lambda runs: runs.faults)),
        "response": _each(swiped, _response),
        "identity": _each(swiped, _identity),
        "traps": [
            Reading((("case", name),), kernel.cases[name])
            for name in TESTED
            if name in kernel.cases
        ],
        "idle": _each(idle, _idle),
        "peak": _each(pairs, _at_most(1 + MORE_MOST, lambda runs: runs.peak_bytes)),
        "unmodified": [
            Reading(setting.choices, len(off.outputs | on.outputs) == 1)
            for setting, off, on in drawn
        ],
        "swipe_faults": _each(swiped, _at_most(FAULTS_MOST, lambda runs: runs.faults)),
        "swipe_instructions": _each(
            swiped, _at_most(INSTRUCTIONS_MOST, lambda runs: runs.instructions)
        ),
        "no_harm": _each(own, _at_most(HARM_MOST, lambda runs: runs.instructions)),
    }
    judged = []
    if kernel.episodes:
        pressure = (CHECKS["pool_first"], CHECKS["kills"])
        judged += lazy_unmap_episodes.verdicts(kernel.episodes, DATA, *pressure)
    for name, check in CHECKS.items():
        if any(each.check == check for each in judged):
            continue
        if readings := found.get(name):
            judged.append(judge(check, DATA, readings))
        else:
            kind = "no such program" if name in found else "no episode of memory pressure"
            judged.append(unmeasured(check, DATA, f"{kind} is among the runs"))
    return in_order(CHECKS, judged)


def _each(pairs: Sequence[tuple[Comparison, Runs, Runs]], test: Test) -> list[Reading]:
    return [Reading(setting.choices, *test(off, on)) for setting, off, on in pairs]


def _at_most(most: float, measure: Callable[[Runs], float]) -> Test:
    def test(off: Runs, on: Runs) -> tuple[bool, float]:
        ratio = measure(on) / measure(off)
        return ratio <= most, ratio

    return test


def _saved(off: Runs, on: Runs) -> float:
    return 1 - on.faults / off.faults


def _mix(off: Runs, on: Runs) -> tuple[bool, float]:
    saved = _saved(off, on)
    return FEWEST <= saved <= MOST, saved


def _response(off: Runs, on: Runs) -> tuple[bool, float]:
    saved = 1 - on.instructions / off.instructions
    return TIME_LEAST <= saved <= TIME_MOST, saved


def _identity(off: Runs, on: Runs) -> tuple[bool, float]:
    bound = _saved(off, on) * off.fault_share
    saved = 1 - on.instructions / off.instructions
    return saved <= bound, bound - saved


def _idle(off: Runs, on: Runs) -> tuple[bool, float]:
    share = ((on.idle_bytes or 0) - (off.idle_bytes or 0)) / off.peak_bytes
    return share <= MORE_MOST, share


def figures(study: str, kernel: KernelRuns) -> list[Figure]:
    """S3's Fig. 3: faults and instructions of a swipe, relative to no pool."""
    measures: tuple[tuple[str, str, Callable[[Runs], float]], ...] = (
        ("faults", "page faults", lambda runs: runs.faults),
        ("response", "instructions from event to frame", lambda runs: runs.instructions),
    )
    found: list[Figure] = []
    for name, what, measure in measures:
        points = [
            Point(
                f"{setting.program}, {setting.threshold}",
                "no pool" if pool == OFF else "kernel" if pool == ON else pool,
                measure(runs) / measure(pools[OFF]),
            )
            for setting, pools in kernel.runs.items()
            if OFF in pools and pools[OFF].swipes
            for pool, runs in pools.items()
        ]
        figure = Figure(
            f"{study}-fig3-{name}",
            f"S3 Fig. 3: {what} of a swipe, no pool = 1",
            "browser, threshold of malloc",
            what,
            tuple(points),
            {"settings": [list(setting.choices) for setting in kernel.runs]},
            is_categorical=True,
        )
        found += [figure] if points else []
    return found


def tables(study: str, kernel: KernelRuns) -> list[Table]:
    """Programs with and without the pool, and episodes of pressure, where there are any."""
    found = [programs(study, kernel)] if kernel.runs else []
    if kernel.episodes:
        found.append(lazy_unmap_episodes.table(study, kernel.episodes))
    return found


def programs(study: str, kernel: KernelRuns) -> Table:
    """All programs with and without the pool."""
    rows: list[Row] = [
        {
            "program": setting.program,
            "threshold": setting.threshold,
            "mTHP": "64 KiB" if setting.mthp else "no",
            "pool": {OFF: "none", ON: "kernel"}.get(pool, pool),
            "runs": len(runs.rows),
            "faults": round(runs.faults),
            "of no pool's": runs.faults / pools[OFF].faults,
            "instructions, M": runs.instructions / 1e6,
            "of no pool's instructions": runs.instructions / pools[OFF].instructions,
            "in faults": runs.fault_share if runs.swipes else None,
            "peak, MiB": runs.peak_bytes / MIB,
            "idle, MiB": None if runs.idle_bytes is None else runs.idle_bytes / MIB,
        }
        for setting, pools in kernel.runs.items()
        if OFF in pools
        for pool, runs in pools.items()
    ]
    return Table(
        f"{study}-kernel",
        "Programs under the kernel's pool",
        "Counted in emulated guests, whose clock counts instructions, by `bench/kernel.py` "
        "(docs/kernel.md). `library` is the preload library on the same kernel. Figures of "
        "`webkit` are of a swipe: the faults of the web process, and the instructions of web "
        "process, user interface and display from the input event to the last frame. *In faults*: "
        "the share of these instructions, sampled. Other figures are of a program's work or of the "
        "whole run. *Idle*: seven seconds after the work.",
        rows,
        shares=("of no pool's", "of no pool's instructions", "in faults"),
    )
