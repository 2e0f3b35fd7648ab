"""The settings of `pagewise advise swap`, pasted in a guest as they are printed, and undone.

The guest has no swap area, then one on its disk, then one in zram; each state is recorded. All of
it runs in a chroot on the guest's disk, because the initramfs has no room for a swap file.
"""

import shutil
from pathlib import Path
from typing import Any

import guest
import pytest

import pagewise as pw
from pagewise.advice import stock_linux
from pagewise.advice.memory import Board
from pagewise.advice.stock_linux import Place

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
MIB = 1 << 20
# Cloud kernels have no zswap; in this kernel the checksum that ext4 needs is a module.
MACHINE = guest.Machine(
    kernel="linux-image-amd64",
    modules=("crc32c_generic", "zram", "lzo_rle", "lz4"),
    disk_mib=1024,
)
TOOLS = ("bash", "zramctl", "mkswap", "swapon", "swapoff", "fallocate")
BOARD = Board(dict.fromkeys(("low", "typical", "high"), 2.0), "assumed", None)
TIER_BYTES, SWAP_BYTES = 32 * MIB, 100 * MIB

BEFORE = {
    "bare": "true",
    "file": "fallocate -l 64M /own.swap && chmod 600 /own.swap && mkswap /own.swap && "
    "swapon -p 200 /own.swap",
    "zram": "zramctl /dev/zram0 --algorithm lzo-rle --size 64MiB && mkswap /dev/zram0 && "
    "swapon -p 50 /dev/zram0",
}
END = {"bare": "true", "file": "swapoff /own.swap", "zram": "swapoff /dev/zram0"}
OWN_FILE = {"path": "/own.swap", "kind": "file", "bytes": 64 * MIB, "priority": 200}
OWN_ZRAM = {"path": "/dev/zram0", "kind": "zram", "bytes": 64 * MIB, "priority": 50}
ZRAM = {"algorithm": "lzo-rle", "bytes": 64 * MIB, "orig_data_bytes": 0, "mem_used_bytes": 0}
MACHINES: dict[str, dict[str, Any]] = {
    "bare": {"areas": [], "zram": {}},
    "file": {"areas": [OWN_FILE], "zram": {}},
    "zram": {"areas": [OWN_ZRAM], "zram": {"zram0": ZRAM}},
}

# Path, size and priority of each area, and the other state that the settings change.
STATE = """
awk 'NR > 1 { print $1, $3, $5 }' /proc/swaps | sort
grep -H . /sys/module/zswap/parameters/* /sys/block/zram0/disksize
ls /swapfile.pagewise 2>/dev/null || true
"""
SCRIPT = """
export HOME=/tmp
cp -a /bin /lib* /settings /disk/
[ -d /usr ] && cp -a /usr /disk/
for name in dev proc sys tmp result; do
    mkdir -p /disk/$name
    mount --bind /$name /disk/$name
done
mount -t tracefs none /disk/sys/kernel/tracing

for machine in bare file zram; do
    chroot /disk bash /settings/$machine.before
    chroot /disk pagewise-agent record --launches --for 200ms -o /result/$machine.pgr
    for setting in by-hand zswap; do
        name=$machine.$setting
        chroot /disk bash /settings/state >/result/$name.before
        chroot /disk bash /settings/$name.apply
        chroot /disk bash /settings/state >/result/$name.during
        chroot /disk bash /settings/$name.undo
        chroot /disk bash /settings/state >/result/$name.after
    done
    chroot /disk bash /settings/$machine.end
done
true
"""


def settings(machine: dict[str, Any]) -> dict[str, stock_linux.Setting]:
    """The settings that work in a guest without systemd."""
    place = Place(machine, SWAP_BYTES, "zram-lz4")
    _, by_hand, zswap = stock_linux.settings(BOARD, TIER_BYTES, place=place)
    return {"by-hand": by_hand, "zswap": zswap}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the guest."""
    tools = [shutil.which(name) for name in TOOLS]
    if missing := [name for name, path in zip(TOOLS, tools, strict=True) if path is None]:
        pytest.skip(f"{' and '.join(missing)} missing")
    guest.need_agent(MACHINE)
    files: dict[str, Path | str] = {"settings/state": STATE}
    for program in [AGENT, *map(Path, filter(None, tools))]:
        files |= guest.with_libraries(program)
    for name, machine in MACHINES.items():
        files[f"settings/{name}.before"] = BEFORE[name]
        files[f"settings/{name}.end"] = END[name]
        for setting, texts in settings(machine).items():
            files[f"settings/{name}.{setting}.apply"] = texts.apply
            files[f"settings/{name}.{setting}.undo"] = texts.undo
    answer = guest.boot(MACHINE, SCRIPT, files, tmp_path_factory.mktemp("guest"))
    assert answer.status == 0, answer.output
    return answer.results


def priorities(results: Path, name: str) -> dict[str, int]:
    """The priorities of the swap areas while a setting is in effect."""
    lines = (results / f"{name}.during").read_text().splitlines()
    areas = (line.split() for line in lines if line.count(" ") == 2)
    return {path: int(priority) for path, _, priority in areas}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bare.by-hand", {"/dev/zram0": 100, "/swapfile.pagewise": 1}),
        ("bare.zswap", {"/swapfile.pagewise": 1}),
        ("file.by-hand", {"/dev/zram0": 201, "/own.swap": 200}),
        ("file.zswap", {"/own.swap": 200}),
        ("zram.by-hand", {"/dev/zram0": 100, "/swapfile.pagewise": 1}),
        ("zram.zswap", {"/swapfile.pagewise": 1}),
    ],
)
def test_areas_are_in_use_as_advised(results: Path, name: str, expected: dict[str, int]) -> None:
    output = (results / "output").read_text()
    assert priorities(results, name) == expected, output
    if name.endswith("zswap"):
        assert "/sys/module/zswap/parameters/enabled:Y" in (results / f"{name}.during").read_text()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("setting", ["by-hand", "zswap"])
def test_undo_restores_the_state(results: Path, machine: str, setting: str) -> None:
    before, after = (
        (results / f"{machine}.{setting}.{when}").read_text() for when in ("before", "after")
    )
    assert after == before, (results / "output").read_text()


@pytest.mark.parametrize("machine", MACHINES)
def test_a_recording_has_the_swap_areas_in_use(results: Path, machine: str) -> None:
    system = pw.read(results / f"{machine}.pgr").header["recorder"]["system"]
    found = [{**area, "bytes": 64 * MIB, "disk": None} for area in system["areas"]]
    assert found == [{**area, "disk": None} for area in MACHINES[machine]["areas"]]
    zram = {name: (each["algorithm"], each["bytes"]) for name, each in system["zram"].items()}
    assert zram == ({"zram0": ("lzo-rle", 64 * MIB)} if machine == "zram" else {})
    if machine == "file":
        disk = system["areas"][0]["disk"]
        assert (disk["name"], disk["class"]) == ("vdb", "virtual")
    assert system["features"]["has_zram"] and system["features"]["zswap"] is False
