"""`pagewise pagesize verify` and `undo`: measure a page size on a program, restore the switches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Json
from pagewise.commands.pagesize_guest import described as described_guests
from pagewise.commands.pagesize_guest import tried_in_guests
from pagewise.errors import UsageError
from pagewise.terminal import Part, figures, say, show, show_json, watched
from pagewise.units import (
    format_count,
    format_percent,
    format_range,
    format_seconds,
    format_size,
    parse_size,
)

if TYPE_CHECKING:
    from pagewise.answers import PageSizeTrial, Spread

EXAMPLES = (
    "pagewise pagesize verify --page-size 64KiB -- xz -c /bin/bash",
    "pagewise pagesize verify --guest --memory 80% -- xz -k -c /bin/bash",
)
MEASURES = {
    "minor_faults": ("minor faults", lambda value: format_count(round(value))),
    "cpu_s": ("CPU time", format_seconds),
    "max_rss_bytes": ("peak memory", format_size),
}
"""The name of each measure, and the format of its figures."""
ROUNDS = 5
FORECAST_WITHIN = 0.1
"""A trial that saves fewer faults than forecast, by more than this share, gets a note."""


def verify(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="The program and its arguments.", show_default=False
        ),
    ],
    page_size: Annotated[
        str | None,
        typer.Option(
            "--page-size",
            metavar="SIZE",
            help="A page size of this kernel, e.g. 2MiB; default 64KiB. With --guest: sizes of the "
            "guest, separated by commas; default all.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Runs of each page size; default 5, with --guest 1.",
            show_default=False,
        ),
    ] = None,
    guest: Annotated[
        bool,
        typer.Option(
            "--guest",
            help="Run the program in emulated virtual machines instead, one for each page size, "
            "and compare the faults with the forecast. Needs no root.",
        ),
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE|SHARE",
            help="With --guest: memory that the program has, a size such as 64MiB or a share of "
            "its footprint; default 80%.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.pwf", help="With --guest: a trace of this command; default: capture it."
        ),
    ] = None,
    kernel: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.deb",
            help="With --guest: a Debian package of a kernel, e.g. from `make bindeb-pkg`; may be "
            "repeated, for arm64 kernels with other base pages. Default: Debian's kernels, which "
            "apt fetches.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a program with 4 KiB and with larger pages, and measure what these save.

    Without --guest, needs root, and a program with glibc 2.35 or later. Changes the switches of
    transparent huge pages during the runs, and restores them afterwards, even after kill -9.
    """
    if guest:
        of_guests = tried_in_guests(
            command, trace, memory or "80%", page_size, kernel or [], rounds or 1
        )
        if json:
            show_json(of_guests)
        else:
            show(*described_guests(of_guests))
        return
    for option, value in {"--memory": memory, "--trace": trace, "--kernel": kernel}.items():
        if value:
            raise UsageError(f"{option} works only with --guest", hint="add --guest")
    result = tried(command, parse_size(page_size or "64KiB"), rounds or ROUNDS)
    if json:
        show_json(result)
    else:
        show(*described(result))


def tried(command: Sequence[str], page_bytes: int, rounds: int) -> PageSizeTrial:
    """Runs the trial, shows its progress, and says where the old settings are kept."""
    from pagewise.huge_pages.settings import UNDO
    from pagewise.huge_pages.verify import check, verify

    check(command, page_bytes)
    say(
        f"note: the trial changes the switches of huge pages and restores them; {UNDO} has the old "
        "settings"
    )
    with watched("running", counted="rounds") as progress:
        return verify(command, page_bytes, rounds=rounds, progress=progress)


def described(result: PageSizeTrial) -> list[Part]:
    """The figures with both sizes, what the larger saves, what was forecast, what was given."""
    size = format_size(result["page_bytes"])
    forecast = forecast_changes(result)
    rows = []
    for name, saved in result["saved"].items():
        title, written = MEASURES[name]
        rows.append(
            [
                title,
                format_range(result["base"][name], written),
                format_range(result["chosen"][name], written),
                format_range(negated(saved), signed),
                *([forecast.get(name, "")] if forecast else []),
            ]
        )
    columns = ["", "4 KiB", size, "change", *(["forecast"] if forecast else [])]
    given = result["kernel"].get("anon_fault_alloc")
    notes = (
        []
        if given is None
        else [f"pages of {size} that the kernel allocated: {format_count(given)}"]
    )
    if given == 0:
        notes.append("note: the program asked for none; glibc's malloc asks, others may not")
    elif is_less_than_forecast(result):
        notes.append(
            "note: less was saved than forecast: the heap starts at another address in each run, "
            "so other parts of it fit into these pages; and memory that is read before it is "
            "written keeps 4 KiB unless pages are of 2 MiB"
        )
    return [figures(columns, rows), *notes]


def is_less_than_forecast(result: PageSizeTrial) -> bool:
    """Whether the trial saved so few of the forecast faults that a note must explain it."""
    forecast = result.get("forecast")
    if forecast is None:
        return False
    faults = forecast["minor_faults"]
    saved = 1 - faults["chosen"] / faults["base"]
    return saved - result["saved"]["minor_faults"]["high"] > FORECAST_WITHIN


def forecast_changes(result: PageSizeTrial) -> dict[str, str]:
    """The forecast change of each measure; empty for a trial without a forecast."""
    forecast = result.get("forecast")
    if forecast is None:
        return {}
    faults, saved_s = forecast["minor_faults"], forecast["cpu_s_saved"]
    cpu_s = result["base"]["cpu_s"]["typical"]
    least, most = -saved_s["low"] / cpu_s, -saved_s["high"] / cpu_s
    counts = f"{format_count(faults['base'])} to {format_count(faults['chosen'])}"
    return {
        "minor_faults": f"{signed(faults['chosen'] / faults['base'] - 1)}, {counts}",
        "cpu_s": f"{signed(most)} to {signed(least)}",
    }


def negated(saved: Spread) -> Spread:
    """A saving as a change: the sign is reversed."""
    return {"low": -saved["high"], "typical": -saved["typical"], "high": -saved["low"]}


def signed(share: float) -> str:
    """A change with its sign: ``+1.5 %``."""
    return f"{'+' if share > 0 else ''}{format_percent(share)}"


def undo() -> None:
    """Restore the switches of huge pages after a killed verification.

    Usually a second process restores them. Use this command if that process was killed too, as
    when a container ends. Does nothing if no switch was left changed. Needs root.
    """
    from pagewise.huge_pages.settings import put_back

    changed = put_back()
    for name, word in changed.items():
        show(f"{name}: {word}")
    if not changed:
        say("note: nothing was left changed")
