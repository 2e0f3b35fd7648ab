"""swapd --serve below the file system of programs and their shared libraries, in a guest.

The guest mounts the served device, and runs the programs from it again and again, each time
without anything in the page cache. The kernel's counts of the disk below show how much of that the
fast tier answers. Then the servers are killed while files are written and read.
"""

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import guest
import pytest
from carriers import Left

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
PROGRAMS = [name for name in ("bash", "perl", "git", "curl") if shutil.which(name)]
ROUNDS, KILLS, FAST_MIB = 4, 5, 32
IMAGE_MIB = 64
MACHINE = guest.Machine(
    suite="bookworm-backports", memory_mib=1024, modules=("loop", "nbd", "ublk_drv")
)
CARRIERS = ("ublk", "nbd")

SCRIPT = f"""
mkdir -p /run /tmp /served
results=/disk/results
mkdir $results
trap 'cp $results/* /result/' EXIT
cp /libraries /disk/libraries
losetup /dev/loop0 /disk/libraries

serve() {{
    pagewise-agent swapd --serve /dev/loop0 --fast {FAST_MIB}MiB --through $1 --verify --json \\
        >$results/$1.json 2>$results/$1.errors &
    first=$!
    until grep -q 'serving /dev/loop0' $results/$1.errors; do
        sleep 0.1
        kill -0 $first || return 1
    done
    device=$(sed -n 's/.* at \\(.*\\) through.*/\\1/p' $results/$1.errors)
}}

# The server that serves now: the last that took over, or the first.
server() {{
    taken=$(sed -n 's/.*killed; process \\([0-9]*\\) serves.*/\\1/p' $results/$1.errors | tail -1)
    echo ${{taken:-$first}}
}}

# Sectors that were read from a device.
sectors() {{ awk '{{print $3}}' /sys/block/$(basename $1)/stat; }}

# Runs every program and reads every file; nothing of them is in the page cache at first.
visit() {{
    echo 3 >/proc/sys/vm/drop_caches
    mount -o bind /dev /served/dev
    for program in $(cat /programs); do chroot /served /bin/$program --version || return 1; done
    umount /served/dev
    (cd /served && find . -type f | sort | xargs md5sum)
}}

observe() {{
    serve $1 || return 1
    mount -t ext4 $device /served || return 1
    for round in $(seq {ROUNDS}); do
        slow=$(sectors /dev/loop0)
        all=$(sectors $device)
        visit >$results/$1.visit.$round 2>&1 || return 1
        echo $(($(sectors $device) - all)) $(($(sectors /dev/loop0) - slow)) >>$results/$1.sectors
    done
    for kill in $(seq {KILLS}); do
        (for file in $(seq 20); do
            head -c 300000 /dev/urandom >/served/new.$kill.$file
            sync
        done) &
        writer=$!
        sleep 1
        kill -9 $(server $1)
        until [ $(grep -c 'was killed' $results/$1.errors) -ge $kill ]; do sleep 0.1; done
        wait $writer || return 1
    done
    visit >$results/$1.served 2>&1 || return 1
    # It is in use, so it does not end yet.
    kill -TERM $(server $1)
    sleep 3
    umount /served
    while [ -e /proc/$(server $1) ]; do sleep 0.1; done
    mount -t ext4 /dev/loop0 /served || return 1
    visit >$results/$1.direct 2>&1 || return 1
    rm /served/new.*
    umount /served
    ls /run/pagewise /sys/block >$results/$1.left
}}

for carrier in {" ".join(CARRIERS)}; do observe $carrier || exit 1; done
true
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """The results of the guest, which is booted once."""
    return functools.cache(lambda: boot(tmp_path_factory.mktemp("guest")))


@pytest.fixture(params=CARRIERS)
def left(request: pytest.FixtureRequest, booted: Callable[[], Path]) -> Left:
    """The results of one carrier."""
    return Left(booted(), request.param)


def boot(folder: Path) -> Path:
    guest.need_agent(MACHINE)
    if not PROGRAMS:
        pytest.skip("none of the programs is on this machine")
    tree, image = folder / "tree", folder / "libraries"
    (tree / "dev").mkdir(parents=True)
    for program in PROGRAMS:
        found = Path(str(shutil.which(program))).resolve()
        files = guest.with_libraries(found) | {f"bin/{program}": found}
        for name, path in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tree / name)
    with image.open("wb") as file:
        file.truncate(IMAGE_MIB << 20)
    options = ("-q", "-F", "-b", "4096", "-d", tree)
    subprocess.run(["mkfs.ext4", *options, image], check=True, timeout=300)
    files = {**guest.with_libraries(AGENT), "libraries": image, "programs": " ".join(PROGRAMS)}
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=1500)
    errors = "\n".join(path.read_text() for path in sorted(answer.results.glob("*.errors")))
    assert answer.status == 0, answer.output + errors + answer.console[-3000:]
    return answer.results


def test_the_third_cold_round_comes_from_the_fast_tier(left: Left) -> None:
    rounds = [tuple(map(int, line.split())) for line in left.text("sectors").splitlines()]
    print(left.carrier, rounds)
    assert len(rounds) == ROUNDS and len({left.text(f"visit.{n + 1}") for n in range(ROUNDS)}) == 1
    first, second, *later = rounds
    # Admission is at the second read, so both of these read the disk.
    assert first[1] >= 0.95 * first[0] and second[1] >= 0.9 * second[0], rounds
    for served, slow in later:
        assert served >= 0.8 * second[0] and slow <= 0.1 * served, rounds


def test_killed_servers_lose_no_file(left: Left) -> None:
    served, direct = left.text("served"), left.text("direct")
    assert served == direct and served.count("new.") == 20 * KILLS
    before = left.text("visit.1").splitlines()
    assert [line for line in served.splitlines() if "new." not in line] == before
    assert len(re.findall(r"serves \S+ since \d+ ms", left.text("errors"))) == KILLS
    assert "is mounted at /served" in left.text("errors")


def test_the_last_server_reports_and_leaves_nothing(left: Left) -> None:
    report = json.loads(left.text("json"))
    assert (report["through"], report["takeovers"]) == (left.carrier, KILLS)
    assert report["serves"] == "/dev/loop0" and report["slow"]["writes"] > 0
    assert report["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    assert ".undo" not in left.text("left") and "ublkb" not in left.text("left")
