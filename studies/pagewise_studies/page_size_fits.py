"""The accuracy of models from few sizes, and of choices on another input of the same program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy

from pagewise.models.page_size import MARGIN, WIDE_MARGIN, mean_times_ns
from pagewise.models.page_size_curves import Curves
from pagewise.models.page_size_fit import four_of
from pagewise.models.page_size_time import Machine, Model, Rates, Terms
from pagewise_studies.page_size_cells import (
    FITTED_BYTES,
    OTHERS,
    SHARES,
    STORAGES,
    Cell,
    Program,
    machine_of,
    regret,
)
from pagewise_studies.table import Row, Table

SAMPLES_MIN = 4
"""A cell with fewer sizes has too few for a fit."""
FORMS: tuple[tuple[Model, bool], ...] = (
    ("exact", False), ("paper", False), ("paper", True), ("sampled", True)
)  # fmt: skip
"""Each model, and whether it gets only four sizes."""


@dataclass(frozen=True)
class Judged:
    """A size chosen from incomplete data: its steps from the best size, and its regret."""

    steps: int
    regret: float
    r2: float | None = None
    """R2 of the fault rate; None if nothing was fitted."""
    error: float | None = None
    """Mean relative error of T_TOTAL over the sizes; None if nothing was fitted."""


@dataclass(frozen=True)
class Fitted:
    """The outcome of a model on each cell of a storage."""

    storage: str
    model: Model
    is_four: bool
    cells: Sequence[Judged]


def fitted(programs: Sequence[Program], terms: Terms) -> list[Fitted]:
    """Judges each model on each program, memory and storage; fits do not depend on the storage."""
    found: list[Fitted] = []
    machines = [machine_of(storage, terms) for storage in STORAGES]
    for model, is_four in FORMS:
        by_storage: list[list[Judged]] = [[] for _ in machines]
        for cell, sizes in _cells(programs, machines[0]):
            counted = cell.rates(sizes)
            modelled = cell.rates(sizes, model, four_of(sizes) if is_four else sizes)
            for outcomes, machine in zip(by_storage, machines, strict=True):
                here = Cell(cell.curves, cell.share, machine)
                outcomes.append(_judged(here, counted, modelled))
        found += [
            Fitted(storage, model, is_four, outcomes)
            for storage, outcomes in zip(STORAGES, by_storage, strict=True)
        ]
    return found


def _cells(programs: Sequence[Program], machine: Machine) -> Iterator[tuple[Cell, tuple[int, ...]]]:
    for program in programs:
        for share in SHARES:
            cell = Cell(program.curves, share, machine)
            sizes = cell.judged(FITTED_BYTES)
            if len(sizes) >= SAMPLES_MIN:
                yield cell, sizes


def _judged(cell: Cell, counted: Mapping[int, Rates], modelled: Mapping[int, Rates]) -> Judged:
    total, guessed = cell.total_ns(counted), cell.total_ns(modelled)
    exact, fit = ([float(rate.read) for rate in rates.values()] for rates in (counted, modelled))
    around = sum((rate - fmean(exact)) ** 2 for rate in exact)
    off = sum((a - b) ** 2 for a, b in zip(exact, fit, strict=True))
    return Judged(
        steps=_steps(total, min(guessed, key=guessed.__getitem__)),
        regret=regret(total, min(guessed, key=guessed.__getitem__)),
        r2=1 - off / around if around else None,
        error=fmean(abs(guessed[size] / total[size] - 1) for size in total),
    )


def _steps(total_ns: Mapping[int, float], page_bytes: int) -> int:
    sizes = list(total_ns)
    return abs(sizes.index(page_bytes) - sizes.index(min(total_ns, key=total_ns.__getitem__)))


def fits_table(found: Sequence[Fitted]) -> Table:
    """The table of cells in which each model names the right size, and the cost of wrong sizes."""
    rows: list[Row] = []
    for fit in found:
        r2 = [cell.r2 for cell in fit.cells if cell.r2 is not None]
        rows.append(
            {
                "storage": fit.storage,
                "model": fit.model,
                "from sizes": "4" if fit.is_four else "all",
                **_summary(fit.cells),
                "error of T_TOTAL, mean": percent(
                    [c.error for c in fit.cells if c.error is not None]
                ),
                "R2 of faults, median": median(r2) if r2 else None,
                "R2 of faults, least": min(r2) if r2 else None,
            }
        )
    return Table(
        "fits",
        "Models against counts",
        "A cell is one of five programs at 10 to 90 % of its footprint; sizes are 512 B to 64 KiB "
        "that leave 64 frames. *Right*: cells where the model chooses the best size; *one step*: "
        "the best size or a neighbour. *Regret*: the gain lost against the best size, as a share "
        "of the time at 4 KiB; *p90*: 90 % of the cells lose at most that. The model `exact` uses "
        "the counts, `paper` the fits of S4, `sampled` a curve through the counts of four sizes. "
        "T_TOTAL is the time per reference.",
        rows,
    )


def percent(values: Sequence[float]) -> str:
    """The mean of the values as a percentage."""
    return f"{fmean(values) * 100:.2f} %" if values else ""


def _summary(cells: Sequence[Judged]) -> Row:
    regrets = [cell.regret for cell in cells]
    return {
        "cells": len(cells),
        "right": sum(cell.steps == 0 for cell in cells),
        "one step": sum(cell.steps <= 1 for cell in cells),
        "regret mean": percent(regrets),
        "regret p90": f"{numpy.quantile(regrets, 0.9) * 100:.1f} %" if regrets else "",
        "regret max": f"{max(regrets) * 100:.1f} %" if regrets else "",
    }


@dataclass(frozen=True)
class Carried:
    """Sizes chosen on an input and judged on another input, for a storage and a margin."""

    storage: str
    other: str
    margin: float
    cells: Sequence[Judged]


def carried(programs: Sequence[Program], terms: Terms) -> list[Carried]:
    """Judges each program in both directions, at the same share of each input's footprint."""
    found = []
    for other in OTHERS:
        pairs = [
            (program.curves, program.others[other])
            for program in programs
            if other in program.others
        ]
        if not pairs:
            continue
        pairs += [(there, here) for here, there in pairs]
        found += [
            Carried(storage, other, margin, list(_carry(pairs, machine_of(storage, terms), margin)))
            for storage in STORAGES
            for margin in (0.0, MARGIN, WIDE_MARGIN)
        ]
    return found


def _carry(
    pairs: Sequence[tuple[Curves, Curves]], machine: Machine, margin: float
) -> Iterator[Judged]:
    for pair in pairs:
        for share in SHARES:
            here, there = (Cell(curves, share, machine) for curves in pair)
            judged = set(here.judged(FITTED_BYTES, margin)) & set(there.judged(FITTED_BYTES))
            sizes = sorted(judged)
            if len(sizes) < SAMPLES_MIN:
                continue
            mean_ns = mean_times_ns(here.curves, sizes, here.memory_bytes, machine, margin)
            chosen = min(mean_ns, key=mean_ns.__getitem__)
            total = there.total_ns(there.rates(sizes))
            yield Judged(_steps(total, chosen), regret(total, chosen))


def carried_table(found: Sequence[Carried]) -> Table:
    """The table of the cost of a choice on another input."""
    return Table(
        "carry-over",
        "Chosen on one input, judged on another",
        "Each program in both directions, at 10 to 90 % of the footprint of each input, with sizes "
        "from 512 B to 64 KiB. *Alike*: the other input has the same kind and size; *unlike*: "
        "another size. *Margin*: the choice is best for the mean over memories within this share.",
        [
            {
                "storage": outcome.storage,
                "other input": outcome.other,
                "margin": f"{outcome.margin * 100:.0f} %",
                **_summary(outcome.cells),
            }
            for outcome in found
        ],
    )
