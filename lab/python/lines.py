"""Shared by the Python applications: print "ready", and answer "visit N" with "done"."""

import sys
from collections.abc import Callable


def serve(visit: Callable[[int], object]) -> None:
    """Answers each line of standard input with the result of ``visit`` for its round."""
    print("ready", flush=True)
    for line in sys.stdin:
        print("done", visit(int(line.split()[1])), flush=True)
