"""Runs every measurement and writes docs/bench.md. `make bench` calls this.

python bench/run.py [--rounds N] [NAME...]      NAME: policies, sweeps, two_tier, import_speed, and
seven that run only if named: adaptive takes minutes and compares no speed, memory
takes minutes and measures bounds, capture and curves take minutes and need valgrind,
page_size_choices takes minutes and needs `make traces`, pagesize_verify changes switches of the
machine while it runs, killers_vm boots guests
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
    "memory",
    "capture",
    "curves",
    "page_size_choices",
    "pagesize_verify",
    "killers_vm",
)
INTRODUCTION = """# Measured beside others

Command: `make bench` for the first four sections, `python bench/run.py NAME` for each of the
others. A ratio is the median over the rounds of theirs by ours, with the range in brackets, and
then the medians of ours and theirs. Other load on the machine slows both; single figures move
with it, ratios less.

Policies, sweeps and two tiers stand beside libcachesim 0.3.5: one call in a process of its own,
peer and ours in turn. Trace: 20 M requests over 1 M pages, Zipf 1.0, seed 42, random 64-bit ids;
caches of 100,000 pages unless stated otherwise. Figures are CPU seconds of the call, reading
included, interpreter start and imports not. `page_size_choices` runs on the traces of `make
traces`, which do not ship; the launches of `killers_vm` are of a filler, in an emulated guest.
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
    table = "\n".join(map(row, claims))
    traces.save(
        traces.FOLDER / f"{name}.md",
        lambda aside: aside.write_text(f"""
## {name}

{len(claims) - missed} of {len(claims)} reached; {rounds} rounds, {place()}, load average {load:.0f}
before and {os.getloadavg()[0]:.0f} after.

| what | to reach | measured | reached |
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
