"""The process of the command `pagewise`, also `python -m pagewise`: streams, Ctrl-C, exit status.

Loading the commands takes a few tenths of a second. An interrupt in that time ends the process as
one that comes later does, with status 130 and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line of this process, and exits with its status."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    open_standard_streams()
    from pagewise.cli import run

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = run()
    except KeyboardInterrupt:
        status = INTERRUPTED
    # What is left is flushing and unloading: a second Ctrl-C has nothing to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)


def open_standard_streams() -> None:
    """Opens the null device in place of every standard stream that the caller closed (`>&-`).

    Otherwise the next file opened would take the stream's number, and get what is meant for it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
