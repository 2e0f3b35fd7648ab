"""Runs every measurement and writes docs/bench.md. `make bench` calls this.

python bench/run.py [--rounds N] [NAME...]      NAME: policies, sweeps, two_tier, import_speed, and
seven that run only if named: adaptive takes minutes and compares no speed, capture and curves take
minutes and need valgrind, page_size_choices takes minutes and needs `make traces`, pagesize_verify
changes switches of the machine while it runs, pagesize_guest and killers_vm boot guests
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import traces
from measure import Claim

SCRIPTS = ("policies", "sweeps", "two_tier", "import_speed")
NAMED_ONLY = (
    "adaptive",
    "capture",
    "curves",
    "page_size_choices",
    "pagesize_verify",
    "pagesize_guest",
    "killers_vm",
)
INTRODUCTION = """# Measured beside other tools

This page compares the speed of pagewise with that of libcachesim, and says how good its page sizes
and its low-memory killer are. Each section says when and on which machine it was measured, and how
many of its targets were reached. `make bench` installs libcachesim, a library of cache simulators
in C with a Python package, and measures the first four sections. `.venv/bin/python bench/run.py
NAME` measures each of the others:

| section | compares |
|---|---|
| [`policies`](#policies) | misses of one eviction policy, with libcachesim 0.3.5 |
| [`sweeps`](#sweeps) | misses at many sizes at once, with libcachesim 0.3.5 |
| [`two_tier`](#two_tier) | two tiers with dirty pages and wear, with the LRU of libcachesim 0.3.5 |
| [`import_speed`](#import_speed) | how fast `pagewise import` reads text |
| [`adaptive`](#adaptive) | `adaptive` with other swap policies, on recordings not used to tune it |
| [`curves`](#curves) | `capture` and `curves`, with valgrind's lackey and cachegrind |
| [`page_size_choices`](#page_size_choices) | page sizes chosen by `pagesize`, with the best ones |
| [`pagesize_verify`](#pagesize_verify) | faults with pages of 64 and of 4 KiB, and their forecast |
| [`pagesize_guest`](#pagesize_guest) | faults of five programs in guests, with their forecast |
| [`killers_vm`](#killers_vm) | `killd`, with earlyoom, in an emulated guest |

A ratio is theirs divided by ours, unless its row says otherwise: 6.3x means that the other tool
takes 6.3 times as much. The figure is the median over the rounds, with the range in brackets, and
then come the medians of both. Other load on the machine slows both tools, so ratios change less
than single figures.

In `policies`, `sweeps` and `two_tier`, each call runs in a process of its own, and the tools take
turns. The trace has 20 M requests to 1 M pages (Zipf 1.0, seed 42, random 64-bit ids); caches have
100,000 pages unless the row says otherwise. Times are CPU seconds of the call, with reading the
trace but without starting Python and its imports. *Cold* means that pagewise reads the same
oracleGeneral file as libcachesim; *from our own trace*, that it reads a trace file made from it.
libcachesim maps the file of 480 MB, so the rows of peak memory also give anonymous memory, of the
process and of what the call added.

`curves` needs valgrind. `page_size_choices` runs on the traces of `make traces`, which do not ship;
its *regret* is the gain that a size loses against the best one, as a share of the time at 4 KiB.
`pagesize_verify` needs root and captures five programs.
`killers_vm` boots guests under QEMU; it launches a filler, not an application, in short memory,
and compares the launch with one in ample memory.
"""
DOCUMENT = Path(__file__).parent.parent / "docs" / "bench.md"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures pagewise beside other tools.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each call, in turn")
    parser.add_argument(
        "names",
        nargs="*",
        help=f"of {', '.join(SCRIPTS + NAMED_ONLY)}; default: the first {len(SCRIPTS)}",
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SCRIPTS + NAMED_ONLY)
    if unknown:
        parser.error(f"no script is called {', '.join(sorted(unknown))}")
    for name in arguments.names or SCRIPTS:
        print(name, flush=True)
        measure(name, arguments.rounds)
    for name in arguments.names or SCRIPTS:
        print(stored(name))
    written = document(DOCUMENT.read_text(), {name: stored(name) for name in SCRIPTS + NAMED_ONLY})
    DOCUMENT.write_text(written)


def measure(name: str, rounds: int) -> None:
    """Runs one script and stores its part of the document."""
    load = os.getloadavg()[0]
    claims: list[Claim] = importlib.import_module(name).run(rounds)
    missed = sum(not claim.is_reached for claim in claims)
    times = "1 round" if rounds == 1 else f"{rounds} rounds"
    table = "\n".join(map(row, claims))
    traces.save(
        traces.FOLDER / f"{name}.md",
        lambda aside: aside.write_text(f"""
## {name}

{len(claims) - missed} of {len(claims)} targets reached; {times}, {place()},
load average {load:.0f} before and {os.getloadavg()[0]:.0f} after.

| what | target | measured | reached |
|---|---|---|---|
{table}
"""),
    )


def document(before: str, measured: dict[str, str]) -> str:
    """The document with the new parts; parts that were not measured here stay unchanged."""
    headed = (f"\n## {part}" for part in before.split("\n## ")[1:])
    known = {part.split(maxsplit=2)[1]: part for part in headed}
    return INTRODUCTION + "".join(part or known.get(name, "") for name, part in measured.items())


def stored(name: str) -> str:
    """The part of a script that was run in this clone; empty if it was not."""
    path = traces.FOLDER / f"{name}.md"
    return path.read_text() if path.exists() else ""


def row(claim: Claim) -> str:
    reached = "yes" if claim.is_reached else "no"
    return f"| {claim.what} | {claim.target} | {claim.measured} | {reached} |"


def place() -> str:
    """Commit, machine and versions of the figures."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    when = datetime.now(UTC).date().isoformat()
    return (
        f"commit {commit}, {when}, {processor()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
