#!/usr/bin/env python3
"""CPU time from the start of a command to its answer: user and system time, least and median.

    .venv/bin/python bench/start.py [--runs 11] [--modules]

The runs take turns, so that a slow moment of the machine meets all commands. --modules prints the
modules that take the longest to load for each command, by `-X importtime`.
"""

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGEWISE = [sys.executable, "-m", "pagewise"]
EXAMPLE = "examples/phone-1g/phone-1g.pgr"
COMMANDS = {
    "python -c pass": ([sys.executable, "-c", "pass"], None),
    "pagewise --version": ([*PAGEWISE, "--version"], None),
    "pagewise --help": ([*PAGEWISE, "--help"], 0.150),
    "pagewise analyze --help": ([*PAGEWISE, "analyze", "--help"], None),
    f"pagewise analyze {EXAMPLE}": ([*PAGEWISE, "analyze", EXAMPLE], 0.600),
}
"""Each command, with its target in seconds of CPU time."""
SHOWN = 8
"""How many modules --modules prints for a command."""


def main() -> None:
    """Prints a line for each command."""
    parser = argparse.ArgumentParser(description="Measure the CPU time of short commands.")
    parser.add_argument("--runs", type=int, default=11, metavar="N")
    parser.add_argument("--modules", action="store_true", help="print the slowest modules")
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(arguments.runs):
        for name, (command, _) in COMMANDS.items():
            times[name].append(seconds(command))
    for name, (command, target) in COMMANDS.items():
        least, middle = min(times[name]), statistics.median(times[name])
        verdict = "" if target is None else f", target {target * 1e3:.0f}"
        print(f"{name}: {least * 1e3:.0f} ms, median {middle * 1e3:.0f}{verdict}")
        if arguments.modules:
            for microseconds, module in slowest(command)[:SHOWN]:
                print(f"  {microseconds / 1e3:.1f} ms {module}")


def seconds(command: list[str]) -> float:
    """The CPU time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def slowest(command: list[str]) -> list[tuple[int, str]]:
    """The modules that a command loads, by their own wall time in microseconds."""
    interpreter, *rest = command
    run = subprocess.run(
        [interpreter, "-X", "importtime", *rest],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    rows = [line.removeprefix("import time:").split("|") for line in run.stderr.splitlines()]
    found = [(row[0].strip(), row[2].strip()) for row in rows if len(row) == 3]
    return sorted(((int(own), name) for own, name in found if own.isdigit()), reverse=True)


if __name__ == "__main__":
    main()
