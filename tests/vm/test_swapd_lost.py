"""What a killed swapd leaves on a kernel whose FUSE gives open requests to no successor.

Before Linux 6.9 the guard cannot take over through FUSE, so the pages are lost. A program that
needs one must end by SIGBUS, neither wait nor go on with other data, and the next swapd must find
nothing in its way.
"""

import json
import signal
from pathlib import Path

import guest
import pytest
from carriers import GROUP

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
PROGRAM_MIB, GROUP_MIB, AREA_MIB, FAST_MIB = 48, 16, 64, 8
BOOT_S = 900
MACHINE = guest.Machine(modules=("fuse", "loop"))

SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir {GROUP}
echo {GROUP_MIB}M >{GROUP}/memory.high
mkdir -p /run /tmp
# The root file system lies in memory. Only the program's pages may come into the area.
results=/disk/results
mkdir $results
trap 'cp $results/* /result/' EXIT

swapd="pagewise-agent swapd --size {AREA_MIB}MiB --fast {FAST_MIB}MiB --slow /disk/slow
    --policy hierarchical --only-swap --verify --through fuse --priority 0"

# Waits until something holds, for a minute at most.
until_true() {{
    for turn in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    echo "still waiting for: $*"
    exit 1
}}
serves() {{ grep -q serving $results/served; }}
has_answered() {{ grep -q checked $results/answers; }}
is_full() {{ [ $(cat {GROUP}/memory.swap.current) -ge {20 << 20} ]; }}
no_agent() {{ ! pidof pagewise-agent >/dev/null; }}

$swapd >$results/served 2>$results/errors &
server=$!
until_true serves
mkfifo /tmp/input
# Only the program is in the group: what else swaps to the area would be lost, too.
(sh -c 'echo 0 >{GROUP}/cgroup.procs; exec swapping {PROGRAM_MIB}' </tmp/input >$results/answers
    echo $? >$results/ended) &
program=$!
exec 3>/tmp/input
echo 500 >&3
until_true has_answered
until_true is_full
# It visits pages until it ends.
echo 1000000 >&3
sleep 1
kill -9 $server
# The guard tries to take over, and ends.
until_true no_agent
wait $program
exec 3>&-

pagewise-agent swapd --undo >$results/undone 2>&1 || exit 1
cat /proc/swaps >$results/swaps
ls /run/pagewise >$results/run
cat /sys/block/loop*/loop/backing_file >$results/loops 2>/dev/null
$swapd --json -- true >$results/again || exit 1
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    guest.need_agent(MACHINE)
    folder = tmp_path_factory.mktemp("guest")
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files: dict[str, Path | str] = {**guest.with_libraries(AGENT), "bin/swapping": program}
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    errors = answer.results / "errors"
    printed = errors.read_text() if errors.exists() else ""
    assert answer.status == 0, answer.output + printed + answer.console[-3000:]
    return answer.results


def test_a_program_gets_sigbus_and_no_other_data(results: Path) -> None:
    assert int((results / "ended").read_text()) == 128 + signal.SIGBUS
    # Neither an answer to its last visit nor a page that is not as it was written.
    assert (results / "answers").read_text() == "ready\nchecked 500\n"


def test_the_guard_says_that_it_does_not_take_over(results: Path) -> None:
    errors = (results / "errors").read_text()
    assert "cannot take over a FUSE connection: before Linux 6.9" in errors
    assert "swapd was killed;" not in errors


def test_nothing_is_left_for_the_next_swapd(results: Path) -> None:
    assert len((results / "swaps").read_text().splitlines()) == 1
    assert ".undo" not in (results / "run").read_text(), (results / "undone").read_text()
    assert (results / "loops").read_text() == ""
    report = json.loads((results / "again").read_text())
    assert (report["through"], report["takeovers"]) == ("fuse", 0)
