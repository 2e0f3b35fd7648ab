"""Runs a program and writes what it used. Usage: launcher.py PARENT FD huge|base COMMAND...

`measure` runs this file as a small process of its own, for three reasons: Linux counts the memory
of the process that starts a program into the program's ``ru_maxrss``; what bars huge pages is
inherited; and who dies by SIGKILL cannot end its program. Standard library only, and little of it.
"""

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_THP_DISABLE = 41


def end_all(_number: int, _frame: object) -> None:
    """Ends the program and this process, which has its own process group."""
    os.killpg(0, signal.SIGKILL)


def greatest_kib() -> int:
    """The most memory this process had; its own ru_maxrss holds that of who started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main() -> int:
    """Writes status, minor faults, CPU seconds and greatest resident bytes as JSON to FD.

    The last is absent where the program used less than this process.
    """
    parent, report, pages, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    os.set_inheritable(report, False)
    prctl = ctypes.CDLL(None).prctl
    signal.signal(signal.SIGTERM, end_all)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("who started this has ended")  # before the line above could tell
    if pages == "base" and prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        sys.exit("this kernel does not let huge pages be barred")
    try:
        # Without a copy of this process, whose page faults would count as the program's.
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
