"""The acceptance checks of spec sheet S4, each judged under every reading of what S4 leaves unsaid.

Unsaid are the denominator, whether first touches count as faults, the levels of the TLB, what NVM
storage is, which page sizes may be taken, and, for the hard disk, whether the kernel reads ahead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, median

from pagewise.models.page_size import LEAST_GAIN, rates_by_size
from pagewise.models.page_size_curves import footprint_bytes
from pagewise.models.page_size_time import DENOMINATORS, PAPER, TLB_LEVELS, Terms
from pagewise.reference_curves import EXACT_FROM
from pagewise.units import PAGE_BYTES
from pagewise_studies.page_size_cells import (
    FITTED_BYTES,
    NVM,
    PAPER_BYTES,
    SHARES,
    TARGET_BYTES,
    Cell,
    Program,
    best_of,
    machine_of,
)
from pagewise_studies.page_size_coverage import lacking
from pagewise_studies.page_size_fits import Fitted
from pagewise_studies.page_size_vms import AMPLE, PAIRS, VMS, Outcome, Vm, outcome
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks, unmeasured

CHECKS = load_checks("page-size")
SIZES = (("1 to 32 KiB", PAPER_BYTES), ("4, 16, 64 KiB", TARGET_BYTES))
READAHEAD_BYTES = 32768
"""Linux reads swap in clusters of eight pages of 4 KiB."""
TRUSTED_R2 = 0.99
LEVEL = 0.05
"""How far from 4 KiB still counts as flat (S4.6)."""
TENFOLD = 10.0
"""How we read "translation share NVM >> HDD"."""


@dataclass(frozen=True)
class Run:
    """The machines under one reading; none of a storage where one of its memories is too small for
    the counts to be exact."""

    choices: Choices
    nvm: Sequence[Outcome]
    hdd: Sequence[Outcome]

    def of(self, *names: str) -> list[Outcome]:
        """The machines of these names."""
        return [one for one in (*self.nvm, *self.hdd) if one.vm.name in names]


def verdicts(programs: Mapping[str, Program], fits: Sequence[Fitted], data: str) -> list[Verdict]:
    """Every check on the programs together; ``data`` names them."""
    runs = list(_runs(programs, NVM, (0,)))
    of_nvm = [run for run in runs if run.nvm]
    of_both = [run for run in of_nvm if run.hdd]
    of_hdd = [run for run in _runs(programs, NVM[:1], (0, READAHEAD_BYTES)) if run.hdd]
    steps = [(name, *pair) for name in programs for pair in itertools.pairwise(SHARES)]
    found = {
        "u_shape": _each(of_nvm, _u_shape),
        "hdd_flat": _each(of_hdd, _hdd_flat),
        "translation": _each(of_both, _translation),
        "monotone": list(_monotone(programs, steps)),
        "pairs": list(_monotone(programs, PAIRS)),
        "all_gain": _each(of_nvm, _all_gain),
        "mean_gain": _each(of_nvm, _mean_gain),
        "largest": _each(of_nvm, _largest),
        "hdd_none": _each(of_hdd, _hdd_none),
        "scarce": _each(of_nvm, _scarce),
        "span": _each(of_both, _span),
        "model": list(_model(fits)),
        "fit_trust": list(_fit_trust(fits)),
        "saturation": list(_saturation(programs)),
        "scarce_class": _each(of_nvm, _scarce_class),
        "ample_class": _each(of_nvm, _ample_class),
    }
    too_short = lacking(programs)
    return [
        unmeasured(CHECKS[name], data, too_short[name])
        if name in too_short
        else judge(CHECKS[name], data, readings)
        for name, readings in found.items()
    ]


def _runs(
    programs: Mapping[str, Program], storages: Sequence[str], readahead: Sequence[int]
) -> Iterator[Run]:
    """The machines under every reading; read-ahead is one of the hard disk alone."""
    for terms, ahead in itertools.product(_terms(), readahead):
        for nvm, (sizes_name, sizes) in itertools.product(storages, SIZES):
            filled = replace(terms, readahead_bytes=ahead)
            choices = (
                ("references", terms.references),
                ("first touches", terms.cold),
                ("TLB levels", str(terms.tlb_levels)),
                ("read-ahead", "32 KiB" if ahead else "off"),
                ("NVM", nvm),
                ("sizes", sizes_name),
            )
            cells = [(vm, vm.cell(programs, nvm, filled)) for vm in VMS]
            yield Run(
                choices,
                nvm=_outcomes([pair for pair in cells if not pair[0].is_hdd], sizes),
                hdd=_outcomes([pair for pair in cells if pair[0].is_hdd], sizes),
            )


def _outcomes(cells: Sequence[tuple[Vm, Cell]], sizes: Sequence[int]) -> list[Outcome]:
    if not all(cell.judged((PAGE_BYTES,)) for _, cell in cells):
        return []
    return [outcome(vm, cell, sizes) for vm, cell in cells]


def _terms() -> Iterator[Terms]:
    for references, levels in itertools.product(DENOMINATORS, TLB_LEVELS):
        yield Terms(references=references, cold="counted", tlb_levels=levels)
        yield Terms(references=references, cold="zero-fill", tlb_levels=levels)


def _each(runs: Sequence[Run], test: Callable[[Run], tuple[bool, float]]) -> list[Reading]:
    return [Reading(_without_constant(run.choices, runs), *test(run)) for run in runs]


def _without_constant(choices: Choices, runs: Sequence[Run]) -> Choices:
    """The choices that differ between the runs."""
    varied = {
        name for name, value in choices if any((name, value) not in run.choices for run in runs)
    }
    return tuple(pair for pair in choices if pair[0] in varied)


def _u_shape(run: Run) -> tuple[bool, float]:
    share = fmean(one.is_u_shaped for one in run.nvm)
    return share == 1, share


def _hdd_flat(run: Run) -> tuple[bool, float]:
    spread = max(one.spread for one in run.hdd)
    return spread <= LEVEL, spread


def _translation(run: Run) -> tuple[bool, float]:
    nvm, hdd = (fmean(one.translation_share for one in of) for of in (run.nvm, run.hdd))
    return nvm >= TENFOLD * hdd, nvm / hdd


def _all_gain(run: Run) -> tuple[bool, float]:
    gains = [one.gain for one in run.nvm]
    return all(0.1 <= gain <= 0.6 for gain in gains), min(gains)


def _mean_gain(run: Run) -> tuple[bool, float]:
    mean = fmean(one.gain for one in run.nvm)
    return 0.25 <= mean <= 0.5, mean


def _largest(run: Run) -> tuple[bool, float]:
    best = max(run.nvm, key=lambda one: one.gain)
    return best.vm.share >= 0.8 and best.gain > 0, best.gain


def _hdd_none(run: Run) -> tuple[bool, float]:
    largest = max(one.gain for one in run.hdd)
    return largest < LEAST_GAIN, largest


def _scarce(run: Run) -> tuple[bool, float]:
    largest = max(one.page_bytes for one in run.nvm if one.vm.is_scarce)
    return largest < PAGE_BYTES, largest / 1024


def _span(run: Run) -> tuple[bool, float]:
    sizes = [one.page_bytes for one in (*run.nvm, *run.hdd)]
    return min(sizes) <= 1024 and max(sizes) >= 32768, max(sizes) / min(sizes)


def _scarce_class(run: Run) -> tuple[bool, float]:
    ratio = min(one.fault_ns / one.translation_ns for one in run.nvm if one.vm.is_scarce)
    return ratio > 1, ratio


def _ample_class(run: Run) -> tuple[bool, float]:
    ample = run.of(*AMPLE)
    ratio = min(one.translation_ns / one.fault_ns for one in ample)
    return ratio > 1 and all(one.page_bytes > PAGE_BYTES for one in ample), ratio


def _monotone(
    programs: Mapping[str, Program], pairs: Sequence[tuple[str, float, float]]
) -> Iterator[Reading]:
    """Over steps of memory (program, from, to): the share of them in which the size falls."""
    judged = [
        (name, less, more)
        for name, less, more in pairs
        if less * footprint_bytes(programs[name].curves) // PAGE_BYTES > EXACT_FROM
    ]
    if not judged:
        return
    for terms in _terms():
        if terms.references == "cpu":
            continue  # The denominator moves no optimum.
        for nvm, (sizes_name, sizes) in itertools.product(NVM, SIZES):
            machine = machine_of(nvm, terms)

            @cache
            def taken(name: str, share: float) -> int:
                cell = Cell(programs[name].curves, share, machine)  # noqa: B023
                return best_of(cell, sizes)  # noqa: B023

            falls = [taken(name, less) > taken(name, more) for name, less, more in judged]
            choices = (
                ("first touches", terms.cold),
                ("TLB levels", str(terms.tlb_levels)),
                ("NVM", nvm),
                ("sizes", sizes_name),
            )
            yield Reading(choices, not any(falls), fmean(falls))


def _model(fits: Sequence[Fitted]) -> Iterator[Reading]:
    for one in fits:
        if one.model == "paper":
            middle = median(cell.regret for cell in one.cells)
            yield Reading(_fit_choices(one), middle <= LEVEL, middle)


def _fit_trust(fits: Sequence[Fitted]) -> Iterator[Reading]:
    for one in fits:
        trusted = [cell for cell in one.cells if cell.r2 is not None and cell.r2 >= TRUSTED_R2]
        if one.model == "paper" and trusted:
            wrong = fmean(cell.steps > 0 for cell in trusted)
            yield Reading(_fit_choices(one), wrong == 0, wrong)


def _fit_choices(one: Fitted) -> Choices:
    return (("storage", one.storage), ("fitted to", "4 sizes" if one.is_four else "all sizes"))


def _saturation(programs: Mapping[str, Program]) -> Iterator[Reading]:
    """The power fit of TLB misses, of each program in turn."""
    machine = machine_of(NVM[0], PAPER)
    for program in programs.values():
        memory = footprint_bytes(program.curves)
        counted, modelled = (
            rates_by_size(program.curves, FITTED_BYTES, memory, machine, model)
            for model in ("exact", "paper")
        )
        ratios = [float(modelled[size].last_tlb / counted[size].last_tlb) for size in FITTED_BYTES]
        off = fmean(not 0.5 <= ratio <= 2 for ratio in ratios)
        yield Reading((("program", program.name),), off == 0, off)
