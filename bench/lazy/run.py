"""Compares lazy unmapping with other allocators on real programs; `make bench-lazy` calls this.

    PYTHONPATH=bench .venv/bin/python -m lazy.run [PART...] [--rounds N] [--allocators A,B]

Needs root, memory cgroups of version 1 and what tools/bench_lazy_setup.sh installs. Runs are
kept in build/bench-lazy and not repeated: an interrupted comparison resumes. `--fresh` deletes them
first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from run import place

from lazy.allocators import ALLOCATORS
from lazy.document import document
from lazy.part import run
from lazy.parts import PARTS
from lazy.places import DOCUMENT, RESULT, RUNS
from lazy.result import result
from lazy.store import Store, build_of, measured_files
from lazy.summary import Summary


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if os.geteuid() != 0:
        sys.exit("run it as root: it counts traps of other processes and limits their memory")
    chosen = present(arguments.allocators)
    if arguments.fresh:
        RUNS.unlink(missing_ok=True)
    store = Store(RUNS, build_of(measured_files()))
    for name in arguments.parts or PARTS:
        part = PARTS[name]
        print(name, file=sys.stderr, flush=True)
        run(part, store, chosen, arguments.rounds or part.rounds)
    publish(store)


def publish(store: Store) -> None:
    """Writes the result and the page of the stored runs, and prints the page."""
    compared = result(Summary(store.runs), place())
    RESULT.write_text(json.dumps(compared, indent=1) + "\n")
    page = document(compared)
    DOCUMENT.write_text(page)
    print(page)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, help="rounds of every part; default: the part's own")
    parser.add_argument(
        "--allocators",
        type=lambda text: text.split(","),
        default=list(ALLOCATORS),
        help=f"of {', '.join(ALLOCATORS)}",
    )
    parser.add_argument("--fresh", action="store_true", help="delete the stored runs first")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS) | set(arguments.allocators) - set(ALLOCATORS)
    if unknown:
        parser.error(f"no such part or allocator: {', '.join(sorted(unknown))}")
    return arguments


def present(names: list[str]) -> list[str]:
    """The allocators that can run here; prints the names of the others."""
    absent = {name: lacking for name in names if (lacking := ALLOCATORS[name].absent())}
    for name, lacking in absent.items():
        print(f"{name} is skipped: no {lacking}", file=sys.stderr)
    return [name for name in names if name not in absent]


if __name__ == "__main__":
    main()
