"""`pagewise pagesize verify` and `undo`: a page size tried on one program, and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pagewise.commands.options import Json
from pagewise.terminal import figures, say, show, show_json, watched
from pagewise.units import (
    format_count,
    format_percent,
    format_range,
    format_seconds,
    format_size,
    parse_size,
)

EXAMPLES = ("pagewise pagesize verify --page-size 64KiB -- xz -c /bin/bash",)
MEASURES = {
    "minor_faults": ("minor faults", lambda value: format_count(round(value))),
    "cpu_s": ("CPU time", format_seconds),
    "max_rss_bytes": ("peak memory", format_size),
}
"""What a measure is called, and how its figures are written."""
FORETOLD_WITHIN = 0.1
"""A trial that saves less of the faults than foretold, by more than this share, gets a reason."""


def verify(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="The program, as it is run.", show_default=False
        ),
    ],
    page_size: Annotated[
        str,
        typer.Option(
            "--page-size", metavar="SIZE", help="A size of this kernel, as 64KiB or 2MiB."
        ),
    ] = "64KiB",
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Runs with each size.")
    ] = 5,
    json: Json = False,
) -> None:
    """Run a program with 4 KiB pages and with larger ones in turn, and say what they save.

    Needs root and glibc 2.35 or newer in the program. The switches of transparent huge pages
    are changed meanwhile and put back however it ends, even by kill -9.
    """
    result = tried(command, parse_size(page_size), rounds)
    if json:
        show_json(result)
    else:
        show(*described(result))


def tried(command: Sequence[str], page_bytes: int, rounds: int) -> dict[str, Any]:
    """The trial, with its progress shown, and where the settings of before are meanwhile."""
    from pagewise.huge_pages.settings import UNDO
    from pagewise.huge_pages.verify import check, verify

    check(command, page_bytes)
    say(f"note: huge pages are set for the trial and put back after it; {UNDO} keeps what was set")
    with watched("running", counted="rounds") as progress:
        return verify(command, page_bytes, rounds=rounds, progress=progress)


def described(result: dict[str, Any]) -> list[Any]:
    """The figures with both sizes, what the larger saves, what was forecast, what was given."""
    size = format_size(result["page_bytes"])
    foretold = foretold_changes(result)
    rows = []
    for name, saved in result["saved"].items():
        title, written = MEASURES[name]
        rows.append(
            [
                title,
                format_range(result["base"][name], written),
                format_range(result["chosen"][name], written),
                format_range(negated(saved), signed),
                *([foretold.get(name, "")] if foretold else []),
            ]
        )
    columns = ["", "4 KiB", size, "change", *(["forecast"] if foretold else [])]
    given = result["kernel"].get("anon_fault_alloc")
    notes = (
        [] if given is None else [f"pages of {size} that the kernel gave: {format_count(given)}"]
    )
    if given == 0:
        notes.append("note: none was asked for; glibc's malloc asks, others may not")
    elif is_less_than_foretold(result):
        notes.append(
            "note: less was saved than forecast: memory that is read before it is written keeps "
            "4 KiB unless pages are of 2 MiB, and so does what does not come from glibc's malloc"
        )
    return [figures(columns, rows), *notes]


def is_less_than_foretold(result: dict[str, Any]) -> bool:
    """Whether faults were saved so much more rarely than the curves said that it needs a reason."""
    forecast = result.get("forecast")
    if forecast is None:
        return False
    faults = forecast["minor_faults"]
    foretold = 1 - faults["chosen"] / faults["base"]
    return bool(foretold - result["saved"]["minor_faults"]["high"] > FORETOLD_WITHIN)


def foretold_changes(result: dict[str, Any]) -> dict[str, str]:
    """By measure what the curves of the program say; nothing for a trial without them."""
    forecast = result.get("forecast")
    if forecast is None:
        return {}
    faults, saved_s = forecast["minor_faults"], forecast["cpu_s_saved"]
    cpu_s = result["base"]["cpu_s"]["typical"]
    least, most = (-saved_s[level] / cpu_s for level in ("low", "high"))
    counts = f"{format_count(faults['base'])} to {format_count(faults['chosen'])}"
    return {
        "minor_faults": f"{signed(faults['chosen'] / faults['base'] - 1)}, {counts}",
        "cpu_s": f"{signed(most)} to {signed(least)}",
    }


def negated(saved: dict[str, float]) -> dict[str, float]:
    """What is saved as a change."""
    return {"low": -saved["high"], "typical": -saved["typical"], "high": -saved["low"]}


def signed(share: float) -> str:
    """A change: ``+1.5 %``."""
    return f"{'+' if share > 0 else ''}{format_percent(share)}"


def undo() -> None:
    """Put back the switches that a verification left changed when it was killed.

    A process beside it does so by itself: this is for when that was killed too, as when a container
    ends. Does nothing where none was left. Needs root.
    """
    from pagewise.huge_pages.settings import put_back

    changed = put_back()
    for name, word in changed.items():
        show(f"{name}: {word}")
    if not changed:
        say("note: nothing was left changed")
