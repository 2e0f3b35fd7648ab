"""What the guests of swapd share: a program that swaps, and the results of one carrier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GROUP = "/sys/fs/cgroup/small"
HANGS_AFTER_S = 800
"""A guest whose script has not ended by then hangs; beside a build and another guest the slowest
took 401 s."""


def watched() -> str:
    """Shell code for the beginning of a guest's script: if the script hangs, the console shows what
    swapd and its programs wait for, and the script ends with its trap for EXIT. If it cannot, the
    guest ends without it."""
    return f"""\
trap 'exit 124' TERM
(
    sleep {HANGS_AFTER_S - 120}
    echo "The script hangs. What the processes of swapd and its programs wait for:"
    # First what takes no lock: reading /proc/swaps or a command line may hang as the script does.
    echo w >/proc/sysrq-trigger
    for process in $(pidof pagewise-agent swapping swapoff cat); do
        echo "$process: $(cat /proc/$process/comm)"
        cat /proc/$process/task/*/stack
    done
    cat /proc/swaps &
    kill $$
    # The shell runs its trap only when the program in the foreground has ended.
    sleep 5
    killall -9 pagewise-agent swapping swapoff cat
    # If no signal ends that program, do what init does after the script.
    sleep 30
    echo 124 >/result/status
    tar -cf /dev/vda -C /result .
    poweroff -f
) >/dev/console 2>&1 &
"""


def swapping(mebibytes: int) -> str:
    """Shell functions that start tests/vm/swapping.c in `GROUP`, and ask it for visits.

    They set ``program`` and ``output``; the program's input is file descriptor 3.
    """
    return f"""\
# Starts the program in the group; its input is file descriptor 3, its output $1.
start_program() {{
    rm -f /tmp/input
    mkfifo /tmp/input
    (echo 0 >{GROUP}/cgroup.procs; exec swapping {mebibytes} </tmp/input >$1) &
    program=$!
    exec 3>/tmp/input
    output=$1
}}

# Asks the program for $1 visits, and waits until it has answered $2 times in total.
ask() {{
    echo $1 >&3
    until [ $(grep -c checked $output) -ge $2 ]; do
        sleep 0.1
        kill -0 $program || return 1
    done
}}
"""


@dataclass(frozen=True)
class Left:
    """The results of one carrier in a guest."""

    results: Path
    carrier: str

    def text(self, name: str) -> str:
        """The text of a file that the guest's script wrote about this carrier."""
        return (self.results / f"{self.carrier}.{name}").read_text()
