#!/usr/bin/env python3
"""CPU time of a build from nothing, in all and by crate; wall time would count other programs.

    python3 bench/build.py [--folder build/from-nothing] [--top 15]

Builds what `make build` compiles into a new folder, in its three steps: the module of the package,
the agent with the preload library of allocations, and that of `lazy`. cargo runs this file for each
crate, which writes user and system time of the compiler; the rest of the total is build scripts,
such as those of zstd and libbpf. Crates that cargo has not downloaded yet take their time too.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILDS = {
    "module of the package": ["--release", "-p", "python", "--features", "pyo3/extension-module"],
    "agent, allocations": ["--release", "-p", "agent", "-p", "allocations"],
    "lazy": ["--profile", "preload", "-p", "lazy"],
}
"""What each step builds, as arguments of cargo."""
TIMES = "PAGEWISE_BUILD_TIMES"
TARGET_S = 2 * 180
"""Three minutes on two processors."""


def main() -> None:
    """Builds, and prints the times."""
    parser = argparse.ArgumentParser(description="Measure a build from nothing.")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/from-nothing")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="how many crates to print")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if folder.exists():
        sys.exit(f"{folder} exists; remove it, or name another folder")
    folder.mkdir(parents=True)
    times = folder / "times.txt"
    wrapper = {"RUSTC_WRAPPER": str(Path(__file__).resolve()), TIMES: str(times)}
    for step, build in BUILDS.items():
        before_s, began_s = seconds_of_children(), time.monotonic()
        subprocess.run(
            ["cargo", "build", "--quiet", "--locked", "--target-dir", str(folder), *build],
            cwd=ROOT,
            env={**os.environ, **wrapper},
            check=True,
        )
        cpu_s, wall_s = seconds_of_children() - before_s, time.monotonic() - began_s
        print(f"{step}: {cpu_s:.0f} s of CPU time, {wall_s:.0f} s of wall time", flush=True)
    total = seconds_of_children()
    rows = sorted((line.split() for line in times.read_text().splitlines()), reverse=True, key=cpu)
    print(f"{total:.0f} s of CPU time, target {TARGET_S}; {sum(map(cpu, rows)):.0f} s in rustc")
    for row in rows[: arguments.top]:
        print(f"{cpu(row):7.1f} s  {row[1]}")
    shutil.rmtree(folder)


def cpu(row: list[str]) -> float:
    """The seconds in a line of the times."""
    return float(row[0])


def seconds_of_children() -> float:
    """User and system time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_crate(command: list[str]) -> int:
    """Runs the compiler, and writes its time and the name of the crate."""
    # The compiler shares cargo's jobserver by descriptors that it inherits.
    status = subprocess.run(command, check=False, close_fds=False).returncode
    if "--crate-name" in command and "___" not in command:
        name = command[command.index("--crate-name") + 1]
        with open(os.environ[TIMES], "a") as file:
            file.write(f"{seconds_of_children():.2f} {name}\n")
    return status


if __name__ == "__main__":
    if TIMES in os.environ:
        sys.exit(compile_crate(sys.argv[1:]))
    main()
