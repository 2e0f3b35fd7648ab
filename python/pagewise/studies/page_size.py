"""S4: the page size of a virtual machine from its workload, memory and storage.

On the counts of five real programs in place of the paper's five. Tables and checks are in the
modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pagewise.studies import outcome
from pagewise.studies import page_size_checks as checks
from pagewise.studies import page_size_fits as fits
from pagewise.studies import page_size_tables as tables
from pagewise.studies import page_size_vms as vms
from pagewise.studies.page_size_cells import Program

NAME = "page-size"
PROGRAMS = ("game", "office", "photo", "pdf", "multimedia")


def assembled(
    programs: Sequence[Program], output: Path, paths: dict[str, Path], recordings: Path
) -> dict[str, Any]:
    """The result from the counts of the programs."""
    from pagewise.models.page_size_time import PAPER

    by_name = {program.name: program for program in programs}
    fitted = fits.fitted(programs, PAPER)
    return outcome.assemble(
        NAME,
        output,
        title="S4: a page size for each virtual machine",
        figures=[*vms.figures(by_name, PAPER), *tables.figures(programs, PAPER)],
        verdicts=checks.verdicts(by_name, fitted, "five programs"),
        tables=[
            vms.table(by_name, PAPER),
            tables.readings_table(by_name, PAPER),
            fits.fits_table(fitted),
            fits.carried_table(fits.carried(programs, PAPER)),
            tables.best_table(programs, PAPER),
            tables.fixed_table(programs, PAPER),
            tables.programs_table(programs),
        ],
        inputs={path.name: path for path in paths.values()},
        arguments=f"--recordings {recordings}",
        seeds=(),
        seeded="",
    )
