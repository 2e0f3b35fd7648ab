"""The acceptance checks of spec sheet S4, each judged under every reading of S4's open choices.

S4 leaves open the denominator, whether first touches count as faults, the levels of the TLB, the
NVM storage, which page sizes are allowed, and whether the kernel reads ahead from the hard disk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, median

from pagewise.models.page_size import LEAST_GAIN, rates_by_size
from pagewise.models.page_size_curves import footprint_bytes
from pagewise.models.page_size_time import (
    DENOMINATORS,
    PAPER,
    TLB_LEVELS,
    FirstTouch,
    Terms,
)
from pagewise.reference_curves import EXACT_FROM
from pagewise.units import PAGE_BYTES
from pagewise_studies.page_size_cells import (
    FITTED_BYTES,
    NVM,
    PAPER_BYTES,
    SHARES,
    TARGET_BYTES,
    WALKS,
    Cell,
    Program,
    best_of,
    machine_of,
)
from pagewise_studies.page_size_coverage import lacking
from pagewise_studies.page_size_fits import Fitted
from pagewise_studies.page_size_vms import AMPLE, PAIRS, VMS, MachineOutcome, Vm, outcome
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks, unmeasured

CHECKS = load_checks("page-size")
SIZES = (("1 to 32 KiB", PAPER_BYTES), ("4, 16, 64 KiB", TARGET_BYTES))
READAHEAD_BYTES = 32768
"""Linux reads swap in clusters of eight pages of 4 KiB."""
TRUSTED_R2 = 0.99
LEVEL = 0.05
"""The largest departure from the time at 4 KiB that counts as flat (S4.6)."""
TENFOLD = 10.0
"""The factor by which we read ">>" in "translation share NVM >> HDD"."""


@dataclass(frozen=True)
class Machines:
    """The machines under one reading.

    ``nvm`` or ``hdd`` is empty if one of its memories is too small for exact counts.
    """

    choices: Choices
    nvm: Sequence[MachineOutcome]
    hdd: Sequence[MachineOutcome]

    def of(self, *names: str) -> list[MachineOutcome]:
        """The machines with these names."""
        return [machine for machine in (*self.nvm, *self.hdd) if machine.vm.name in names]


def verdicts(programs: Mapping[str, Program], fits: Sequence[Fitted], data: str) -> list[Verdict]:
    """The verdict of each check on all programs together; ``data`` names them."""
    cases = list(_cases(programs, NVM, (0,)))
    of_nvm = [machines for machines in cases if machines.nvm]
    of_both = [machines for machines in of_nvm if machines.hdd]
    of_hdd = [
        machines for machines in _cases(programs, NVM[:1], (0, READAHEAD_BYTES)) if machines.hdd
    ]
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


def _cases(
    programs: Mapping[str, Program], storages: Sequence[str], readahead: Sequence[int]
) -> Iterator[Machines]:
    """The machines under every reading; only readings of the hard disk vary read-ahead."""
    for terms, ahead in itertools.product(_terms(), readahead):
        for nvm, (sizes_name, sizes) in itertools.product(storages, SIZES):
            filled = replace(terms, readahead_bytes=ahead)
            choices = (
                ("references", terms.references),
                ("first touches", terms.cold),
                ("TLB levels", str(terms.tlb_levels)),
                _walk(terms),
                ("read-ahead", "32 KiB" if ahead else "off"),
                ("NVM", nvm),
                ("sizes", sizes_name),
            )
            cells = [(vm, vm.cell(programs, nvm, filled)) for vm in VMS]
            yield Machines(
                choices,
                nvm=_outcomes([pair for pair in cells if not pair[0].is_hdd], sizes),
                hdd=_outcomes([pair for pair in cells if pair[0].is_hdd], sizes),
            )


def _outcomes(cells: Sequence[tuple[Vm, Cell]], sizes: Sequence[int]) -> list[MachineOutcome]:
    if not all(cell.judged((PAGE_BYTES,)) for _, cell in cells):
        return []
    return [outcome(vm, cell, sizes) for vm, cell in cells]


COLD: tuple[FirstTouch, ...] = ("counted", "zero-fill")


def _terms() -> Iterator[Terms]:
    for references, levels, (walk, cached), cold in itertools.product(
        DENOMINATORS, TLB_LEVELS, WALKS, COLD
    ):
        yield Terms(
            references=references, cold=cold, tlb_levels=levels, walk=walk, cached_levels=cached
        )


def _walk(terms: Terms) -> tuple[str, str]:
    """The choice of the page walk, as in a reading."""
    return "accesses of a walk", str(terms.walk_accesses)


def _each(
    cases: Sequence[Machines], test: Callable[[Machines], tuple[bool, float]]
) -> list[Reading]:
    return [
        Reading(_without_constant(machines.choices, cases), *test(machines)) for machines in cases
    ]


def _without_constant(choices: Choices, cases: Sequence[Machines]) -> Choices:
    """The choices that differ between cases."""
    varied = {
        name
        for name, value in choices
        if any((name, value) not in machines.choices for machines in cases)
    }
    return tuple(pair for pair in choices if pair[0] in varied)


def _u_shape(machines: Machines) -> tuple[bool, float]:
    share = fmean(machine.is_u_shaped for machine in machines.nvm)
    return share == 1, share


def _hdd_flat(machines: Machines) -> tuple[bool, float]:
    spread = max(machine.spread for machine in machines.hdd)
    return spread <= LEVEL, spread


def _translation(machines: Machines) -> tuple[bool, float]:
    nvm, hdd = (
        fmean(machine.translation_share for machine in of) for of in (machines.nvm, machines.hdd)
    )
    return nvm >= TENFOLD * hdd, nvm / hdd


def _all_gain(machines: Machines) -> tuple[bool, float]:
    gains = [machine.gain for machine in machines.nvm]
    return all(0.1 <= gain <= 0.6 for gain in gains), min(gains)


def _mean_gain(machines: Machines) -> tuple[bool, float]:
    mean = fmean(machine.gain for machine in machines.nvm)
    return 0.25 <= mean <= 0.5, mean


def _largest(machines: Machines) -> tuple[bool, float]:
    best = max(machines.nvm, key=lambda machine: machine.gain)
    return best.vm.share >= 0.8 and best.gain > 0, best.gain


def _hdd_none(machines: Machines) -> tuple[bool, float]:
    largest = max(machine.gain for machine in machines.hdd)
    return largest < LEAST_GAIN, largest


def _scarce(machines: Machines) -> tuple[bool, float]:
    largest = max(machine.page_bytes for machine in machines.nvm if machine.vm.is_scarce)
    return largest < PAGE_BYTES, largest / 1024


def _span(machines: Machines) -> tuple[bool, float]:
    sizes = [machine.page_bytes for machine in (*machines.nvm, *machines.hdd)]
    return min(sizes) <= 1024 and max(sizes) >= 32768, max(sizes) / min(sizes)


def _scarce_class(machines: Machines) -> tuple[bool, float]:
    ratio = min(
        machine.fault_ns / machine.translation_ns
        for machine in machines.nvm
        if machine.vm.is_scarce
    )
    return ratio > 1, ratio


def _ample_class(machines: Machines) -> tuple[bool, float]:
    ample = machines.of(*AMPLE)
    ratio = min(machine.translation_ns / machine.fault_ns for machine in ample)
    return ratio > 1 and all(machine.page_bytes > PAGE_BYTES for machine in ample), ratio


def _monotone(
    programs: Mapping[str, Program], pairs: Sequence[tuple[str, float, float]]
) -> Iterator[Reading]:
    """Readings of the share of memory steps (program, from, to) in which the size falls."""
    judged = [
        (name, less, more)
        for name, less, more in pairs
        if less * footprint_bytes(programs[name].curves) // PAGE_BYTES > EXACT_FROM
    ]
    if not judged:
        return
    for terms in _terms():
        if terms.references == "cpu":
            continue  # No optimum depends on the denominator.
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
                _walk(terms),
                ("NVM", nvm),
                ("sizes", sizes_name),
            )
            yield Reading(choices, not any(falls), fmean(falls))


def _model(fits: Sequence[Fitted]) -> Iterator[Reading]:
    for fit in fits:
        if fit.model == "paper":
            middle = median(cell.regret for cell in fit.cells)
            yield Reading(_fit_choices(fit), middle <= LEVEL, middle)


def _fit_trust(fits: Sequence[Fitted]) -> Iterator[Reading]:
    for fit in fits:
        trusted = [cell for cell in fit.cells if cell.r2 is not None and cell.r2 >= TRUSTED_R2]
        if fit.model == "paper" and trusted:
            wrong = fmean(cell.steps > 0 for cell in trusted)
            yield Reading(_fit_choices(fit), wrong == 0, wrong)


def _fit_choices(fit: Fitted) -> Choices:
    return (("storage", fit.storage), ("fitted to", "4 sizes" if fit.is_four else "all sizes"))


def _saturation(programs: Mapping[str, Program]) -> Iterator[Reading]:
    """Readings of the power fit of TLB misses, one for each program."""
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
