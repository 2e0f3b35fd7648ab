"""swapd through the carriers that this machine's kernel lacks, on Debian kernels in guests.

A program of 96 MiB runs in a group of 24 MiB, so that most of it is on the served area; it checks
every page that it visits again. Meanwhile the servers are killed one after the other; at the end
server and guard are killed together.
"""

import json
import re
import sys
from pathlib import Path

import guest
import pytest

pytestmark = pytest.mark.slow

AGENT = Path(sys.executable).with_name("pagewise-agent")
MIB = 1 << 20
PROGRAM_MIB, GROUP_MIB, AREA_MIB, FAST_MIB = 96, 24, 128, 16
ROUNDS, VISITS, KILLS = 5, 3000, 5
BOOT_S = 500
KERNELS = {
    "6.1": guest.Machine(modules=("nbd", "fuse", "loop")),
    "6.12": guest.Machine(suite="bookworm-backports", modules=("nbd", "fuse", "loop")),
}
# One of all of them fails under emulation now and then.
CARRIERS = ("nbd",)

SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo {GROUP_MIB}M >/sys/fs/cgroup/small/memory.max
mkdir -p /run /tmp

swapd="pagewise-agent swapd --size {AREA_MIB}MiB --fast {FAST_MIB}MiB --slow /disk/slow
    --policy hierarchical --only-swap --verify"

# Starts the program in the group; its input is file descriptor 3, its output $1.
start_program() {{
    rm -f /tmp/input
    mkfifo /tmp/input
    (echo 0 >/sys/fs/cgroup/small/cgroup.procs; exec swapping {PROGRAM_MIB} </tmp/input >$1) &
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

# The server that serves now: the last that took over, or the first.
server() {{
    taken=$(sed -n 's/.*killed; process \\([0-9]*\\) serves.*/\\1/p' $1 | tail -1)
    echo ${{taken:-$first}}
}}

serve() {{
    $swapd --through $1 --json "$2" "$3" >/result/$1.$4.json 2>/result/$1.$4.errors &
    first=$!
    until grep -q pagewise /proc/swaps || grep -qE '/dev/(nbd|ublk|loop)' /proc/swaps; do
        sleep 0.1
        kill -0 $first || return 1
    done
}}

observe() {{
    serve $1 --priority 0 whole || return 1
    cat /proc/swaps >/result/$1.during
    start_program /result/$1.output
    for round in $(seq {ROUNDS}); do ask {VISITS} $round || return 1; done
    # The servers are killed while the program waits for pages.
    echo {10 * VISITS} >&3
    for kill in $(seq {KILLS}); do
        sleep 1
        old=$(server /result/$1.whole.errors)
        kill -9 $old
        until [ $(grep -c 'was killed' /result/$1.whole.errors) -ge $kill ]; do
            sleep 0.1
            kill -0 $program || return 1
        done
    done
    ask all {ROUNDS + 2} || return 1
    exec 3>&-
    wait $program || return 1
    kill -TERM $(server /result/$1.whole.errors)
    while grep -q /dev/ /proc/swaps; do sleep 0.1; done
    # What a kill of both leaves.
    serve $1 --priority 0 killed || return 1
    killall -9 pagewise-agent
    sleep 1
    pagewise-agent swapd --undo >/result/$1.undo 2>&1
    cat /proc/swaps >/result/$1.after
    ls /run/pagewise /sys/block >/result/$1.left
}}

for carrier in $(cat /carriers); do observe $carrier || exit 1; done
true
"""


@pytest.fixture(scope="module", params=KERNELS)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a guest with all carriers."""
    machine = KERNELS[request.param]
    if not AGENT.exists():
        pytest.skip("no pagewise-agent beside this Python: make build")
    if reason := guest.refusal(machine):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("guest")
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files = {
        **guest.with_libraries(AGENT),
        "bin/swapping": program,
        "carriers": " ".join(CARRIERS),
    }
    answer = guest.boot(machine, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output + errors(answer.results)
    return answer.results


def errors(results: Path) -> str:
    """What swapd wrote to standard error."""
    return "\n".join(path.read_text() for path in sorted(results.glob("*.errors")))


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_program_finds_its_pages_while_servers_are_killed(results: Path, carrier: str) -> None:
    answers = (results / f"{carrier}.output").read_text().splitlines()
    checked = [int(line.split()[1]) for line in answers if line.startswith("checked")]
    assert checked == [*[VISITS] * ROUNDS, 10 * VISITS, PROGRAM_MIB * MIB // 4096], answers
    assert f"/dev/{carrier}" in (results / f"{carrier}.during").read_text()
    taken = re.findall(r"serves \S+ since (\d+) ms", errors(results))
    assert len(taken) >= KILLS


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_last_server_reports_and_leaves_nothing(results: Path, carrier: str) -> None:
    report = json.loads((results / f"{carrier}.whole.json").read_text())
    assert (report["through"], report["takeovers"]) == (carrier, KILLS)
    assert report["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    assert report["fast"]["reads"] > 0 and report["slow"]["reads"] > 0
    assert len((results / f"{carrier}.after").read_text().splitlines()) == 1
    left = (results / f"{carrier}.left").read_text()
    assert ".undo" not in left, (results / f"{carrier}.undo").read_text()
