"""S4: the page size of a virtual machine from its workload, memory and storage.

Five real programs stand for the paper's five; PROGRAM.pwf is the trace of each. PROGRAM-alike.pwf
and PROGRAM-unlike.pwf have other inputs, which show whether a choice carries over.
tools/page_size_traces.sh makes the traces. Tables and checks are in the modules beside this one.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pagewise.comparisons import StudyResult
from pagewise.errors import UsageError
from pagewise.models.page_size_time import PAPER
from pagewise.recording import Progress
from pagewise.reference_curves import curves
from pagewise_studies import outcome
from pagewise_studies import page_size_checks as checks
from pagewise_studies import page_size_coverage as coverage
from pagewise_studies import page_size_fits as fits
from pagewise_studies import page_size_tables as tables
from pagewise_studies import page_size_vms as vms
from pagewise_studies.page_size_cells import OTHERS, Program

NAME = "page-size"
FOLDER = "page-size"
"""The folder of the shipped traces in examples/."""
PROGRAMS = ("game", "office", "photo", "pdf", "multimedia")


def study(recordings: Path, output: Path, *, seeds: int, progress: Progress | None) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object.

    ``recordings``: the folder of the traces, or a folder that contains it as ``page-size``. The
    study is deterministic and ignores ``seeds``.
    """
    paths = {name: path for program in PROGRAMS for name, path in _paths(recordings, program)}
    counted = {}
    for done, (name, path) in enumerate(paths.items()):
        counted[name] = curves(path)
        if progress is not None:
            progress(done + 1, len(paths))
    programs = [
        Program(
            name,
            counted[name],
            {of: counted[f"{name}-{of}"] for of in OTHERS if f"{name}-{of}" in counted},
        )
        for name in PROGRAMS
    ]
    return assembled(programs, output, paths, recordings)


def assembled(
    programs: Sequence[Program], output: Path, paths: dict[str, Path], recordings: Path
) -> StudyResult:
    """Writes and returns the result, from the counts of the programs."""
    by_name = {program.name: program for program in programs}
    fitted = fits.fitted(programs, PAPER)
    other_inputs = fits.carried(programs, PAPER)
    verdicts = checks.verdicts(by_name, fitted, "five programs")
    return outcome.assemble(
        NAME,
        output,
        title="S4: a page size for each virtual machine",
        figures=[*vms.figures(by_name, PAPER), *tables.figures(programs, PAPER)],
        verdicts=verdicts,
        tables=[
            *coverage.beside(programs, verdicts, list(checks.CHECKS)),
            coverage.table(programs),
            vms.table(by_name, PAPER),
            tables.readings_table(by_name, PAPER),
            fits.fits_table(fitted),
            *([fits.carried_table(other_inputs)] if other_inputs else []),
            tables.best_table(programs, PAPER),
            tables.fixed_table(programs, PAPER),
            tables.programs_table(programs),
        ],
        inputs={path.name: path for path in paths.values()},
        arguments=f"--recordings {shlex.quote(str(recordings))}",
        seeds=(),
        seeded="",
    )


def _paths(folder: Path, program: str) -> list[tuple[str, Path]]:
    """The names and files of a program's traces."""
    if not (folder / f"{program}.pwf").is_file():
        folder = folder / FOLDER
    first = folder / f"{program}.pwf"
    if not first.is_file():
        raise UsageError(
            f"{first}: this study needs the trace",
            path=str(first),
            hint="make traces makes them in build/page-size; give --recordings build/page-size",
        )
    others = [(f"{program}-{of}", folder / f"{program}-{of}.pwf") for of in OTHERS]
    return [(program, first), *(pair for pair in others if pair[1].is_file())]
