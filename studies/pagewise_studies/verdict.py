"""Whether a paper's statement holds, under which reading of what the paper leaves unsaid.

A check is judged once per reading: one value for every choice the paper is silent about. It
*holds* if it holds under every reading, *does not hold* only if it fails under every reading; in
between the verdict names the smallest set of choices that is enough to make it hold.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, TypeAlias

from pagewise.units import format_figure

HOLDS = "holds"
FAILS = "does not hold"
NEEDS = "needs a reading"
UNMEASURED = "not measured here"
SEEN = ". Seen here: "
"""Between a check's reason and what its runs show, whose parts end in a semicolon."""

Choices: TypeAlias = tuple[tuple[str, str], ...]
"""What is left open and how it was filled, by name."""


@dataclass(frozen=True)
class Reading:
    """One way to fill the gaps, whether the statement then holds, and the figure it rests on."""

    choices: Choices
    holds: bool
    figure: float | None = None


@dataclass(frozen=True)
class Check:
    """A statement of a paper that can be tested.

    ``name`` is the spec sheet's (``ACC-S1-2``), ``part`` tells the parts of a check apart, ``unit``
    is how figures are printed (see `show`), and ``why`` is the mechanism behind what is seen.
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

    def row(self) -> dict[str, Any]:
        """One row of the verdict table: texts and counts by name."""
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


def judge(check: Check, data: str, readings: Sequence[Reading]) -> Verdict:
    """The verdict over all readings."""
    if not readings:
        return unmeasured(check, data)
    holding = sum(reading.holds for reading in readings)
    if holding == len(readings):
        verdict = HOLDS
    elif holding == 0:
        verdict = FAILS
    else:
        verdict = NEEDS
    figures = sorted(reading.figure for reading in readings if reading.figure is not None)
    return Verdict(
        check,
        data,
        verdict,
        check.why,
        ours=_span(figures, check.unit),
        needs=needed(readings) if verdict == NEEDS else (),
        readings=len(readings),
        holding=holding,
        figures=tuple(figures),
    )


def unmeasured(check: Check, data: str, why: str | None = None) -> Verdict:
    """The honest row of a check without data; ``why`` if not for the check's own reason."""
    return Verdict(check, data, UNMEASURED, why or check.why)


def with_cause(verdict: Verdict, cause: str) -> Verdict:
    """The verdict with what was seen in the data, where it does not hold under every reading."""
    if not cause or verdict.verdict not in (FAILS, NEEDS):
        return verdict
    return replace(verdict, why=f"{verdict.why}{SEEN}{cause}")


def needed(readings: Sequence[Reading]) -> Choices:
    """The fewest choices under which every reading holds; of several sets, the one that covers the
    most readings, then the first by name.

    There is always one: all choices of a single holding reading.
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


def _span(figures: Sequence[float], unit: str) -> str:
    """The lowest and highest figure over the readings, as text."""
    if not figures:
        return ""
    low, high = show(figures[0], unit), show(figures[-1], unit)
    return low if low == high else f"{low.removesuffix(f' {unit}')} to {high}"


def show(figure: float, unit: str) -> str:
    """With its unit: ``share`` .284 as 28.4 %, ``change`` -.05 as -5.0 %, ``ratio`` as 3.30x."""
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
