#!/usr/bin/env python3
"""Wall and CPU time from a wheel to the first answer: least, median and most of some runs.

    python3 bench/install.py [WHEEL] [--runs 5] [--cached]

WHEEL is by default that of this machine in dist (make dist-wheel). Each run makes a new virtual
environment, installs the wheel with what it needs from the registry, and analyzes a recording, on
two processors. pip downloads everything in each run; with --cached it keeps a cache between them.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples/phone-1g/phone-1g.pgr"
PROCESSORS = 2
FIRST_STEPS = ("environment", "installation", "pagewise analyze")
FIRST_ANSWER_S = 20.0
TARGETS_CPU_S = {"pagewise --help": 0.150, "pagewise analyze, again": 0.600}
"""The most CPU time of commands whose files are in memory; bench/start.py measures them alone."""
HUNG_S = 600


@dataclass(frozen=True)
class Spent:
    """The time of a command in seconds; its processor time is that of all its processes."""

    wall_s: float
    cpu_s: float


def main() -> None:
    """Prints a line for each step, and one for those up to the first answer."""
    parser = argparse.ArgumentParser(description="Measure an installation of the wheel.")
    parser.add_argument("wheel", nargs="?", type=Path, metavar="WHEEL")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--cached", action="store_true", help="keep pip's cache between the runs")
    arguments = parser.parse_args()
    wheel = arguments.wheel or built()
    if not wheel.is_file():
        sys.exit(f"{wheel}: no such file")
    chosen = sorted(os.sched_getaffinity(0))[:PROCESSORS]
    os.sched_setaffinity(0, chosen)
    print(f"{wheel.name}, {len(chosen)} processors, load {os.getloadavg()[0]:.1f}")
    runs = []
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        cache = f"--cache-dir={folder}/cache" if arguments.cached else "--no-cache-dir"
        for number in range(arguments.runs):
            runs.append(installed(wheel, Path(folder) / str(number), cache))
            print(f"run {number + 1}: {first_answer(runs[-1]).wall_s:.1f} s", file=sys.stderr)
    for step in runs[0]:
        print(described(step, [run[step] for run in runs], TARGETS_CPU_S.get(step)))
    print(described("from nothing to the first answer", [first_answer(run) for run in runs]))
    walls = [first_answer(run).wall_s for run in runs]
    print(f"target: {FIRST_ANSWER_S:.0f} s of wall time; the slowest run took {max(walls):.1f}")


def built() -> Path:
    """The wheel in dist for this machine."""
    found = sorted((ROOT / "dist").glob(f"pagewise_*_{os.uname().machine}.whl"))
    if not found:
        sys.exit("dist has no wheel for this machine: make dist-wheel, or name one")
    return found[-1]


def installed(wheel: Path, folder: Path, cache: str) -> dict[str, Spent]:
    """The time of each step, from no virtual environment to an answer, and of commands after it."""
    pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", cache, wheel]
    pagewise = folder / "bin/pagewise"
    return {
        "environment": spent([sys.executable, "-m", "venv", folder]),
        "installation": spent(pip),
        "pagewise analyze": spent([pagewise, "analyze", EXAMPLE]),
        "pagewise analyze, again": spent([pagewise, "analyze", EXAMPLE]),
        "pagewise --help": spent([pagewise, "--help"]),
    }


def spent(command: Sequence[str | Path]) -> Spent:
    """The time of a command, which must succeed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(
        command, cwd=tempfile.gettempdir(), capture_output=True, text=True, timeout=HUNG_S
    )
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        sys.exit(f"{command[0]} {command[1]} failed with status {ran.returncode}: {ran.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall_s, cpu_s)


def first_answer(run: dict[str, Spent]) -> Spent:
    """The time of the steps up to the first answer."""
    steps = [run[step] for step in FIRST_STEPS]
    return Spent(sum(step.wall_s for step in steps), sum(step.cpu_s for step in steps))


def described(step: str, runs: list[Spent], target_cpu_s: float | None = None) -> str:
    """A line about all runs of a step."""
    wall, cpu = (spread([getattr(run, name) for run in runs]) for name in ("wall_s", "cpu_s"))
    target = "" if target_cpu_s is None else f", target {target_cpu_s:.2f}"
    return f"{step}: wall {wall}, CPU {cpu}{target}"


def spread(seconds: list[float]) -> str:
    """The median, and the least and the most."""
    middle = statistics.median(seconds)
    return f"{middle:.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
