"""Runs a program and writes its resource use. Usage: launcher.py PARENT FD huge|base COMMAND...

`measure` runs this file as a separate small process, for three reasons. Linux counts the memory of
the process that starts a program into the program's ``ru_maxrss``. A program inherits the ban on
huge pages. And a process that dies by SIGKILL cannot end its program. Imports only what it needs
from the standard library.
"""

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_THP_DISABLE = 41


def end_all(_number: int, _frame: object) -> None:
    """Ends the program and this process, which are alone in their process group."""
    os.killpg(0, signal.SIGKILL)


def greatest_kib() -> int:
    """The peak memory of this process; its own ru_maxrss includes that of its parent."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main() -> int:
    """Writes status, minor faults, CPU seconds and greatest resident bytes as JSON to FD.

    The peak is absent if the program used less than this process.
    """
    parent, report, pages, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    os.set_inheritable(report, False)
    prctl = ctypes.CDLL(None).prctl
    signal.signal(signal.SIGTERM, end_all)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this one has ended")  # before PR_SET_PDEATHSIG
    if pages == "base" and prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        sys.exit("this kernel cannot disable huge pages for a process")
    try:
        # Without fork: the page faults of a copy of this process would count as the program's.
        child = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    _, status, used = os.wait4(child, 0)
    figures = {
        "status": os.waitstatus_to_exitcode(status),
        "minor_faults": used.ru_minflt,
        "cpu_s": used.ru_utime + used.ru_stime,
    }
    if used.ru_maxrss > greatest_kib():
        figures["max_rss_bytes"] = used.ru_maxrss * 1024
    os.write(report, json.dumps(figures).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
