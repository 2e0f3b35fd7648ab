"""Import of text: megabytes of text per CPU second, hashing and writing included."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import traces
from measure import Call, Claim, in_turn

MB_PER_S = 300


def run(rounds: int) -> list[Claim]:
    inputs: list[tuple[str, str, Path]] = [
        ("blockcsv, requests of one page", "blockcsv", traces.blockcsv()),
        ("ftrace, requests of one page", "ftrace", traces.ftrace()),
        ("blockcsv, sizes and processes as on a Pixel 6a", "blockcsv", traces.blockcsv_phone()),
    ]
    claims = []
    for what, format, path in inputs:
        samples = in_turn({what: Call("ours_import", [str(path), format])}, rounds)[what]
        speeds = [path.stat().st_size / 1e6 / sample.cpu_s for sample in samples]
        rows = samples[0].answer
        claims.append(
            Claim(
                f"import {what} ({rows:,} rows of {path.stat().st_size / 1e6:.0f} MB)",
                f"at least {MB_PER_S} MB per CPU s",
                f"**{median(speeds):.0f}** ({min(speeds):.0f} to {max(speeds):.0f})",
                median(speeds) >= MB_PER_S,
            )
        )
    return claims
