"""What must be reached, and whether it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazy.claims import Claim

from programs.modes import FAST, MODES, OFF
from programs.summary import CPU_LEAST_S

Rows = Sequence[Mapping[str, Any]]


def claims(rows: Rows) -> list[Claim]:
    """All of them, in the order of the table."""
    return [
        sound(rows),
        *(same(rows, mode) for mode in list(MODES)[1:]),
        *(service(rows, mode) for mode in list(MODES)[1:]),
        *(peaks(rows, mode) for mode in list(MODES)[1:]),
        *cpu(rows),
    ]


def sound(rows: Rows) -> Claim:
    """Whether all stock runs succeed: two equal failures prove nothing."""
    failing = [row["program"] for row in rows if row["stock_fails"]]
    text = f"**{len(rows) - len(failing)}**{named(failing)}"
    what = "stock runs that exit as expected and print the expected result"
    return Claim(what, f"{len(rows)} programs", text, not failing if rows else None)


def same(rows: Rows, mode: str) -> Claim:
    """Programs with a run whose outcome no stock run has."""
    own = list(of_mode(rows, mode))
    differing = [row["program"] for row, figures in own if figures["differing_runs"]]
    text = f"**{len(differing)}** of {len(own)}{named(differing)}"
    return Claim(
        f"{mode}: programs that differ from stock", "0", text, not differing if own else None
    )


def service(rows: Rows, mode: str) -> Claim:
    """Programs with a run that the library had to serve and did not, or the other way round."""
    own = [
        (row, figures)
        for row, figures in of_mode(rows, mode)
        if mode == OFF or row["must_be_served"] is not None
    ]
    wrong = [row["program"] for row, figures in own if figures["misserved_runs"]]
    what = "programs that must be served and are not, or must not be and are"
    if mode == OFF:
        what = "programs that are served all the same"
    text = f"**{len(wrong)}** of {len(own)}{named(wrong)}"
    return Claim(f"{mode}: {what}", "0", text, not wrong if own else None)


def peaks(rows: Rows, mode: str) -> Claim:
    """Programs whose peak memory exceeds the limit."""
    own = list(of_mode(rows, mode))
    above = [row["program"] for row, figures in own if not figures["is_peak_held"]]
    what = f"{mode}: programs whose peak memory is above 1.25x stock and above 32 MiB more"
    return Claim(
        what, "0", f"**{len(above)}** of {len(own)}{named(above)}", not above if own else None
    )


def cpu(rows: Rows) -> Iterator[Claim]:
    """CPU time in `fast` of each program whose CPU time has a limit."""
    for row, figures in of_mode(rows, FAST):
        if not judges_cpu(row) or figures["cpu_ratio"] is None:
            continue
        spread = figures["cpu_ratio"]
        text = f"**{spread['typical']:.3g}x** ({spread['low']:.3g} to {spread['high']:.3g})"
        most = row["cpu_ratio_most"]
        yield Claim(
            f"{row['program']}: CPU, fast over stock",
            f"at most {most:g}x",
            text,
            spread["typical"] <= most,
        )


def judges_cpu(row: Mapping[str, Any]) -> bool:
    """Whether the CPU time of a program has a limit."""
    is_long = row["stock_cpu_s"] >= CPU_LEAST_S
    return is_long and not row["allocates_large"] and not row["is_together"]


def of_mode(rows: Rows, mode: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The programs that ran in a mode, and their figures in it."""
    for row in rows:
        for figures in row["modes"]:
            if figures["mode"] == mode:
                yield row, figures


def named(programs: Sequence[str]) -> str:
    return f" ({', '.join(programs)})" if programs else ""
