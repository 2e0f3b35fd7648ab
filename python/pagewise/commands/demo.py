"""`pagewise demo`: analyze the recordings in examples/, advise a swap and write a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from pagewise import catalog
from pagewise.advice.served import runs
from pagewise.commands.options import Force, tell_losses
from pagewise.errors import UnreadableInput, UsageError
from pagewise.recording import PathLike, Progress, import_trace, read
from pagewise.report.inputs import recording_name
from pagewise.scratch import scratch
from pagewise.shipped import examples_folder
from pagewise.storage import refuse_unwritable
from pagewise.terminal import Part, facts, figures, say, show, watched
from pagewise.units import MIB, format_range, format_seconds, format_share, format_size

if TYPE_CHECKING:
    from pagewise.answers import Advice
    from pagewise.grids.results import SimulatedCell
    from pagewise.report.inputs import ReadAnalysis


EXAMPLES = ("pagewise demo --report report.html",)
SIZES_MIB = (0, 32, 64, 128, 192, 256, 384, 512, 768, 1200)
SHOWN_MIB = (64, 128, 256, 512, 1200)
PATTERNS = ("*.parquet", "*.pgr", "*.pgw.zst", "phone-1g-long/*.pgr", "phone-2g/*.pgr")
TITLE = "Where should swapped pages go?"
HEAD = 4096
"""How many characters of a report hold its title and its generator."""


def run(
    report: Annotated[
        Path,
        typer.Option(
            metavar="FILE.html", help="The report to write; replaces an earlier report of demo."
        ),
    ] = Path("report.html"),
    recordings: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Use the recordings in this folder.")
    ] = None,
    fast: Annotated[str, typer.Option(metavar="DEVICE", help="Fast device.")] = "zram-lz4",
    slow: Annotated[str, typer.Option(metavar="DEVICE", help="Slow device.")] = "ufs-3.1",
    force: Force = False,
) -> None:
    """Analyze the recordings in examples/, recommend a swap architecture, and write a report.

    Replays them on every swap architecture at ten sizes of the fast tier. The report is one HTML
    file.
    """
    from pagewise.advice.swap import PARTS, advise_swap
    from pagewise.commands.report import command_line
    from pagewise.questions import analyze
    from pagewise.report import report as write_report

    refuse_foreign(report, force)
    folder = recordings or examples_folder()
    shipped = found(folder)
    analyses: dict[str, ReadAnalysis] = {}
    cells = []
    with scratch() as traces:
        paths = [imported(path, traces) for path in shipped]
        for path in paths:
            name = recording_name(str(path))
            with watched(f"analyzing {name}") as progress:
                analysis = cast("ReadAnalysis", analyze(path, by="process", progress=progress))
                analysis["header"] = read(path).header
                analyses[name] = analysis
            with watched(f"replaying {name}") as progress:
                cells += simulated(path, name, fast, slow, progress)
        with watched("advising", counted="cells", parts=PARTS) as progress:
            advice = advise_swap(
                paths[0],
                fast=fast,
                slow=slow,
                memory=memory_of(folder, paths[0]),
                progress=progress,
            )
    table: dict[str, object] = {"schema": "pagewise.sweep/1", "cells": cells}
    results: list[Mapping[str, object]] = [*analyses.values(), table, advice]
    written = write_report(results, report, title=TITLE, command=command_line(), force=True)
    for name, analysis in analyses.items():
        tell_losses(analysis["losses"], name)
    for sentence in advice["warnings"]:
        say(f"warning: {sentence}")
    show(
        *answers(analyses, cells, advice),
        f"The report, for a browser: {Path(written['path']).resolve()}",
    )


def refuse_foreign(report: Path, force: bool) -> None:
    """Raises UsageError if the report would replace a file that demo did not make."""
    refuse_unwritable(report)
    if report.exists() and not (force or is_own(report)):
        raise UsageError(
            f"{report} exists, and demo did not make it",
            path=str(report),
            hint="name another file with --report NAME.html, or replace it with --force",
        )


def found(folder: Path) -> list[Path]:
    """The recordings in a folder, the largest first."""
    shipped = [path for pattern in PATTERNS for path in folder.glob(pattern)]
    if not shipped:
        raise UnreadableInput(f"{folder}: no recordings", hint=f"looked for {', '.join(PATTERNS)}")
    return sorted(shipped, key=lambda path: path.stat().st_size, reverse=True)


def is_own(report: Path) -> bool:
    """Whether demo made the file."""
    if not report.is_file():
        return False
    with open(report, encoding="utf-8", errors="replace") as file:
        head = file.read(HEAD)
    return '<meta name="generator" content="pagewise' in head and f"<title>{TITLE}</title>" in head


def memory_of(folder: Path, recording: Path) -> int | None:
    """The memory in bytes that the recorded programs had, if the folder has their run."""
    from pagewise.launch_runs import read_run

    run = folder / recording_name(str(recording))
    return read_run(run).budget_bytes if run.is_dir() else None


def imported(path: Path, folder: Path) -> Path:
    """The recording as a trace file, which is faster to read many times."""
    if path.suffix == ".parquet":
        return path
    target = folder / f"{recording_name(str(path))}.parquet"
    with watched(f"importing {path.name}") as progress:
        import_trace(path, target, progress=progress)
    return target


def simulated(
    path: PathLike, name: str, fast: str, slow: str, progress: Progress | None
) -> list[SimulatedCell]:
    """The cells of every architecture at every size."""
    from pagewise.grids.simulations import Simulation, simulate_many
    from pagewise.grids.traces import numbered_meanwhile
    from pagewise.report.inputs import flat

    requests = [
        Simulation(architecture, size * MIB, fast, slow).to_json()
        for architecture in catalog.names()
        for size in sizes_mib(architecture)
    ]
    with numbered_meanwhile(read(path)) as found:
        answers = simulate_many(found, requests, progress=progress)
    return [
        {**flat(outcome, name), "options": "{}"}
        for answer in answers
        if (outcome := answer.get("outcome")) is not None
    ]


def sizes_mib(architecture: str) -> tuple[int, ...]:
    """Sizes at which to replay an architecture; only a few for the bound, which is slow."""
    if architecture == catalog.baseline():
        return (0,)
    return SHOWN_MIB if architecture in catalog.bounds() else SIZES_MIB


def answers(
    analyses: dict[str, ReadAnalysis], cells: list[SimulatedCell], advice: Advice
) -> list[Part]:
    """Skew, costs and advice, in about a dozen lines."""
    lines: list[tuple[str, str]] = []
    for name, analysis in analyses.items():
        single = analysis["single_access"]
        lines += [
            (
                f"{name}: skew",
                f"the busiest tenth of pages takes {format_share(analysis['top_share']['0.1'])} "
                "of accesses",
            ),
            (
                f"{name}: used once",
                f"{format_share(single['pages'])} of pages, "
                f"{format_share(single['accesses'])} of accesses",
            ),
        ]
    main = next(iter(analyses))
    return [facts(lines), "", costs(main, cells), "", facts(taken(advice)), ""]


def costs(name: str, cells: list[SimulatedCell]) -> Part:
    """I/O time of every architecture, as a share of the time without a fast tier."""
    own = [cell for cell in cells if cell["trace"] == name]
    alone = next(cell["io_time_s"] for cell in own if cell["architecture"] == catalog.baseline())
    by_cell = {
        (cell["architecture"], cell["fast_tier_bytes"] >> 20): cell["io_time_s"] for cell in own
    }
    names = dict.fromkeys(
        cell["architecture"] for cell in own if cell["architecture"] != catalog.baseline()
    )
    return figures(
        [f"{name}: I/O time", *(f"{size} MiB" for size in SHOWN_MIB)],
        [
            [catalog.baseline(), *[format_seconds(alone)] * len(SHOWN_MIB)],
            *(
                [
                    architecture,
                    *(format_share(by_cell[architecture, size] / alone) for size in SHOWN_MIB),
                ]
                for architecture in names
            ),
        ],
    )


def taken(advice: Advice) -> list[tuple[str, str]]:
    """Whether there is evidence for a size; the architecture to use, and its size."""
    evidence, today, best = advice["evidence"], advice["today"], advice["best"]
    lines = [("evidence", f"{evidence['verdict']}: {evidence['reason']}")]
    if evidence["remedy"]:
        return [*lines, ("no settings", evidence["remedy"])]
    if today is None:
        return [*lines, ("take", "no fast tier: none that stock Linux can use saves I/O time")]
    size = format_size(today["fast_tier_bytes"])
    lines += [
        ("take", f"{today['architecture']} by {today['by']}, {size}"),
        (
            "which leaves",
            f"{format_range(today['io_share'], format_share)} of the I/O time, over all latencies",
        ),
    ]
    if memory := today["memory"]:
        taken = format_range(memory["taken_bytes"], format_size)
        share = memory["share_of_board"]
        of_all = f", {format_range(share, format_share)} of all" if share else ""
        lines.append(("which takes", f"up to {taken} of memory{of_all}"))
    if best and best["architecture"] != today["architecture"]:
        share_of_best = format_range(best["io_share"], format_share)
        lines.append(
            ("best at this size", f"{best['architecture']}, {runs(best)}: {share_of_best}")
        )
    return [*lines, ("settings", f"{advice['settings'][0]['title']} (in the report, with an undo)")]
