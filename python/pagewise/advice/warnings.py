"""Warnings that a reader must see before following an advice: a sentence each, worst first."""

from __future__ import annotations

from pagewise.advice.costs import Outcome
from pagewise.advice.memory import SHARE_MAX
from pagewise.advice.trial import Choice, Trial
from pagewise.units import format_number, format_range, format_share, format_size


def warnings(trial: Trial, choice: Choice | None) -> list[str]:
    """Warnings about devices that cannot keep up, and about a tier that does not fit the board.

    ``choice`` is the architecture of the headline with its size; None if nothing is advised.
    """
    slow = trial.devices.slow["name"]
    found = [overload(trial, trial.alone, f"{slow} without a fast tier")]
    if choice is not None:
        if choice.size is not None:
            what = f"{slow} behind {choice.name} with {format_size(choice.size)}"
            found.append(overload(trial, trial.outcomes[choice.name][choice.size], what))
        found.append(limited(trial, choice))
    return [sentence for sentence in dict.fromkeys(found) if sentence]


def overload(trial: Trial, outcome: Outcome, what: str) -> str | None:
    """A warning if the slow device cannot do the recorded traffic in the recorded time."""
    busy = trial.devices.busy(outcome, "slow")
    if busy is None or busy["high"] < 1:
        return None
    times = format_range(busy, format_number)
    verb = "cannot" if busy["typical"] >= 1 else "may not"
    return f"{what} {verb} keep up: its I/O takes {times} times the time of the recording"


def limited(trial: Trial, choice: Choice) -> str | None:
    """A warning if a larger tier would pay off but the board cannot spare its memory."""
    wanted, board = choice.wanted_bytes, trial.board
    if board is None or board.board_bytes is None or wanted is None or wanted == choice.size:
        return None
    taken = board.taken_bytes(wanted)["typical"]
    return (
        f"a fast tier of {format_size(wanted)} would pay off for {choice.name}, but takes "
        f"{format_size(taken)} of memory; the advice takes at most {format_share(SHARE_MAX)} of "
        f"the board's {format_size(board.board_bytes)}"
    )
