"""Summary of a program's runs: its differences, and ratios to stock round by round."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from lazy.store import Measurement, Store
from lazy.summary import spread_of

from programs.measure import differing_runs, outcomes, runs_of
from programs.modes import MODES, OFF, STOCK
from programs.outcome import difference
from programs.places import OUTCOMES
from programs.program import MIB, Program

CPU_LEAST_S = 0.2
"""Below this the start of a program dominates, and one tick of other work matters."""
PEAK_RATIO, PEAK_MORE_BYTES = 1.25, 32 * MIB


def summary(store: Store, program: Program) -> dict[str, Any]:
    """One program: its stock runs, and each mode compared with them."""
    stock = runs_of(store, program, STOCK)
    return {
        "program": program.name,
        "family": program.family,
        "what": program.what,
        "allocates_large": program.allocates_large,
        "cpu_ratio_most": program.cpu_ratio_most,
        "is_together": program.is_together,
        "must_be_served": program.must_be_served,
        "stock_runs": len(stock),
        "stock_outcomes": len(outcomes(stock)),
        "stock_fails": stock_fails(program, stock),
        "stock_cpu_s": middle(stock, "cpu_s"),
        "stock_peak_bytes": middle(stock, "peak_bytes"),
        "stock_charged_bytes": middle(stock, "charged_bytes"),
        "stock_wall_s": middle(stock, "wall_s"),
        "modes": list(modes(store, program, stock)),
    }


def stock_fails(program: Program, stock: list[Measurement]) -> str | None:
    """Why a stock run proves nothing, or None."""
    refusals = (refusal(program, run.figures["end"], text_of(run)) for run in stock)
    return next(filter(None, refusals), None) if stock else "stock was not run"


def refusal(program: Program, end: str, outcome: str) -> str | None:
    """Why a run does not prove that the program did its work, or None."""
    expected = f"status {program.status}" if program.status >= 0 else f"signal {-program.status}"
    if end != expected:
        return f"stock: {end} instead of {expected}"
    if not re.search(program.expects, outcome, re.MULTILINE):
        return f"stock: the output lacks {program.expects!r}"
    return None


def text_of(run: Measurement) -> str:
    """The stored text of the run's outcome."""
    return (OUTCOMES / f"{run.figures['outcome']}.txt").read_text()


def modes(store: Store, program: Program, stock: list[Measurement]) -> Iterator[Mapping[str, Any]]:
    """Each mode with runs, compared with stock."""
    for name in list(MODES)[1:]:
        runs = runs_of(store, program, name)
        if not runs:
            continue
        differing = differing_runs(store, program, name)
        ratios = pairs(stock, runs, "cpu_s")
        must_be_served = False if name == OFF else program.must_be_served
        yield {
            "mode": name,
            "runs": len(runs),
            "differing_runs": len(differing),
            "ends": sorted({run.figures["end"] for run in differing}),
            "difference": difference(text_of(stock[0]), text_of(differing[0]))
            if differing
            else None,
            "served_runs": sum(is_served(run) for run in runs),
            "loaded_runs": sum(run.figures["is_loaded"] for run in runs),
            "misserved_runs": 0
            if must_be_served is None
            else sum(is_served(run) is not must_be_served for run in runs),
            "cpu_ratio": asdict(spread_of(ratios, f"{program.name} {name}")) if ratios else None,
            "peak_bytes": middle(runs, "peak_bytes"),
            "charged_bytes": middle(runs, "charged_bytes"),
            "is_peak_held": all(
                is_held(middle(stock, field), middle(runs, field))
                for field in ("peak_bytes", "charged_bytes")
            ),
        }


def is_served(run: Measurement) -> bool:
    """Whether the library was seen to have served an allocation of the run."""
    return bool(run.figures["served"])


def is_held(stock: float, other: float) -> bool:
    """Whether a peak is within its limit."""
    return other <= max(PEAK_RATIO * stock, stock + PEAK_MORE_BYTES)


def pairs(stock: list[Measurement], runs: list[Measurement], field: str) -> list[float]:
    """The ratios of a mode's figures to those of stock in the same round."""
    of_stock = {run.round: run.figures[field] for run in stock}
    return [run.figures[field] / of_stock[run.round] for run in runs if of_stock.get(run.round)]


def middle(runs: list[Measurement], field: str) -> float:
    """The median of a figure."""
    return median(run.figures[field] for run in runs) if runs else 0
