"""The entry point of `pagewise` and `python -m pagewise`: streams, signals and exit status.

Loading the commands takes a few tenths of a second. A signal during that time ends the process as a
later signal does: Ctrl-C with status 130, without a traceback.
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
    # Only flushing and unloading is left, which a second signal must not interrupt.
    signals.heed(signal.SIG_IGN)
    sys.exit(status)


def open_standard_streams() -> None:
    """Opens the null device for every standard stream that the caller closed (`>&-`).

    Otherwise the next file opened would get the stream's number, and receive its output. Characters
    that the terminal's character set lacks are written as escapes.
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
