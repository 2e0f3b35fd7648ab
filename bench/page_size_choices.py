"""Quality of page sizes that were chosen by a model, or on another input of the same program.

python bench/run.py page_size_choices       needs `make traces`; minutes

Regret is the gain lost against the best size, a share of the time at 4 KiB: five programs at 10 to
90 % of their footprint, sizes from 512 bytes to 64 KiB, as in docs/studies/page-size-2g.md. Nothing
in it is random or timed, so one round suffices; ranges are those of the same figure with each of
the programs left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from measure import Claim

from pagewise.models.page_size import MARGIN
from pagewise.models.page_size_time import PAPER
from pagewise.reference_curves import curves
from pagewise_studies.page_size import PROGRAMS
from pagewise_studies.page_size_cells import OTHERS, Program
from pagewise_studies.page_size_fits import carried, fitted

TRACES = Path(__file__).parent.parent / "build" / "page-size"
SAMPLED = ("optane-pmem", "optane-ssd")
SAMPLED_AT_MOST = 1 / 3
"""Share of the regret of the paper's fits."""
ALIKE_AT_MOST = {"optane-pmem": 0.01, "zram-lz4": 0.01, "optane-ssd": 0.01, "ufs-3.1": 0.05}
"""Mean regret on another input, by storage."""

RANGE = "without each program in turn"

Regrets = Mapping[str, Sequence[float]]
"""The regret of each cell, by program."""


def run(rounds: int) -> list[Claim]:
    """The claims; equal in every round."""
    programs = [program(name) for name in PROGRAMS]
    fits = {each.name: fitted([each], PAPER) for each in programs}
    inputs = {each.name: carried([each], PAPER) for each in programs}

    def of_model(model: str, is_four: bool, storage: str) -> Regrets:
        return {
            name: [
                cell.regret
                for fit in found
                if (fit.model, fit.is_four, fit.storage) == (model, is_four, storage)
                for cell in fit.cells
            ]
            for name, found in fits.items()
        }

    def alike(storage: str) -> Regrets:
        return {
            name: [
                cell.regret
                for fit in found
                if (fit.storage, fit.other, fit.margin) == (storage, "alike", MARGIN)
                for cell in fit.cells
            ]
            for name, found in inputs.items()
        }

    return [
        *(exact(storage, of_model("exact", False, storage)) for storage in ALIKE_AT_MOST),
        *(
            sampled(
                storage,
                of_model("sampled", True, storage),
                [of_model("paper", is_four, storage) for is_four in (False, True)],
            )
            for storage in SAMPLED
        ),
        *(
            another_input(storage, at_most, alike(storage))
            for storage, at_most in ALIKE_AT_MOST.items()
        ),
    ]


def program(name: str) -> Program:
    """The counts of a program and of its other inputs."""
    paths = {of: TRACES / f"{name}{suffix}.pwf" for of, suffix in suffixes().items()}
    for path in paths.values():
        if not path.exists():
            raise SystemExit(f"{path} does not exist: make traces makes it, in 20 minutes")
    counted = {of: curves(path) for of, path in paths.items()}
    return Program(name, counted["first"], {of: counted[of] for of in OTHERS})


def suffixes() -> dict[str, str]:
    """Suffix of a trace's name, by input."""
    return {"first": ""} | {of: f"-{of}" for of in OTHERS}


def exact(storage: str, regrets: Regrets) -> Claim:
    """`exact` judged on the trace on which it was chosen."""
    worst = max(map(max, regrets.values()))
    what = f"{storage}: largest regret of `exact` on its own trace, {cells(regrets)}"
    return Claim(what, "0", f"**{worst * 100:.2g} %**", worst == 0)


def sampled(storage: str, ours: Regrets, papers: Sequence[Regrets]) -> Claim:
    """`sampled` from four sizes by the better of the paper's fits: to all sizes, or to four."""

    def ratio(names: Sequence[str]) -> float:
        return mean(ours, names) / min(mean(each, names) for each in papers)

    everything = list(ours)
    of_paper = min(mean(each, everything) for each in papers)
    return Claim(
        f"{storage}: mean regret of `sampled` from four sizes / of the paper's fits, "
        f"{cells(ours)}; range: {RANGE}",
        f"at most {SAMPLED_AT_MOST:.2f}x",
        f"**{ratio(everything):.2f}x** {spread(ratio, everything, '{:.2f}')}: "
        f"ours {mean(ours, everything) * 100:.2f} %, theirs {of_paper * 100:.2f} %",
        ratio(everything) <= SAMPLED_AT_MOST,
    )


def another_input(storage: str, at_most: float, regrets: Regrets) -> Claim:
    """Chosen on one input and judged on a similar one, both ways."""

    def percent(names: Sequence[str]) -> float:
        return mean(regrets, names) * 100

    everything = list(regrets)
    return Claim(
        f"{storage}: mean regret on another, similar input, margin {MARGIN * 100:.0f} %, "
        f"{cells(regrets)}; range: {RANGE}",
        f"at most {at_most * 100:.0f} %",
        f"**{percent(everything):.2f} %** {spread(percent, everything, '{:.2f}')}",
        percent(everything) <= at_most * 100,
    )


def mean(regrets: Regrets, names: Sequence[str]) -> float:
    """The mean over the cells of these programs."""
    return fmean(regret for name in names for regret in regrets[name])


def spread(figure: Callable[[Sequence[str]], float], names: Sequence[str], form: str) -> str:
    """The range of a figure with each of the programs left out."""
    left = [figure([name for name in names if name != out]) for out in names]
    return f"({form.format(min(left))} to {form.format(max(left))})"


def cells(regrets: Regrets) -> str:
    """The number of cells, as text."""
    return f"{sum(map(len, regrets.values()))} cells"
