"""Restores what a killed pagewise left changed. Usage: -m pagewise.huge_pages.keeper SWITCHES UNDO

`settings.changed` restores the switches on every exit that Python handles. This process, in its own
session, restores them after all others: SIGKILL, an unhandled signal, a crash. It waits for the
lock on the log, which the kernel releases however its holder ends.
"""

import signal
import sys
from pathlib import Path

from pagewise.huge_pages.settings import put_back
from pagewise.signals import ENDING


def main() -> None:
    """Waits for the lock, then restores; finds nothing to restore after a run that ended
    normally."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    switches, undo = map(Path, sys.argv[1:])
    put_back(switches, undo, waits=True)


if __name__ == "__main__":
    main()
