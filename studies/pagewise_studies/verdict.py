"""Verdicts on a paper's statements, under each reading of the choices that the paper leaves open.

A reading has a value for each open choice, and a check is judged once per reading. The check
*holds* if it holds under every reading, and *does not hold* if it fails under every reading.
Otherwise the verdict names the smallest set of choices under which the check always holds.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TypeAlias

from pagewise.comparisons import StudyVerdict
from pagewise.units import format_figure

HOLDS = "holds"
FAILS = "does not hold"
NEEDS = "needs a reading"
UNMEASURED = "not measurable"
SEEN = ". Seen here: "
"""The text between a check's reason and what its runs show, in parts that end in a semicolon."""

Choices: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs: the name of an open choice, and its value."""


@dataclass(frozen=True)
class Reading:
    """A value for each open choice, whether the statement then holds, and the deciding figure."""

    choices: Choices
    holds: bool
    figure: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    figure: float
    low: float
    high: float


@dataclass(frozen=True)
class Check:
    """A statement of a paper that can be tested.

    ``name`` is the name in the spec sheet (``ACC-S1-2``), ``part`` is the part of the check,
    ``unit`` is the unit in which `show` prints figures, and ``why`` is the mechanism behind the
    result.
    """

    name: str
    part: str
    unit: str
    statement: str
    paper: str
    why: str


def load_checks(study: str) -> dict[str, Check]:
    """The checks of a study by the name of their table in ``checks/STUDY.toml``, in order."""
    text = resources.files(__package__).joinpath("checks", f"{study}.toml").read_text("utf-8")
    return {name: Check(**fields) for name, fields in tomllib.loads(text).items()}


@dataclass(frozen=True)
class Verdict:
    """The judgement of one check on one data set; ``row`` is its form in results."""

    check: Check
    data: str
    verdict: str
    why: str
    ours: str = ""
    needs: Choices = ()
    readings: int = 0
    holding: int = 0
    figures: tuple[float, ...] = field(default=(), repr=False)

    def row(self) -> StudyVerdict:
        """The row of the verdict table: texts and counts by name."""
        return {
            "check": self.check.name,
            "part": self.check.part,
            "data": self.data,
            "statement": self.check.statement,
            "paper": self.check.paper,
            "ours": self.ours,
            "verdict": self.verdict,
            "needs": dict(self.needs),
            "readings": self.readings,
            "holding": self.holding,
            "why": self.why,
        }


def judge(check: Check, data: str, readings: Sequence[Reading], lacking: str = "") -> Verdict:
    """The verdict on a check over all readings.

    ``lacking`` is what the data lack for a verdict; the figures of the readings are shown all the
    same.
    """
    figures = sorted(reading.figure for reading in readings if reading.figure is not None)
    ours = span(figures, check.unit)
    if lacking or not readings:
        return replace(unmeasured(check, data, lacking), ours=ours)
    holding = sum(reading.holds for reading in readings)
    if holding == len(readings):
        verdict = HOLDS
    elif holding == 0:
        verdict = FAILS
    else:
        verdict = NEEDS
    return Verdict(
        check,
        data,
        verdict,
        check.why,
        ours=ours,
        needs=needed(readings) if verdict == NEEDS else (),
        readings=len(readings),
        holding=holding,
        figures=tuple(figures),
    )


def in_order(checks: Mapping[str, Check], verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts in the order of their checks."""
    order = list(checks.values())
    return sorted(verdicts, key=lambda verdict: order.index(verdict.check))


def judge_estimate(
    check: Check,
    data: str,
    estimate: Estimate,
    *,
    least: float | None = None,
    most: float | None = None,
    lacking: str = "",
) -> Verdict:
    """The verdict on a figure that should be at least ``least`` or at most ``most``.

    It holds or not if the whole interval lies on one side of the bound; otherwise the data are too
    few to measure it. ``lacking`` is as in `judge`.
    """
    shown = [show(figure, check.unit) for figure in (estimate.low, estimate.high)]
    ours = f"{show(estimate.figure, check.unit)} ({' to '.join(shown)})"
    bound = least if least is not None else most
    assert bound is not None, "a verdict needs a bound"
    reaches = [
        figure >= bound if least is not None else figure <= bound
        for figure in (estimate.low, estimate.high)
    ]
    if len(set(reaches)) > 1:
        lacking = lacking or (
            f"the 95 % interval, {' to '.join(shown)}, contains {show(bound, check.unit)}: needs "
            "more runs of each kind"
        )
    found = judge(check, data, [Reading((), reaches[0], estimate.figure)], lacking)
    return replace(found, ours=ours)


def unmeasured(check: Check, data: str, why: str | None = None) -> Verdict:
    """The verdict on a check without data; without ``why`` it has the check's own reason."""
    return Verdict(check, data, UNMEASURED, why or check.why)


def with_cause(verdict: Verdict, cause: str) -> Verdict:
    """Adds what the data show to a verdict, if the check does not hold under every reading."""
    if not cause or verdict.verdict not in (FAILS, NEEDS):
        return verdict
    return replace(verdict, why=f"{verdict.why}{SEEN}{cause}")


def needed(readings: Sequence[Reading]) -> Choices:
    """The smallest set of choices under which every reading holds.

    Among several sets it is the set that covers the most readings, then the first by name. There is
    always a set: all choices of a single holding reading.
    """
    names = [name for name, _ in readings[0].choices]
    for count in range(len(names) + 1):
        best: tuple[int, Choices] | None = None
        for chosen in itertools.combinations(range(len(names)), count):
            groups: dict[Choices, list[bool]] = {}
            for reading in readings:
                key = tuple(reading.choices[index] for index in chosen)
                groups.setdefault(key, []).append(reading.holds)
            for key, outcomes in sorted(groups.items()):
                if all(outcomes) and (best is None or len(outcomes) > best[0]):
                    best = (len(outcomes), key)
        if best:
            return best[1]
    return ()


def span(figures: Sequence[float], unit: str) -> str:
    """The lowest and highest figure, as text; empty if there is none."""
    if not figures:
        return ""
    low, high = show(min(figures), unit), show(max(figures), unit)
    return low if low == high else f"{low.removesuffix(f' {unit}')} to {high}"


def show(figure: float, unit: str) -> str:
    """A figure as text: a ``share`` as 28.4 %, a ``change`` as -5.0 %, a ``ratio`` as 3.30x."""
    match unit:
        case "share":
            return f"{figure * 100:,.1f} %"
        case "change" if figure > 10:
            return "over +1000 %"
        case "change":
            return f"{figure * 100:+.1f} %"
        case "ratio":
            return f"{figure:.2f}x"
        case _:
            return f"{format_figure(figure)} {unit}"
