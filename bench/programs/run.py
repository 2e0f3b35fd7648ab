"""Runs whole programs stock and under the preload library; `make bench-programs` calls this.

    PYTHONPATH=bench .venv/bin/python -m programs.run [PROGRAM...] [--rounds N] [--modes A,B]

Needs root, control groups of version 1 and what tools/bench_programs_setup.sh installs. Runs are
kept in build/bench-programs and not repeated: an interrupted comparison resumes. `--fresh` deletes
them first.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lazy.result import range_of
from lazy.store import Store, build_of
from run import place

from programs.building import build
from programs.catalog import PROGRAMS
from programs.document import document, verdict_text
from programs.group import absent
from programs.measure import Measuring, measure
from programs.modes import MODES, STOCK
from programs.places import AGENT, DOCUMENT, LIBRARY, RESULT, RUNS
from programs.program import Program
from programs.result import result
from programs.selftest import selftest

HOW = ("group.py", "modes.py", "outcome.py", "running.py", "service.py")
ROUNDS = 5


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell starts background jobs with SIGINT ignored, and every program would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if lacking := absent():
        sys.exit(lacking)
    if arguments.page:
        skipped = {row.name: reason for row in PROGRAMS.values() if (reason := row.absent())}
        return finish(store_of_runs(), skipped, is_page=True)
    if arguments.fresh:
        RUNS.unlink(missing_ok=True)
    store = store_of_runs()
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-programs-") as folder:
        Path(folder).chmod(0o755)
        print("selftest", file=sys.stderr, flush=True)
        selftest(Path(folder))
        modes = tuple(mode for mode in MODES.values() if mode.name in {STOCK, *arguments.modes})
        measuring = Measuring(store, Path(folder), modes)
        skipped: dict[str, str] = {}
        for program in arguments.programs:
            if reason := program.absent() or unbuilt(program):
                skipped[program.name] = reason
                print(f"{program.name}: skipped, {reason}", file=sys.stderr, flush=True)
            else:
                print(program.name, file=sys.stderr, flush=True)
                measure(measuring, program, arguments.rounds)
    finish(store, skipped, is_page=arguments.is_whole)


def store_of_runs() -> Store:
    """The stored runs of this library and of these scripts."""
    how = [Path(__file__).with_name(name) for name in HOW]
    return Store(RUNS, build_of([AGENT, LIBRARY, *how]))


def unbuilt(program: Program) -> str | None:
    """Why the program cannot be compiled here, or None."""
    try:
        for built in program.built:
            build(built)
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]} ends with status {error.returncode}"
    return None


def finish(store: Store, skipped: dict[str, str], is_page: bool) -> None:
    """Writes the result, prints the verdicts, and after a run of all programs writes the page."""
    found = result(
        store, skipped, place(), range_of(run.load for run in store.runs) if store.runs else {}
    )
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(verdict_text(found))
    if is_page:
        DOCUMENT.write_text(document(found))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", help="names, * and ? allowed; default: all")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    parser.add_argument(
        "--modes",
        type=lambda text: text.split(","),
        default=list(MODES),
        help=f"of {', '.join(MODES)}; stock always runs",
    )
    parser.add_argument("--page", action="store_true", help="only write the page, from stored runs")
    parser.add_argument("--fresh", action="store_true", help="delete the stored runs first")
    arguments = parser.parse_args()
    patterns = arguments.programs or ["*"]
    arguments.is_whole = not arguments.programs
    arguments.programs = chosen(patterns)
    unknown = set(arguments.modes) - set(MODES)
    if not arguments.programs or unknown:
        parser.error(f"no such program or mode: {', '.join(unknown or patterns)}")
    return arguments


def chosen(patterns: list[str]) -> list[Program]:
    """The programs whose names match any of the patterns."""
    return [
        program
        for name, program in PROGRAMS.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]


if __name__ == "__main__":
    main()
