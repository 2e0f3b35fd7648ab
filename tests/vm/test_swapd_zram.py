"""swapd --through zram on Debian kernels in guests.

A program of 96 MiB runs in a group of 24 MiB, so that most of it is in zram or behind it, and
checks every page that it visits again. The events come first from BPF programs, then from text
events. A killed swapd leaves an area that works on. At the end the kernel refuses all events.
"""

import json
import re
from pathlib import Path

import guest
import pytest
from carriers import swapping

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
MIB = 1 << 20
PROGRAM_MIB, GROUP_MIB, AREA_MIB, FAST_MIB = 96, 24, 128, 16
ROUNDS, VISITS, IDLE_S = 3, 3000, 10
BOOT_S = 900
MODULES = ("zram", "loop")
NEWER = guest.Machine(suite="bookworm-backports", modules=MODULES)
NOT_HANDED_BACK = 64 * NEWER.processors
"""Slots that the kernel may not have freed: a processor returns them by 64 (mm/swap_slots.c)."""
OLDER = guest.Machine(modules=MODULES)
BACKENDS = ("bpf", "tracefs")

HEAD = f"""
mount -t cgroup2 none /sys/fs/cgroup
mount -t tracefs none /sys/kernel/tracing
mount -t securityfs none /sys/kernel/security
mkdir -p /run /tmp
mkdir -m 700 /run/pagewise
# The root file system lies in memory.
results=/disk/results
mkdir $results
trap 'cp $results/* /result/' EXIT

swapd="pagewise-agent swapd --size {AREA_MIB}MiB --fast {FAST_MIB}MiB --slow /disk/slow
    --policy hierarchical --option fill_on_read_miss=no --through zram"

# What is on the machine: areas, zram devices, files of loop devices, undo logs, trace instances.
left() {{
    cat /proc/swaps /sys/block/loop*/loop/backing_file
    ls /sys/block /run/pagewise /disk /sys/kernel/tracing/instances | grep -v loop
}}
"""

SCRIPT = f"""{HEAD}
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo {GROUP_MIB}M >/sys/fs/cgroup/small/memory.high

{swapping(PROGRAM_MIB)}
serve() {{
    $swapd --json >$results/$1.json 2>$results/$1.errors &
    server=$!
    until grep -q zram /proc/swaps; do
        sleep 0.1
        kill -0 $server || return 1
    done
}}

# The clock ticks that the server has run.
ticks() {{ awk '{{print $14 + $15}}' /proc/$server/stat; }}

observe() {{
    serve $1 || return 1
    cat /proc/swaps >$results/$1.during
    ls /sys/kernel/tracing/instances >$results/$1.instances
    block=/sys/block/$(basename $(awk '/zram/ {{print $1}}' /proc/swaps))
    start_program $results/$1.output
    for round in $(seq {ROUNDS}); do ask {VISITS} $round || return 1; done
    # Pages that left faster than they could be written back are due.
    until [ "$(awk '{{print $3}}' $block/bd_stat)" = "$written" ]; do
        written=$(awk '{{print $3}}' $block/bd_stat)
        sleep 2
    done
    before=$(ticks)
    sleep {IDLE_S}
    echo $(($(ticks) - before)) >$results/$1.ticks
    cat $block/mm_stat $block/bd_stat >$results/$1.idle
    ask all {ROUNDS + 1} || return 1
    exec 3>&-
    wait $program || return 1
    sleep 2
    cat $block/bd_stat >$results/$1.counts
    kill -TERM $server
    wait $server || return 1
}}

left >$results/before
observe bpf || exit 1
mount -o bind /dev/null /sys/kernel/btf/vmlinux
observe tracefs || exit 1
umount /sys/kernel/btf/vmlinux
left >$results/after

serve killed || exit 1
start_program $results/killed.output
ask {VISITS} 1 || exit 1
kill -9 $server
ask {VISITS} 2 || exit 1
ask all 3 || exit 1
cat /proc/swaps >$results/killed.during
# The program still has pages in the area.
pagewise-agent swapd --undo >$results/undo 2>&1 || exit 1
ask all 4 || exit 1
exec 3>&-
wait $program || exit 1
left >$results/undone

# Without BTF there is no BPF, and a kernel in lockdown has no text events.
mount -o bind /dev/null /sys/kernel/btf/vmlinux
echo confidentiality >/sys/kernel/security/lockdown
timeout 60 $swapd >$results/refused 2>&1
echo $? >>$results/refused
left >$results/unchanged
"""

REFUSED = f"""{HEAD}
left >$results/before
$swapd >$results/refused 2>&1
echo $? >>$results/refused
left >$results/unchanged
"""


def boot(machine: guest.Machine, script: str, folder: Path) -> Path:
    """The results of a guest that runs a script."""
    guest.need_agent(machine)
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files = {**guest.with_libraries(AGENT), "bin/swapping": program}
    answer = guest.boot(machine, script, files, folder, timeout_s=BOOT_S)
    errors = "\n".join(path.read_text() for path in sorted(answer.results.glob("*.errors")))
    assert answer.status == 0, answer.output + errors + answer.console[-3000:]
    return answer.results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the guest with the newer kernel."""
    return boot(NEWER, SCRIPT, tmp_path_factory.mktemp("guest"))


def checked(output: Path) -> list[int]:
    """The pages of each answer of the program."""
    return [int(count) for count in re.findall(r"checked (\d+)", output.read_text())]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_finds_its_pages_and_the_kernel_counts_the_same_moves(
    results: Path, backend: str
) -> None:
    assert checked(results / f"{backend}.output") == [*[VISITS] * ROUNDS, PROGRAM_MIB * MIB // 4096]
    report = json.loads((results / f"{backend}.json").read_text())
    assert (report["schema"], report["through"]) == ("pagewise.swapd/1", "zram")
    assert report["events_lost"] == 0 and report["errors"]["slow"] == 0
    held, reads, writes = map(int, (results / f"{backend}.counts").read_text().split())
    assert report["demotions"] == report["slow"]["writes"] == writes > 0
    # A page that is read while it is written back counts as on the disk.
    assert 0 <= report["slow"]["reads"] - reads <= reads // 100
    assert reads > 0 and held <= NOT_HANDED_BACK
    assert report["fast"]["writes"] >= writes and report["promotions"] == 0
    instances = (results / f"{backend}.instances").read_text()
    assert ("pagewise" in instances) == (backend == "tracefs")


@pytest.mark.parametrize("backend", BACKENDS)
def test_zram_holds_no_more_than_the_fast_tier_and_swapd_is_idle(
    results: Path, backend: str
) -> None:
    memory, disk = (results / f"{backend}.idle").read_text().splitlines()
    pages, on_disk = int(memory.split()[0]) // 4096, int(disk.split()[0])
    # No policy knows the header of the area, nor these slots.
    unknown = 1 + NOT_HANDED_BACK
    assert 0 < pages - on_disk <= FAST_MIB * MIB // 4096 + unknown
    assert on_disk > (PROGRAM_MIB - GROUP_MIB - FAST_MIB) * MIB // 4096 // 2
    # An emulated processor is many times slower than a real one.
    assert int((results / f"{backend}.ticks").read_text()) <= 100 * IDLE_S // 20


def test_nothing_is_left_behind(results: Path) -> None:
    before = (results / "before").read_text()
    for name in ("after", "undone"):
        assert (results / name).read_text() == before, name
    assert "zram" not in (results / "undone").read_text().replace("zram0", "")


def test_the_area_of_a_killed_swapd_works_on(results: Path) -> None:
    whole = PROGRAM_MIB * MIB // 4096
    assert checked(results / "killed.output") == [VISITS, VISITS, whole, whole]
    assert "/dev/zram1" in (results / "killed.during").read_text()
    assert "changes undone" in (results / "undo").read_text()


def test_without_events_nothing_is_changed(results: Path) -> None:
    *reason, status = (results / "refused").read_text().splitlines()
    assert status == "3" and "refuses the events of swap" in " ".join(reason), reason
    assert (results / "unchanged").read_text() == (results / "before").read_text()


def test_linux_before_6_3_is_refused(tmp_path: Path) -> None:
    results = boot(OLDER, REFUSED, tmp_path)
    *reason, status = (results / "refused").read_text().splitlines()
    assert status == "3" and "needs Linux 6.3" in " ".join(reason), reason
    assert (results / "unchanged").read_text() == (results / "before").read_text()
