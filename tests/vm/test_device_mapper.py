"""Swap through dm-writecache and dm-cache, set up and undone by the lines that advise prints.

A program of 64 MiB runs in a group of 24 MiB, so that most of it is on the mapped device; it checks
every page that it visits again, and all pages after the undo.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import guest
import pytest

from pagewise.advice import device_mapper

pytestmark = pytest.mark.slow

MIB = 1 << 20
TIER_MIB, FAST_MIB, SLOW_MIB = 32, 40, 160
DMSETUP = Path("/usr/sbin/dmsetup")
MACHINE = guest.Machine(
    modules=("dm_writecache", "dm_cache", "dm_cache_smq"),
    # On a loaded host an emulated timer may fail the kernel's check.
    kernel_arguments="no_timer_check",
)
WRITECACHE = device_mapper.writecache(TIER_MIB * MIB)
OWN_MARKS = "high_watermark 50 low_watermark 45"
SETTINGS = {
    "writecache": WRITECACHE,
    "own-marks": replace(
        WRITECACHE,
        apply=re.sub(r"high_watermark \d+ low_watermark \d+", OWN_MARKS, WRITECACHE.apply),
    ),
    "cache": device_mapper.cache(TIER_MIB * MIB),
}
ROUNDS, VISITS = 6, 4000

SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
export DM_DISABLE_UDEV=1     # the guest has no udev to create links
mkswap /dev/vdd >/dev/null
swapon /dev/vdd

state() {{
    cat /proc/swaps
    dmsetup ls
}}

# Asks the program for $1 visits, and waits until it has answered $2 times in total.
ask() {{
    echo $1 >&3
    until [ $(grep -c checked /result/$name.out) -ge $2 ]; do
        sleep 0.1
        kill -0 $program || return 1
    done
}}

observe() {{
    name=$1
    state >/result/$name.before
    sh /$name.apply || return 1
    echo 24M >/sys/fs/cgroup/small/memory.max
    mkfifo /tmp/$name
    (echo 0 >/sys/fs/cgroup/small/cgroup.procs; exec swapping 64 </tmp/$name >/result/$name.out) &
    program=$!
    exec 3>/tmp/$name
    for round in $(seq {ROUNDS}); do ask {VISITS} $round || return 1; done
    dmsetup status swap-cached >/result/$name.status
    echo max >/sys/fs/cgroup/small/memory.max
    sh /$name.undo || return 1
    ask all {ROUNDS + 1} || return 1
    exec 3>&-
    wait $program || return 1
    state >/result/$name.after
    head -c 4096 /dev/vdc >/result/$name.head
}}

observe writecache && observe own-marks && observe cache
"""


def refusal() -> str | None:
    """Why the guest cannot be booted here; None if it can."""
    if not DMSETUP.exists():
        return "no dmsetup: tools/prerequisites.sh test"
    return guest.refusal(MACHINE)


def pasted(text: str) -> str:
    """Lines to paste, with the guest's disks for the placeholders."""
    return text.replace("/dev/FAST", "/dev/vdc").replace("/dev/SLOW", "/dev/vdd")


def disks(folder: Path) -> list[str]:
    """QEMU options for two more disks: vdc, the fast one, and vdd, the slow one."""
    words = []
    for name, mib in (("fast", FAST_MIB), ("slow", SLOW_MIB)):
        path = folder / name
        path.touch()
        os.truncate(path, mib * MIB)
        words += ["-drive", f"file={path},format=raw,if=virtio,cache=unsafe"]
    return words


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one guest with all settings."""
    if reason := refusal():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("guest")
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files: dict[str, Path | str] = {**guest.with_libraries(DMSETUP), "bin/swapping": program}
    for name, setting in SETTINGS.items():
        files |= {f"{name}.apply": pasted(setting.apply), f"{name}.undo": pasted(setting.undo)}
    started = replace(MACHINE, start=(*guest.own_start(MACHINE), *disks(folder)))
    (folder / "guest").mkdir()
    answer = guest.boot(started, SCRIPT, files, folder / "guest", timeout_s=600)
    assert answer.status == 0, answer.output
    return answer.results


def status(results: Path, name: str) -> list[str]:
    """The words of the target's status after its name; `pytest -s` prints them."""
    text = (results / f"{name}.status").read_text()
    print(f"{name}: {text}")
    return text.split()[3:]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_page_keeps_its_contents(results: Path, name: str) -> None:
    lines = (results / f"{name}.out").read_text().splitlines()
    assert lines == ["ready", *[f"checked {VISITS}"] * ROUNDS, f"checked {64 * MIB // 4096}"]


@pytest.mark.parametrize("name", SETTINGS)
def test_undo_leaves_nothing(results: Path, name: str) -> None:
    before, after = ((results / f"{name}.{when}").read_text() for when in ("before", "after"))
    assert before == after and "/dev/vdd" in before
    assert not any((results / f"{name}.head").read_bytes())


def test_writecache_stores_page_outs_and_serves_page_ins(results: Path) -> None:
    error, blocks, free, _, reads, hits, writes, *_ = map(int, status(results, "writecache"))
    assert error == 0
    assert 0 < hits < reads
    assert writes * 4096 > TIER_MIB * MIB
    assert free < blocks / 4


def test_writecache_holds_more_than_with_its_default_marks(results: Path) -> None:
    shares = {}
    for name in ("writecache", "own-marks"):
        _, blocks, free, _, reads, hits, *_ = map(int, status(results, name))
        shares[name] = (hits / reads, 1 - free / blocks)
    assert shares["writecache"] > shares["own-marks"]
    assert shares["own-marks"][1] < 0.75


def test_cache_promotes_often_used_blocks(results: Path) -> None:
    words = status(results, "cache")
    _, _, block_sectors, used, *counts = words
    assert int(block_sectors) == device_mapper.BLOCK_SECTORS
    assert used.split("/")[1] == str(TIER_MIB * MIB // 512 // device_mapper.BLOCK_SECTORS)
    read_hits, _, write_hits, _, _, promotions = map(int, counts[:6])
    assert min(read_hits, write_hits, promotions) > 0
    assert words[-2:] == ["rw", "-"]
