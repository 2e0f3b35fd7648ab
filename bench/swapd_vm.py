"""swapd in emulated guests: the instructions of a fault by carrier, and values under random load.

    python bench/swapd_vm.py [costs] [values] [kills] [--rounds 3] [--minutes 60] [--kills 200]

`costs`, the default: the guest's clock counts the instructions of its only processor, one per
nanosecond, and skips idle time, so the load of this machine does not change the figures. A program
of 96 MiB visits its pages at random, first in ample memory and then in a group of 24 MiB. Its CPU
time in ample memory, a visit, is taken off. What remains of the processor's time, the kernel's and
swapd's included, is divided by the major faults. swapd does not poll (``--poll 0us``). Prints a row
per area and round, and the medians relative to the swap file.

`values`: four programs of 48 MiB share a group of 48 MiB for --minutes, on swapd with ``--verify``,
through nbd on Linux 6.1 and through ublk on Linux 6.12, both guests at once. Each program checks
every page that it visits again, and all its pages at the end. Prints the pages checked and the
wrong ones, and what swapd served. The status is 1 if a value is wrong.

`kills`: the same, for as long as it takes to kill --kills servers by SIGKILL, each a second after
its predecessor's end was noticed. Prints also how long the takeovers took and what is left in the
guest after the last server ended by SIGTERM. The status is 1 if a takeover is missing or something
is left.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest

VM = Path(__file__).parents[1] / "tests" / "vm"
AGENT = Path(sys.executable).with_name("pagewise-agent")
MACHINE = guest.Machine(
    suite="bookworm-backports",
    modules=("nbd", "ublk_drv", "fuse", "loop"),
    processors=1,
    memory_mib=1024,
    disk_mib=1024,
    has_counted_clock=True,
)
PROGRAM_MIB, GROUP_MIB, AREA_MIB = 96, 24, 160
VISITS = 20_000
BOOT_S = 3000
CARRIERS = ("ublk", "nbd", "fuse")
TIERS = {"fast": AREA_MIB, "slow": 1}
"""The fast tier in MiB: as large as the area, or next to nothing."""

SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
mkdir -p /run /tmp
mkfifo /tmp/questions /tmp/answers

# The processor's time that tasks took, in nanoseconds.
busy() {{ sed -n 's/^cpu0 //p' /proc/schedstat | cut -d' ' -f7; }}
faults() {{ cut -d' ' -f12 /proc/$program/stat; }}

# Asks the program for visits; appends to the results what they took: $1 is the name.
visit() {{
    local before=$(busy) first=$(faults)
    echo {VISITS} >&3
    read answer <&4
    echo "$1 $(($(busy) - before)) $(($(faults) - first))" >>/result/visits
}}

measure() {{
    echo max >/sys/fs/cgroup/small/memory.max
    exec 4<>/tmp/answers
    (echo 0 >/sys/fs/cgroup/small/cgroup.procs
        exec swapping {PROGRAM_MIB} </tmp/questions >/tmp/answers 4>&-) &
    program=$!
    exec 3>/tmp/questions
    read answer <&4
    visit ample
    echo {GROUP_MIB}M >/sys/fs/cgroup/small/memory.max
    # The kernel writes the pages out now, and then each slot has been used once.
    visit warm
    for round in $(seq $(cat /rounds)); do visit $1; done
    exec 3>&-
    wait $program
    exec 4>&-
}}

dd if=/dev/zero of=/disk/swap bs=1M count={AREA_MIB} 2>/dev/null
chmod 600 /disk/swap
mkswap /disk/swap >/dev/null
swapon /disk/swap
measure file
swapoff /disk/swap

for carrier in {" ".join(CARRIERS)}; do
    for tier in {" ".join(f"{tier}:{mib}" for tier, mib in TIERS.items())}; do
        pagewise-agent swapd --size {AREA_MIB}MiB --fast ${{tier#*:}}MiB --slow /disk/slow \\
            --policy hierarchical --only-swap --poll 0us --through $carrier \\
            >/tmp/swapd 2>&1 &
        swapd=$!
        until grep -q serving /tmp/swapd; do
            sleep 0.1
            kill -0 $swapd || {{ cat /tmp/swapd; exit 1; }}
        done
        measure $carrier:${{tier%:*}}
        kill -TERM $swapd
        wait $swapd || {{ cat /tmp/swapd; exit 1; }}
    done
done
"""

LOADED = {
    "nbd": guest.Machine(modules=("nbd",), memory_mib=768, disk_mib=1024),
    "ublk": guest.Machine(
        suite="bookworm-backports", modules=("ublk_drv",), memory_mib=768, disk_mib=1024
    ),
}
"""The guest of each carrier under random load."""

LOAD = """
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo 48M >/sys/fs/cgroup/small/memory.high
mkdir -p /run /tmp
pagewise-agent swapd --size 256MiB --fast 32MiB --slow /disk/slow --policy adaptive \
    --only-swap --verify --through $(cat /carrier) --json >/result/swapd.json 2>/result/errors &
swapd=$!
# The server that serves now: the last that took over, or the first.
server() {
    taken=$(sed -n 's/.*killed; process \\([0-9]*\\) serves.*/\\1/p' /result/errors | tail -1)
    echo ${taken:-$swapd}
}
until grep -q /dev/ /proc/swaps; do
    sleep 0.1
    kill -0 $swapd || { cat /result/errors; exit 1; }
done
end=$(($(cut -d. -f1 /proc/uptime) + $(cat /seconds)))
kills=$(cat /kills)
[ $kills = 0 ] || touch /tmp/killing

# Visits pages until the time is over. Each question waits for the answer to the one before.
load() {
    mkfifo /tmp/questions$1 /tmp/answers$1
    (echo 0 >/sys/fs/cgroup/small/cgroup.procs
        exec swapping 48 </tmp/questions$1 >/tmp/answers$1) &
    local program=$!
    exec 3>/tmp/questions$1 4</tmp/answers$1
    read answer <&4
    visits=500$1
    while [ -e /tmp/killing ] || [ $(cut -d. -f1 /proc/uptime) -lt $end ]; do
        echo $visits >&3
        read answer <&4 || break
        echo $answer >>/result/answers$1
    done
    echo all >&3
    read answer <&4
    echo $answer >>/result/answers$1
    exec 3>&-
    wait $program
    echo $? >/result/status$1
}

for number in 1 2 3 4; do load $number & loads="$loads $!"; done
for kill in $(seq $kills); do
    sleep 1
    kill -9 $(server)
    for wait in $(seq 600); do
        [ $(grep -c 'was killed' /result/errors) -lt $kill ] || break
        sleep 0.1
    done
done
rm -f /tmp/killing
wait $loads
grep -E 'pswp|pgmajfault' /proc/vmstat >/result/vmstat
kill -TERM $(server)
[ $kills != 0 ] || wait $swapd || { cat /result/errors; exit 1; }
for wait in $(seq 600); do
    grep -q schema /result/swapd.json && ! pidof pagewise-agent >/dev/null && break
    sleep 0.1
done
{ grep /dev/ /proc/swaps; ls /run/pagewise; ls /sys/block | grep ublkb; pidof pagewise-agent; } \
    >/result/left 2>/dev/null
true
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=["costs", "values", "kills", []])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kills", type=int, default=200)
    arguments = parser.parse_args()
    parts = arguments.parts or ["costs"]
    if "costs" in parts:
        measure_costs(arguments.rounds)
    is_right = [True]
    if "values" in parts:
        is_right.append(measure_values(arguments.minutes, 0))
    if "kills" in parts:
        is_right.append(measure_values(0, arguments.kills))
    return int(not all(is_right))


def measure_values(minutes: float, kills: int) -> bool:
    """Whether no guest found a wrong value; prints what each one checked."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        tasks = [pool.submit(load, each, Path(name) / each, minutes, kills) for each in LOADED]
        return all([task.result() for task in tasks])


def load(carrier: str, folder: Path, minutes: float, kills: int) -> bool:
    """Whether no program in the guest of this carrier found a wrong value."""
    machine = LOADED[carrier]
    if reason := guest.refusal(machine):
        raise SystemExit(f"swapd_vm: {reason}")
    folder.mkdir()
    files: dict[str, Path | str] = {
        **guest.with_libraries(AGENT),
        "bin/swapping": guest.compiled(folder / "swapping", VM / "swapping.c", "-static"),
        "carrier": carrier,
        "seconds": str(round(minutes * 60)),
        "kills": str(kills),
    }
    wait_s = BOOT_S + round(minutes * 60) + 20 * kills
    answer = guest.boot(machine, LOAD, files, folder, timeout_s=wait_s)
    if answer.status != 0:
        raise SystemExit(f"swapd_vm: the guest failed: {answer.output}")
    answers = "".join(path.read_text() for path in answer.results.glob("answers*"))
    lines = [line.split() for line in answers.splitlines()]
    checked = sum(int(words[1]) for words in lines if words[:1] == ["checked"])
    wrong = sum(words[:1] != ["checked"] for words in lines)
    statuses = [path.read_text().strip() for path in sorted(answer.results.glob("status?"))]
    vmstat = (answer.results / "vmstat").read_text()
    counters = dict(line.split() for line in vmstat.splitlines())
    report = json.loads((answer.results / "swapd.json").read_text())
    left = (answer.results / "left").read_text().split()
    took_ms = takeovers((answer.results / "errors").read_text())
    if kills:
        middle, most = (median(took_ms), max(took_ms)) if took_ms else (0, 0)
        print(
            f"{carrier}: {kills} servers killed, {len(took_ms)} takeovers, median {middle:g} ms, "
            f"at most {most} ms; left behind: {' '.join(left) or 'nothing'}"
        )
    print(
        f"{carrier}: {checked:,} pages checked, {wrong} wrong, statuses {' '.join(statuses)}; "
        f"{minutes:g} minutes, {int(counters['pgmajfault']):,} major faults, "
        f"fast {report['fast']}, slow {report['slow']}, errors {report['errors']}"
    )
    is_whole = len(took_ms) == report["takeovers"] == kills and not left
    return is_whole and wrong == 0 and statuses == ["0"] * 4 and not any(report["errors"].values())


def takeovers(errors: str) -> list[int]:
    """How long each takeover took, in milliseconds, by what the guard says on stderr."""
    return [int(ms) for ms in re.findall(r"serves \S+ since (\d+) ms", errors)]


def measure_costs(rounds: int) -> None:
    """Prints the instructions of a fault by area."""
    if reason := guest.refusal(MACHINE):
        raise SystemExit(f"swapd_vm: {reason}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = guest.compiled(folder / "swapping", VM / "swapping.c", "-static")
        files: dict[str, Path | str] = {
            **guest.with_libraries(AGENT),
            "bin/swapping": program,
            "rounds": str(rounds),
        }
        answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
        if answer.status != 0:
            raise SystemExit(f"swapd_vm: the guest failed: {answer.output}")
        show((answer.results / "visits").read_text())


def show(text: str) -> None:
    """Prints the instructions of a fault, by area and round, and the medians."""
    costs: dict[str, list[float]] = {}
    ample = 0.0
    print(f"{'area':<12} {'faults':>8} {'instructions of a fault':>24}")
    for line in text.splitlines():
        name, busy, faults = line.split()
        if name == "ample":
            ample = float(busy)
        elif name != "warm":
            cost = (float(busy) - ample) / int(faults)
            costs.setdefault(name, []).append(cost)
            print(f"{name:<12} {int(faults):>8,} {cost:>24,.0f}")
    for name, own in costs.items():
        ratios = [cost / median(costs["file"]) for cost in own]
        print(
            f"{name}: {median(ratios):.2f}x the swap file ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    sys.exit(main())
