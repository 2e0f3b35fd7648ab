"""`adaptive` beside every other architecture on the recordings: the targets, and what misses them.

python bench/run.py adaptive      or      python bench/adaptive.py

Not timed: counts times latencies, the same on every machine. The grid is bench/adaptive.toml; the
recordings lie beside the repository, and without them there is nothing to show. Writes
docs/bench-adaptive.md.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import traces
from measure import Claim

import pagewise as pw
from pagewise.grids import results

SPEC = Path(__file__).parent / "adaptive.toml"
DOCUMENT = Path(__file__).parent.parent / "docs" / "bench-adaptive.md"
SMALL_MIB = 256
SHOWN_OVER_TIME = 6
TENTHS = range(1, 11)

Time = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Place:
    """One cell of the grid: where the architectures meet."""

    trace: str
    mib: int
    slow: str
    fast: str

    def __str__(self) -> str:
        return f"{self.trace}, {self.mib} MiB, {self.slow} and {self.fast}"


@dataclass
class Cell:
    """What every architecture took in one place."""

    place: Place
    flash: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)
    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    def best(self, time: Time) -> str:
        """The other architecture that takes least."""
        return min(self.others, key=lambda name: time(self.others[name]))

    def regret(self, time: Time) -> float:
        """By which share ours takes more than the best of the others."""
        return time(self.ours) / time(self.others[self.best(time)]) - 1

    def share(self, time: Time) -> float:
        """Ours as a share of flash-only."""
        return time(self.ours) / time(self.flash)

    def fast_writes(self) -> float:
        """Ours as a share of hierarchical's, of whose two forms the one that writes less."""
        hierarchical = [
            outcome["fast"]["writes"]
            for name, outcome in self.others.items()
            if name.startswith("hierarchical")
        ]
        return float(self.ours["fast"]["writes"]) / min(hierarchical)


def io_time(outcome: Mapping[str, Any]) -> float:
    return float(outcome["io_time_s"])


def flushed_time(outcome: Mapping[str, Any]) -> float:
    """With every page that only the fast tier holds at the end written to the slow one."""
    write_us = latencies_us(outcome["slow_device"])[1]
    return io_time(outcome) + outcome["fast_only_pages"] * write_us / 1e6


def run(rounds: int) -> list[Claim]:
    """The targets; ``rounds`` does not matter, since nothing is timed."""
    del rounds
    missing = [path for path in recordings() if not path.exists()]
    if missing:
        names = ", ".join(path.name for path in missing)
        return [Claim(f"adaptive: skipped, {names} not beside the repository", "", "", True)]
    cells = grid()
    claims = targets(cells)
    document(cells, claims)
    return claims


def recordings() -> list[Path]:
    spec = tomllib.loads(SPEC.read_text())
    return [SPEC.parent / name for name in spec["traces"]]


def grid() -> list[Cell]:
    """Every cell of the spec. Where a page goes depends on latencies with `adaptive` alone, so the
    others are replayed with one pair of devices and their times follow from the counts."""
    spec = tomllib.loads(SPEC.read_text())
    spec["traces"] = [str(path) for path in recordings()]
    ours = [row for row in spec["architecture"] if row["name"] == "adaptive"]
    others = [row for row in spec["architecture"] if row["name"] != "adaptive"]
    cells: dict[Place, Cell] = {}
    for row in swept("others", spec | {"architecture": others, "device": spec["device"][:1]}):
        outcome, options = json.loads(row["outcome"]), json.loads(row["options"])
        for device in spec["device"]:
            cell = cell_of(cells, row, device["slow"], device["fast"])
            timed = with_devices(outcome, device["slow"], device["fast"])
            if row["architecture"] == "flash":
                cell.flash = timed
            else:
                cell.others[" ".join([row["architecture"], *options.values()])] = timed
    for row in swept("ours", spec | {"architecture": [{"name": row["name"]} for row in ours]}):
        cell_of(cells, row, row["slow"], row["fast"]).ours = json.loads(row["outcome"])
    return list(cells.values())


def swept(name: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a grid, from a fresh run: results are kept by version, not by build."""
    output = traces.FOLDER / f"adaptive-{name}.parquet"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    report = pw.sweep(spec, output)
    if report["failed"]:
        raise SystemExit(f"cells failed: {report['failed']}")
    return results.read(str(output))


def cell_of(cells: dict[Place, Cell], row: Mapping[str, Any], slow: str, fast: str) -> Cell:
    name = Path(row["trace"]).name.partition(".")[0]
    place = Place(name, row["fast_tier_bytes"] // 2**20, slow, fast)
    return cells.setdefault(place, Cell(place))


def with_devices(outcome: Mapping[str, Any], slow: str, fast: str) -> dict[str, Any]:
    """The same counts on other devices."""
    time_us = sum(
        outcome[tier][operation] * latency
        for tier, device in (("slow", slow), ("fast", fast))
        for operation, latency in zip(("reads", "writes"), latencies_us(device), strict=True)
    )
    return {**outcome, "slow_device": slow, "fast_device": fast, "io_time_s": time_us / 1e6}


def latencies_us(device: str) -> list[float]:
    """Microseconds of a read and of a write, from a device given as `90/40us`."""
    return [float(latency) for latency in device.removesuffix("us").split("/")]


def targets(cells: list[Cell]) -> list[Claim]:
    """The figures that `adaptive` must reach, in the order of the issue that set them."""
    shares = {
        name: mean(io_time(cell.others[name]) / io_time(cell.flash) for cell in cells)
        for name in cells[0].others
    }
    lowest = min(shares, key=lambda name: shares[name])
    ours = mean(cell.share(io_time) for cell in cells)
    below = 1 - ours / shares[lowest]
    within, worst = regrets(cells, io_time)
    swap700 = [cell for cell in cells if cell.place.trace == "swap700"]
    middle = [
        cell for cell in swap700 if (cell.place.slow, cell.place.fast) == ("90/40us", "4/5us")
    ]
    at_256 = next(cell for cell in middle if cell.place.mib == SMALL_MIB)
    slow = [
        sum(outcome["slow"][of] for of in ("reads", "writes"))
        for outcome in (at_256.ours, at_256.flash)
    ]
    small = [cell for cell in middle if cell.place.mib <= SMALL_MIB]
    most_writes = max(cell.fast_writes() for cell in cells)
    small_writes = max(cell.fast_writes() for cell in small)
    worst_middle = max(cell.regret(io_time) for cell in middle)
    return [
        Claim(
            f"mean I/O time over {len(cells)} cells, share of flash-only, below the lowest mean of "
            f"the others ({lowest}, {shares[lowest]:.3f})",
            "6 %, aim 8 %",
            f"{below:.1%} ({ours:.3f})",
            below >= 0.06,
        ),
        Claim(
            "cells at most 1 % above the best of the others", "90 %", f"{within:.1%}", within >= 0.9
        ),
        Claim("the worst cell above the best of the others", "5 %", f"{worst:.1%}", worst <= 0.05),
        Claim(
            "swap700 at 90/40 and 4/5 us, the worst of all sizes",
            "1 %",
            f"{worst_middle:.1%}",
            worst_middle <= 0.01,
        ),
        Claim(
            "slow accesses on swap700 at 256 MiB, share of flash-only (late writes included)",
            "0.62",
            f"{slow[0] / slow[1]:.3f}",
            slow[0] / slow[1] <= 0.62,
        ),
        Claim(
            "fast writes in any cell, share of hierarchical's",
            "1",
            f"{most_writes:.2f}",
            most_writes <= 1,
        ),
        Claim(
            "fast writes on swap700 up to 256 MiB, share of hierarchical's",
            "0.3",
            " ".join(f"{cell.fast_writes():.2f}" for cell in small),
            small_writes <= 0.3,
        ),
    ]


def regrets(cells: Iterable[Cell], time: Time) -> tuple[float, float]:
    """The share of cells at most 1 % above the best of the others, and the largest regret."""
    found = [cell.regret(time) for cell in cells]
    return mean(regret <= 0.01 for regret in found), max(found)


def document(cells: list[Cell], claims: list[Claim]) -> None:
    """Writes the targets and every cell above 1 %."""
    missed = sorted(
        (cell for cell in cells if cell.regret(io_time) > 0.01),
        key=lambda cell: -cell.regret(io_time),
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    parts = [
        INTRODUCTION.format(commit=commit),
        table(
            ["what", "to reach", "measured", "reached"],
            ([c.what, c.target, c.measured, "yes" if c.is_reached else "no"] for c in claims),
        ),
        BY_RECORDING,
        table(
            ["recording", "`adaptive`", "best others", "within 1 %", "flushed", "worst flushed"],
            by_recording(cells),
        ),
        MISSED.format(count=len(missed)),
        table(["cell", "`adaptive`", "best other", "regret", "flushed"], map(regret_row, missed)),
        OVER_TIME,
        table(["cell", *(f"{10 * tenth} %" for tenth in TENTHS)], over_time(spread(missed))),
        MIDDLE,
        table(
            [
                "fast tier",
                "`adaptive`",
                "`victims_in_memory=write`",
                "best other",
                "regret",
                "slow accesses",
                "fast writes of hierarchical's",
            ],
            by_size(cells),
        ),
    ]
    DOCUMENT.write_text("".join(parts))


def regret_row(cell: Cell) -> list[str]:
    best = cell.best(io_time)
    return [
        str(cell.place),
        f"{io_time(cell.ours):.2f}",
        f"{io_time(cell.others[best]):.2f} ({best})",
        f"{cell.regret(io_time):+.1%}",
        f"{cell.regret(flushed_time):+.1%}",
    ]


def spread(missed: list[Cell]) -> list[Cell]:
    """The worst cell of each recording and best other, then the next worst."""
    first: dict[tuple[str, str], Cell] = {}
    for cell in missed:
        first.setdefault((cell.place.trace, cell.best(io_time)), cell)
    chosen = list(first.values())
    chosen += [cell for cell in missed if cell not in chosen]
    return chosen[:SHOWN_OVER_TIME]


def by_recording(cells: list[Cell]) -> Iterable[list[str]]:
    for name in dict.fromkeys(cell.place.trace for cell in cells):
        own = [cell for cell in cells if cell.place.trace == name]
        best = mean(io_time(cell.others[cell.best(io_time)]) / io_time(cell.flash) for cell in own)
        flushed, worst = regrets(own, flushed_time)
        yield [
            name,
            f"{mean(cell.share(io_time) for cell in own):.3f}",
            f"{best:.3f}",
            f"{regrets(own, io_time)[0]:.0%}",
            f"{flushed:.0%}",
            f"{worst:+.1%}",
        ]


def by_size(cells: list[Cell]) -> Iterable[list[str]]:
    for cell in sorted(cells, key=lambda cell: cell.place.mib):
        if (cell.place.trace, cell.place.slow, cell.place.fast) == ("swap700", "90/40us", "4/5us"):
            best = cell.best(io_time)
            slow = [
                outcome["slow"]["reads"] + outcome["slow"]["writes"]
                for outcome in (cell.ours, cell.flash)
            ]
            source = next(path for path in recordings() if path.name.startswith("swap700."))
            writing = again(source, cell.ours, {"victims_in_memory": "write"})
            yield [
                f"{cell.place.mib} MiB",
                f"{cell.share(io_time):.3f}",
                f"{io_time(writing) / io_time(cell.flash):.3f}",
                f"{io_time(cell.others[best]) / io_time(cell.flash):.3f} ({best})",
                f"{cell.regret(io_time):+.1%}",
                f"{slow[0] / slow[1]:.3f}",
                f"{cell.fast_writes():.2f}",
            ]


def over_time(cells: list[Cell]) -> Iterable[list[str]]:
    with tempfile.TemporaryDirectory(prefix="pagewise-") as folder:
        for cell in cells:
            wanted = cell.place.trace
            source = next(path for path in recordings() if path.name.partition(".")[0] == wanted)
            row = [f"{cell.place}: against {cell.best(io_time)}"]
            for part in prefixes(source, Path(folder)):
                took = [
                    io_time(again(part, outcome))
                    for outcome in (cell.ours, cell.others[cell.best(io_time)])
                ]
                row.append(f"{took[0] - took[1]:+.2f}")
            yield row


def prefixes(source: Path, folder: Path) -> list[Path]:
    """The recording up to each tenth of its events, imported once."""
    whole = folder / f"{source.name}.parquet"
    if not whole.exists():
        pw.import_trace([source], whole)
    times = pw.read(whole).column("time_ns")
    parts = []
    for tenth in TENTHS:
        part = folder / f"{source.name}.{tenth}.parquet"
        if not part.exists():
            # The last one is whole: an end is excluded.
            is_whole = tenth == TENTHS[-1]
            stop = None if is_whole else times[len(times) * tenth // len(TENTHS)] / 1e9
            pw.slice_trace(whole, part, stop=stop)
        parts.append(part)
    return parts


def again(
    path: Path, outcome: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The same request on another file or with other options."""
    return pw.simulate(
        path,
        architecture=outcome["architecture"],
        fast_tier=outcome["fast_bytes"],
        fast=outcome["fast_device"],
        slow=outcome["slow_device"],
        option={**outcome["options"], **(options or {})},
    )


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


INTRODUCTION = """# `adaptive` beside the other architectures

Command: `python bench/run.py adaptive`, commit {commit}. The cells of bench/adaptive.toml: five
recordings, nine sizes of the fast tier, six pairs of latencies; `adaptive` with its default
options, the others in all the forms that the grid names. A page that `adaptive` dropped while it
was in memory and that is not heard of again is charged with the late write.

"""

BY_RECORDING = """
## By recording

Mean over its 54 cells as a share of flash-only, of `adaptive` and of the best other in each cell,
and the cells within 1 %; then the cells within 1 % and the worst of all if every page that only the
fast tier holds at the end is written to the slow one.

"""

MISSED = """
## The {count} cells above 1 %

I/O time in seconds, the regret as it is counted, and with a flush at the end.

"""

OVER_TIME = """
## Regret over time

Seconds of I/O by which `adaptive` is above the architecture that is best at the end, replayed up
to each tenth of the recording's events. A cell that rises in the last tenths only has paid for
frames that it had no time to use.

"""

MIDDLE = """
## swap700 at 90/40 and 4/5 us

As shares of flash-only; the slow accesses hold the late writes.

"""


if __name__ == "__main__":
    for claim in run(1):
        print(claim.what, claim.target, claim.measured, claim.is_reached, sep=" | ")
