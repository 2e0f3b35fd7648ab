"""`pagewise simulate --as-recorded`: the decisions of a recorded `pagewise-agent swapd`, again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pagewise import questions
from pagewise.terminal import Part, facts, figures, say, show, show_json, watched
from pagewise.units import format_count, format_size

if TYPE_CHECKING:
    from pagewise.types import AsRecorded

DIFFERENT = 1
"""The exit status if the server and the replay moved different pages."""


def run(recording: str, moves: str | None, *, force: bool, json: bool) -> None:
    """Decide a recording again and print the result."""
    with watched("deciding") as progress:
        result = questions.simulate_as_recorded(
            recording, moves=moves, force=force, progress=progress
        )
    if result["is_cut"]:
        say(
            "pagewise: the end of the recording is missing: swapd was killed, so the last moves "
            "have no end"
        )
    if json:
        show_json(result)
    else:
        show(*described(result, moves))
    if not result["identical"]:
        raise typer.Exit(DIFFERENT)


def described(result: AsRecorded, moves: str | None) -> list[Part]:
    """The result as a verdict and tables."""
    requests = [
        ("pages written", format_count(result["page_outs"])),
        ("pages read", format_count(result["page_ins"])),
        ("slots discarded", format_count(result["voids"])),
        ("moves that failed", format_count(result["failed_moves"])),
    ]
    tiers = [
        ["fast", format_count(result["fast"]["reads"]), format_count(result["fast"]["writes"])],
        ["slow", format_count(result["slow"]["reads"]), format_count(result["slow"]["writes"])],
    ]
    decided = [[name, format_count(count)] for name, count in result["moves"].items() if count]
    written: list[Part] = ["", facts([("written", moves)])] if moves else []
    return [
        f"{result['policy']}, fast tier {format_size(result['fast_bytes'])} of "
        f"{format_size(result['size_bytes'])}: {verdict(result)}",
        "",
        facts(requests),
        "",
        figures(["tier", "pages read", "pages written"], tiers),
        "",
        figures(["move", "count"], decided),
        *written,
    ]


def verdict(result: AsRecorded) -> str:
    """Whether both moved the same pages, and where they first differ."""
    ended = result["done_moves"] + result["failed_moves"]
    if result["identical"]:
        return f"all {format_count(ended)} moves of swapd are decided again"
    first = result["first_difference"]
    if first is None:
        count = format_count(result["open_moves"])
        return f"{count} moves are decided here that swapd did not make"
    return (
        f"{format_count(result['differing_moves'])} of {format_count(ended)} moves of swapd are "
        f"not decided here; the first is {first['move']} of slot {first['slot']}, for event "
        f"{first['event']}"
    )
