"""`pagewise study`: a paper's experiment, beside what recordings and scenarios say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagewise.commands.options import Json
from pagewise.errors import UsageError
from pagewise.studies import STUDIES
from pagewise.studies.text import markdown, ruling, support, verdict_rows
from pagewise.studies.workloads import examples_folder
from pagewise.terminal import figures, show, show_json, watched

EXAMPLES = (
    "pagewise study multiswap",
    "pagewise study nvm-cache --report nvm-cache.html",
)
NAMES = ", ".join(study.name for study in STUDIES)


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"The study: {NAMES}.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where results go; default: build/study-NAME."
        ),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with the recordings; default: examples."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Seeds per generated scenario.")
    ] = 2,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Also write the result as one HTML file."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a paper's experiment again, and say which of its statements hold, and why.

    Leaves in the folder: NAME.json, one CSV per figure (x, series, y, std, n, seed, config_hash),
    NAME.md with the verdict and sensitivity tables, and the runs, which a second call uses again.
    """
    study = next((row for row in STUDIES if row.name == name), None)
    if study is None:
        raise UsageError(f"no study is called {name!r}", hint=f"there are: {NAMES}")
    output = output or Path("build") / f"study-{name}"
    output.mkdir(parents=True, exist_ok=True)
    with watched(f"study {name}") as progress:
        result = study.run(recordings or examples_folder(), output, seeds=seeds, progress=progress)
    (output / f"{name}.md").write_text(markdown(result), encoding="utf-8")
    if report is not None:
        from pagewise.report import report as write_report

        write_report([output / f"{name}.json"], report, command=result["command"], force=True)
    if json:
        show_json(result)
        return
    columns, rows = verdict_rows(result)
    shown = [columns.index(column) for column in ("check", "on", "paper", "ours")]
    show(
        result["title"],
        figures(
            ["check", "on", "paper", "ours", "verdict", "readings"],
            [
                [*(row[index] for index in shown), ruling(verdict), support(verdict)]
                for row, verdict in zip(rows, result["verdicts"], strict=True)
            ],
            words=6,
        ),
        f"Figures, tables and reasons: {output}",
    )
