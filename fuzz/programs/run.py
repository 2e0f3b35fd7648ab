"""Runs random programs with and without the preload library; both runs must observe the same.

    run.py PROGRAM LIBRARY --seconds 600 [--seed N]     seeds from N on, until the time is over
    run.py PROGRAM LIBRARY --seed N --once              one seed
    run.py PROGRAM LIBRARY --script FILE                a kept script

Exits with status 1 at the first difference, after printing the seed, the command that repeats it
and the shortest script that still differs. `fuzz/programs.sh` compiles the program and calls this.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from compare import (
    HUNG,
    HUNG_S,
    SETTINGS,
    SLOWER_MAX,
    Difference,
    Observed,
    Setup,
    difference,
    is_stable,
    observe,
)
from generate import Script, generate
from minimise import minimise

LINES_SHOWN = 20
TRIES = 3
"""Number of runs of a shortened script before it counts as passing."""
SHORT_HUNG_S = 15.0


def main() -> None:
    """Exits with status 1 if any run differs."""
    arguments = parse()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setup = Setup(arguments.program.resolve(), arguments.library.resolve())
    with tempfile.TemporaryDirectory(prefix="pagewise-programs-") as folder:
        place = Path(folder) / "script"
        if arguments.script:
            sys.exit(1 if tried(setup, arguments.script, arguments.settings) else 0)
        sys.exit(seeds(arguments, setup, place))


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--once", action="store_true", help="run only the first seed")
    parser.add_argument("--count", type=int, help="number of seeds, without a time limit")
    parser.add_argument("--script", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("."), help="where findings are written")
    parser.add_argument("--go-on", action="store_true", help="continue after a difference")
    parser.add_argument(
        "--settings",
        type=lambda text: text.split(","),
        default=list(SETTINGS),
        help=f"settings to run, of {', '.join(SETTINGS)}",
    )
    parser.add_argument(
        "--without",
        type=lambda text: text.split(","),
        default=[],
        help="operations to leave out, e.g. attach,hint",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.settings) - set(SETTINGS):
        parser.error(f"no such setting: {', '.join(sorted(unknown))}")
    return arguments


def seeds(arguments: argparse.Namespace, setup: Setup, place: Path) -> int:
    """Runs one seed after the other; returns the exit status."""
    begin, seed, unstable, found = time.monotonic(), arguments.seed, 0, 0
    count = 1 if arguments.once else arguments.count
    while (
        time.monotonic() - begin < arguments.seconds
        if count is None
        else seed < arguments.seed + count
    ):
        script = generate(seed, arguments.without)
        place.write_text(script.text())
        found_here = tried(setup, place, arguments.settings)
        if isinstance(found_here, Difference):
            found += 1
            report(arguments, setup, place, seed, script, found_here)
            if not arguments.go_on:
                return 1
        unstable += found_here == "unstable"
        seed += 1
    print(
        f"programs: {'fine' if found == 0 else f'{found} FINDINGS'}, {seed - arguments.seed} from "
        f"seed {arguments.seed} on, each without the library and in {len(arguments.settings)} "
        f"settings, in {time.monotonic() - begin:.0f} seconds; {unstable} differ by themselves"
    )
    return int(found > 0)


def tried(setup: Setup, place: Path, settings: list[str]) -> Difference | str | None:
    """The first difference; `unstable` if runs without the library differ from each other too."""
    stock = observe(setup, place, None)
    for setting in settings:
        found = difference(stock, observe(setup, place, setting, patience(stock)), setting)
        if found is None:
            continue
        if not is_stable(setup, place, stock):
            print(f"unstable without the library: {found.stock}", flush=True)
            return "unstable"
        print(f"differs under {setting}:\n  {found.stock}\n  {found.library}", flush=True)
        return found
    return None


def patience(stock: Observed, least_s: float = HUNG_S) -> float:
    """Timeout for a run with the library: a slow run on a busy machine is no finding."""
    return max(least_s, SLOWER_MAX * stock.seconds)


def report(
    arguments: argparse.Namespace,
    setup: Setup,
    place: Path,
    seed: int,
    script: Script,
    found: Difference,
) -> None:
    """Prints the command that repeats the difference, then the shortest script."""
    command = f"{sys.argv[0]} {setup.program} {setup.library}"
    print(f"programs: FINDING: {command} --settings '{found.setting}' --once --seed {seed}")
    sys.stdout.flush()
    hung_s = SHORT_HUNG_S if HUNG in found.library else HUNG_S

    def fails(shorter: Script) -> bool:
        place.write_text(shorter.text())
        stock = observe(setup, place, None)
        limit_s = patience(stock, hung_s)
        return any(
            difference(stock, observe(setup, place, found.setting, limit_s), found.setting)
            for _ in range(TRIES)
        )

    shortest = minimise(script, fails)
    kept = arguments.keep / f"program-{seed}.script"
    kept.write_text(shortest.text())
    print(f"programs: {len(shortest.operations)} of {len(script.operations)} operations left:")
    print(f"  {command} --settings '{found.setting}' --script {kept}")
    print("\n".join(shortest.text().splitlines()[:LINES_SHOWN]), flush=True)


if __name__ == "__main__":
    main()
