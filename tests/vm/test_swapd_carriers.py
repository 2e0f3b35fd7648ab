"""swapd through the carriers that this machine's kernel lacks, on Debian kernels in guests.

A program of 96 MiB runs in a group of 24 MiB, so that most of it is on the served area; it checks
every page that it visits again. Meanwhile the servers are killed one after the other. At the end
server and guard of another area are killed together: its pages are lost, and its program must not
go on with other data.
"""

import functools
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import guest
import pytest
from carriers import HANGS_AFTER_S, Left, swapping, watched

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
MKFS = Path("/usr/sbin/mkfs.ext4")
MIB = 1 << 20
PROGRAM_MIB, GROUP_MIB, AREA_MIB, FAST_MIB = 96, 24, 128, 16
ROUNDS, VISITS, KILLS = 5, 3000, 5
KERNELS = {
    "6.1": guest.Machine(modules=("nbd",)),
    # 64 MiB of the memory are a /dev/pmem0, as an NVM has.
    "6.12": guest.Machine(
        suite="bookworm-backports",
        kernel_arguments="memmap=64M!256M",
        modules=("nbd", "ublk_drv", "nd_e820", "nd_pmem"),
        memory_mib=576,
    ),
}
CARRIERS = {"6.1": ("nbd",), "6.12": ("nbd", "ublk")}
CASES = [(kernel, carrier) for kernel, carriers in CARRIERS.items() for carrier in carriers]

SCRIPT = f"""
{watched()}
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
# At memory.max, the kernel would kill the program if a takeover takes long.
echo {GROUP_MIB}M >/sys/fs/cgroup/small/memory.high
mkdir -p /run /tmp
# The root file system lies in memory. Only the program's pages may come into an area that is lost.
results=/disk/results
mkdir $results
save() {{
    grep -E 'pswp|kswapd|allocstall' /proc/vmstat >$results/vmstat
    cp $results/* /result/
}}
trap save EXIT

swapd="pagewise-agent swapd --size {AREA_MIB}MiB --fast {FAST_MIB}MiB --slow /disk/slow
    --policy hierarchical --only-swap --verify"

{swapping(PROGRAM_MIB)}
# The server that serves now: the last that took over, or the first.
server() {{
    taken=$(sed -n 's/.*killed; process \\([0-9]*\\) serves.*/\\1/p' $1 | tail -1)
    echo ${{taken:-$first}}
}}

serve() {{
    $swapd --through $1 --json "$2" "$3" >$results/$1.$4.json 2>$results/$1.$4.errors &
    first=$!
    until grep -q pagewise /proc/swaps || grep -qE '/dev/(nbd|ublk|loop)' /proc/swaps; do
        sleep 0.1
        kill -0 $first || return 1
    done
}}

observe() {{
    serve $1 --priority 0 whole || return 1
    cat /proc/swaps >$results/$1.during
    start_program $results/$1.output
    for round in $(seq {ROUNDS}); do ask {VISITS} $round || return 1; done
    # The servers are killed while the program waits for pages.
    echo {10 * VISITS} >&3
    for kill in $(seq {KILLS}); do
        sleep 1
        old=$(server $results/$1.whole.errors)
        kill -9 $old
        until [ $(grep -c 'was killed' $results/$1.whole.errors) -ge $kill ]; do
            sleep 0.1
            kill -0 $program || return 1
        done
    done
    ask all {ROUNDS + 2} || return 1
    exec 3>&-
    wait $program || return 1
    kill -TERM $(server $results/$1.whole.errors)
    while grep -q /dev/ /proc/swaps; do sleep 0.1; done
    # What a kill of both leaves: an area whose pages are lost.
    serve $1 --priority 0 killed || return 1
    start_program $results/$1.lost
    until grep -q ready $results/$1.lost; do sleep 0.1; done
    killall -9 pagewise-agent
    sleep 1
    # If it fails, the program waits for its pages for ever.
    pagewise-agent swapd --undo >$results/$1.undo 2>&1 || {{ cat $results/$1.undo; return 1; }}
    cat /proc/swaps >$results/$1.after
    echo all >&3
    wait $program
    echo $? >$results/$1.lost.status
    exec 3>&-
    # An NBD device has a file `pid` while it is connected.
    ls -d /run/pagewise/* /sys/block/* /sys/block/nbd*/pid >$results/$1.left 2>/dev/null
    true
}}

# The fast tier in a file of a file system that maps the NVM itself (DAX).
observe_dax() {{
    mkfs.ext4 -q -b 4096 /dev/pmem0 && mkdir /dax && mount -t ext4 -o dax=always /dev/pmem0 /dax ||
        return 1
    grep /dax /proc/mounts >$results/dax.mount
    serve any --fast-on /dax/fast dax || return 1
    start_program $results/dax.output
    for round in $(seq {ROUNDS}); do ask {VISITS} $round || return 1; done
    kill -9 $first
    until grep -q 'was killed' $results/any.dax.errors; do sleep 0.1; done
    ask all {ROUNDS + 1} || return 1
    exec 3>&-
    wait $program || return 1
    kill -TERM $(server $results/any.dax.errors)
    until grep -q schema $results/any.dax.json; do sleep 0.1; done
}}

for carrier in $(cat /carriers); do observe $carrier || exit 1; done
[ ! -e /dev/pmem0 ] || [ ! -e /bin/mkfs.ext4 ] || observe_dax
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The results of a guest with this kernel, which is booted once."""
    return functools.cache(lambda kernel: boot(kernel, tmp_path_factory.mktemp("guest")))


@pytest.fixture(params=CASES, ids="-".join)
def left(request: pytest.FixtureRequest, booted: Callable[[str], Path]) -> Left:
    """The results of one case."""
    kernel, carrier = request.param
    return Left(booted(kernel), carrier)


def boot(kernel: str, folder: Path) -> Path:
    machine = KERNELS[kernel]
    guest.need_agent(machine)
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files = {
        **guest.with_libraries(AGENT),
        **(guest.with_libraries(MKFS) if MKFS.exists() else {}),
        "bin/swapping": program,
        "carriers": " ".join(CARRIERS[kernel]),
    }
    answer = guest.boot(machine, SCRIPT, files, folder, timeout_s=HANGS_AFTER_S)
    errors = "\n".join(path.read_text() for path in sorted(answer.results.glob("*.errors")))
    assert answer.status == 0, answer.output + errors + answer.console[-10_000:]
    return answer.results


def test_a_program_finds_its_pages_while_servers_are_killed(left: Left) -> None:
    answers = left.text("output").splitlines()
    checked = [int(line.split()[1]) for line in answers if line.startswith("checked")]
    assert checked == [*[VISITS] * ROUNDS, 10 * VISITS, PROGRAM_MIB * MIB // 4096], answers
    assert f"/dev/{left.carrier}" in left.text("during")
    taken = re.findall(r"serves \S+ since (\d+) ms", left.text("whole.errors"))
    assert len(taken) == KILLS


def test_the_last_server_reports_and_leaves_nothing(left: Left) -> None:
    report = json.loads(left.text("whole.json"))
    assert (report["through"], report["takeovers"]) == (left.carrier, KILLS)
    assert report["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    assert report["fast"]["reads"] > 0 and report["slow"]["reads"] > 0
    # Among other things, the kernel grants PR_SET_IO_FLUSHER.
    assert report["refused"] == []
    assert len(left.text("after").splitlines()) == 1
    assert int(left.text("lost.status")) == 128 + signal.SIGBUS
    assert ".undo" not in left.text("left"), left.text("undo")
    assert not re.search(r"ublkb|nbd\d+/pid", left.text("left"))


def test_a_fast_tier_in_a_dax_file_outlives_its_server(booted: Callable[[str], Path]) -> None:
    if not MKFS.exists():
        pytest.skip(f"{MKFS} is missing")
    results = booted("6.12")
    assert "dax=always" in (results / "dax.mount").read_text()
    answers = (results / "dax.output").read_text().splitlines()
    checked = [int(line.split()[1]) for line in answers if line.startswith("checked")]
    assert checked == [*[VISITS] * ROUNDS, PROGRAM_MIB * MIB // 4096], answers
    report = json.loads((results / "any.dax.json").read_text())
    assert (report["fast_on"], report["takeovers"]) == ("/dax/fast", 1)
    assert report["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    assert report["fast_requests"]["reads"] > 0 and report["slow"]["reads"] > 0
