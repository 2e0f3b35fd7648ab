"""`pagewise study`: repeat a paper's experiment on recordings, scenarios and launch runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pagewise.commands.options import Json, tell_losses
from pagewise.errors import UsageError
from pagewise.storage import making, refuse_unwritable, write_text
from pagewise.studies import STUDIES, Study
from pagewise.studies.text import markdown, ruling, support, table_rows, verdict_rows
from pagewise.studies.workloads import examples_folder
from pagewise.terminal import figures, show, show_json, watched

EXAMPLES = (
    "pagewise study multiswap",
    "pagewise study nvm-cache --report nvm-cache.html",
    "pagewise study page-size --report page-size.html",
    "pagewise study thrash examples/phone-1g examples/kill-1g examples/phone-2g examples/kill-2g",
    "pagewise study predict examples/phone-1g",
    "pagewise study launch examples/no-limit examples/kill-1g",
    "pagewise study launch --simulated",
    "pagewise study lazy-unmap examples/allocations/*.pgr",
    "pagewise study kill-anatomy build/kill-anatomy",
)
NAMES = ", ".join(study.name for study in STUDIES)
SUMMARIES = "; ".join(f"{study.name} ({study.summary})" for study in STUDIES)
OF_RUNS = " and ".join(study.name for study in STUDIES if study.of_runs)
SIMULATING = " and ".join(study.name for study in STUDIES if study.simulates)


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"The study: {SUMMARIES}.", show_default=False)
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            help="Run folders of `pagewise-agent launch`; for lazy-unmap, recordings of "
            "`pagewise-agent record --allocations`; for kill-anatomy, the folder of `make kills`. "
            f"Only for {OF_RUNS}.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder for results; default: build/study-NAME.",
        ),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with the recordings; default: examples."),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulated", help=f"Use simulated phones instead of runs; only for {SIMULATING}."
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Seeds per generated scenario.")
    ] = 2,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help=f"Seed of the intervals; only for {OF_RUNS}.")
    ] = 1,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Also write the result as one HTML file."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the report if it exists.")
    ] = False,
    json: Json = False,
) -> None:
    """Repeat a paper's experiment, and show which of its claims hold, and why.

    Writes NAME.json, NAME.md with verdicts, reasons and tables, and one CSV file per figure (x,
    series, y, std, n, seed, config_hash). It also keeps finished simulations, which the next run
    reuses.
    """
    study = found(name, bool(runs), simulated)
    label = f"{name}-simulated" if simulated else name
    output = output or Path("build") / f"study-{label}"
    with making(output), watched(f"study {label}") as progress:
        if report is not None:
            refuse_unwritable(report, force=force)
        if runs:
            result = study.run(runs, output, seed=seed, progress=progress)
        else:
            folder = recordings or examples_folder()
            runner = study.simulate if simulated else study.run
            result = runner(folder, output, seeds=seeds, progress=progress)
    for run, losses in result["losses"].items():
        tell_losses({"losses": losses}, run)
    write_text(output / f"{label}.md", markdown(result))
    if report is not None:
        from pagewise.report import report as write_report

        write_report([output / f"{label}.json"], report, command=result["command"], force=True)
    if json:
        show_json(result)
        return
    show(*described(result), f"Figures, tables and reasons: {output}")


def found(name: str, has_runs: bool, is_simulated: bool = False) -> Study:
    """The study of this name. Raises UsageError for an unknown name or the wrong kind of data."""
    study = next((row for row in STUDIES if row.name == name), None)
    if study is None:
        raise UsageError(f"no study is called {name!r}", hint=f"there are: {NAMES}")
    if is_simulated:
        if study.simulates and not has_runs:
            return study
        raise UsageError(
            f"study {name} {'takes no runs with --simulated' if has_runs else 'simulates nothing'}",
            hint=f"--simulated takes no runs, and works only for {SIMULATING}",
        )
    if study.of_runs != has_runs:
        raise UsageError(
            f"study {name} {'needs its runs or recordings' if study.of_runs else 'takes no runs'}",
            hint=f"for example: {next(line for line in EXAMPLES if f' {name}' in line)}",
        )
    return study


def described(result: Mapping[str, Any]) -> list[Any]:
    """The verdicts and the tables."""
    columns, rows = verdict_rows(result)
    shown = [columns.index(column) for column in ("check", "on", "paper", "ours")]
    verdicts = figures(
        ["check", "on", "paper", "ours", "verdict", "readings"],
        [
            [*(row[index] for index in shown), ruling(verdict), support(verdict)]
            for row, verdict in zip(rows, result["verdicts"], strict=True)
        ],
        words=6,
    )
    tables = (
        piece
        for table in result["tables"]
        for piece in (f"\n{table['title']}", figures(*table_rows(table), words=words(table)))
    )
    return [result["title"], verdicts, *tables]


def words(table: Mapping[str, Any]) -> int:
    """How many columns at the left of a table are words."""
    texts = (
        all(isinstance(cell, str) for cell in column) for column in zip(*table["rows"], strict=True)
    )
    return len(list(itertools.takewhile(bool, texts)))
