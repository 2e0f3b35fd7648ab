"""`pagewise study`: repeat a paper's experiment on recordings, scenarios and launch runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Json, tell_losses, tell_unchecked
from pagewise.errors import UsageError
from pagewise.shipped import examples_folder
from pagewise.storage import making, refuse_unwritable
from pagewise.studies import Study, none_installed, refuse_foreign, studies
from pagewise.study_rows import ruling, support, table_rows, verdict_rows
from pagewise.terminal import Part, figures, say, show, show_json, watched

if TYPE_CHECKING:
    from pagewise.comparisons import StudyResult, StudyTable

EXAMPLES = (
    "pagewise list studies",
    "pagewise study multiswap",
    "pagewise study multiswap --live build/tiers/policies/*-?",
    "pagewise study relaunch build/tiers/prefetch/with*-?",
    "pagewise study page-size --report page-size.html",
    "pagewise study thrash examples/s0-*/*-?",
    "pagewise study predict examples/phone-1g",
    "pagewise study launch --simulated",
    "pagewise study lazy-unmap examples/allocations/*.pgr",
)


def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The study; `pagewise list studies` shows them with an example of each.",
            show_default=False,
        ),
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            help="Run folders of `pagewise-agent launch`, recordings of `pagewise-agent record "
            "--allocations`, or the folder of `make kills`; only for studies of runs.",
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
            "--simulated", help="Use simulated phones instead of runs, if the study supports it."
        ),
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Compare launch runs on swap areas of two tiers, if the study supports it.",
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Seeds per generated scenario.")
    ] = 2,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Seed of the intervals; only for studies of runs."),
    ] = 1,
    allow_invalid: Annotated[
        bool,
        typer.Option(
            "--allow-invalid",
            help="Also use launch runs with valid = false in run.toml; verdicts, tables and "
            "figures are then marked in every row.",
        ),
    ] = False,
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
    study = found(name, bool(runs), simulated, live)
    label = f"{name}-simulated" if simulated else f"{name}-live" if live else name
    output = output or Path("build") / f"study-{label}"
    refuse_foreign(output, label)
    more: dict[str, bool] = {"allow_invalid": allow_invalid} if study.reads_runs else {}
    if allow_invalid and not more:
        raise UsageError(
            f"study {name} reads no launch runs",
            hint="--allow-invalid is for studies of launch runs; leave it out",
        )
    with making(output), watched(f"study {label}") as progress:
        if report is not None:
            refuse_unwritable(report, force=force)
        if runs:
            runner = study.live if live else study.run
            result = runner(runs, output, seed=seed, progress=progress, **more)
        else:
            folder = recordings or examples_folder()
            runner = study.simulate if simulated else study.run
            result = runner(folder, output, seeds=seeds, progress=progress, **more)
    for run, losses in result["losses"].items():
        tell_losses(losses, run)
    for folder in runs or ():
        tell_unchecked(folder)
    if unjudged := result.get("unjudged_runs"):
        say(
            "note: these runs do not say whether they can carry a verdict, because the lab did not "
            f"check that yet: {', '.join(unjudged)}"
        )
    if report is not None:
        from pagewise.report import report as write_report

        write_report([output / f"{label}.json"], report, command=result["command"], force=True)
    if json:
        show_json(result)
        return
    show(*described(result), f"Figures, tables and reasons: {output}")


def found(name: str, has_runs: bool, is_simulated: bool = False, is_live: bool = False) -> Study:
    """The study of this name. Raises UsageError for an unknown name or the wrong kind of data, and
    Missing if no study is installed."""
    rows = studies()
    if not rows:
        raise none_installed()
    study = next((row for row in rows if row.name == name), None)
    if study is None:
        names = ", ".join(row.name for row in rows)
        raise UsageError(f"no study is called {name!r}", hint=f"there are: {names}")
    if is_simulated:
        if study.simulates and not has_runs:
            return study
        simulating = " and ".join(row.name for row in rows if row.simulates)
        raise UsageError(
            f"study {name} {'takes no runs with --simulated' if has_runs else 'simulates nothing'}",
            hint=f"--simulated takes no runs, and works only for {simulating}",
        )
    if is_live:
        if study.has_live and has_runs:
            return study
        living = " and ".join(row.name for row in rows if row.has_live)
        raise UsageError(
            f"study {name} {'needs its runs' if study.has_live else 'has no form'} with --live",
            hint=f"--live takes folders of `pagewise-agent launch`, and works only for {living}",
        )
    if study.of_runs != has_runs:
        raise UsageError(
            f"study {name} {'needs its runs or recordings' if study.of_runs else 'takes no runs'}",
            hint=f"for example: {study.example}",
        )
    return study


def described(result: StudyResult) -> list[Part]:
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


def words(table: StudyTable) -> int:
    """How many columns at the left of a table are words."""
    texts = (
        all(isinstance(cell, str) for cell in column) for column in zip(*table["rows"], strict=True)
    )
    return len(list(itertools.takewhile(bool, texts)))
