"""The process of the command `pagewise`, also `python -m pagewise`: streams, signals, exit status.

Loading the commands takes a few tenths of a second. A signal in that time ends the process as one
that comes later does: Ctrl-C with status 130, without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper

from pagewise import signals


def main() -> None:
    """Runs the command line of this process, and exits with its status."""
    signals.heed(lambda number, _frame: os._exit(signals.status_of(number)))
    open_standard_streams()
    from pagewise.cli import run

    try:
        signals.watch()
        signals.heed(signals.end)
        status = run()
    except signals.Ended as ended:
        status = signals.status_of(ended.number)
    # What is left is flushing and unloading: a second signal has nothing to stop.
    signals.heed(signal.SIG_IGN)
    sys.exit(status)


def open_standard_streams() -> None:
    """Opens the null device in place of every standard stream that the caller closed (`>&-`).

    Otherwise the next file opened would take the stream's number, and get what is meant for it.
    What a terminal's character set lacks is written as an escape.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
