"""swapd in emulated guests: the instructions of a fault by carrier, and values under random load.

    python bench/swapd_vm.py [costs] [values] [kills] [--rounds 3] [--minutes 60] [--kills 200]

`costs`, the default: the guest's clock counts the instructions of its only processor, one per
nanosecond, and skips idle time, so the load of this machine does not change the figures. A program
of 96 MiB visits its pages at random, first in ample memory and then in a group of 24 MiB. Its CPU
time in ample memory, a visit, is taken off. What remains of the processor's time, the kernel's and
swapd's included, is divided by the major faults. swapd does not poll (``--poll 0us``). Prints a row
per area and round, and the medians relative to the swap file. The status is 1 if an area misses its
target.

`values`: four programs of 48 MiB share a group of 48 MiB for --minutes, on swapd with ``--verify``,
through nbd on Linux 6.1 and through ublk on Linux 6.12, both guests at once. Each program checks
every page that it visits again, and all its pages at the end. Prints the pages checked and the
wrong ones, what swapd served, and the longest wait of a program. The status is 1 if a value is
wrong.

`kills`: the same, for as long as it takes to kill --kills servers by SIGKILL, each a second after
its predecessor's end was noticed. Prints also how long the takeovers took, from the moment when the
guard noticed the kill until the next server is ready; how long the programs waited across each
kill, which is what the target of a second is for; and what is left in the guest after the last
server ended by SIGTERM. The status is 1 if a takeover is missing, something is left, or a program
waited longer than a second. A wait includes the time for which the kernel delays programs because
their group exceeds memory.high.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
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
TARGETS = {"ublk:fast": 2.0, "ublk:slow": 2.0}
"""At most this multiple of the swap file's instructions."""
WAIT_TARGET_MS = 1000
"""No program waits longer across a kill."""
WAIT_MS = 50
"""Programs note the waits that take at least this long."""

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
        exec swapping 48 $(cat /wait_ms) </tmp/questions$1 >/tmp/answers$1 2>/result/waits$1) &
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
    killed=$(server)
    read now rest </proc/uptime
    kill -9 $killed
    echo $now >>/result/kills
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
# The module nbd makes devices of its own; one that is connected has a file `pid`.
{
    grep /dev/ /proc/swaps
    ls /run/pagewise
    ls /sys/block | grep ublkb
    ls /sys/block/nbd*/pid
    pidof pagewise-agent
} >/result/left 2>/dev/null
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
    is_reached = []
    if "costs" in parts:
        is_reached.append(measure_costs(arguments.rounds))
    if "values" in parts:
        is_reached.append(measure_values(arguments.minutes, 0))
    if "kills" in parts:
        is_reached.append(measure_values(0, arguments.kills))
    return int(not all(is_reached))


def measure_values(minutes: float, kills: int) -> bool:
    """Whether no guest found a wrong value or missed the target; prints what each one checked."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        tasks = [pool.submit(load, each, Path(name) / each, minutes, kills) for each in LOADED]
        return all([task.result() for task in tasks])


def load(carrier: str, folder: Path, minutes: float, kills: int) -> bool:
    """Whether no program in the guest of this carrier found a wrong value, every takeover was in
    time, and nothing is left."""
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
        "wait_ms": str(WAIT_MS),
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
    is_in_time = waited_in_time(carrier, answer.results)
    if kills:
        middle, most = (median(took_ms), max(took_ms)) if took_ms else (0, 0)
        print(
            f"{carrier}: {kills} servers killed, {len(took_ms)} takeovers, the next server ready "
            f"after {middle:g} ms (median), at most {most} ms; "
            f"left behind: {' '.join(left) or 'nothing'}"
        )
    print(
        f"{carrier}: {checked:,} pages checked, {wrong} wrong, statuses {' '.join(statuses)}; "
        f"{minutes:g} minutes, {int(counters['pgmajfault']):,} major faults, "
        f"fast {report['fast']}, slow {report['slow']}, errors {report['errors']}"
    )
    is_whole = len(took_ms) == report["takeovers"] == kills and not left and is_in_time
    return is_whole and wrong == 0 and statuses == ["0"] * 4 and not any(report["errors"].values())


def takeovers(errors: str) -> list[int]:
    """How long each takeover took, in milliseconds, by what the guard says on stderr: its clock
    starts when it has noticed the kill."""
    return [int(ms) for ms in re.findall(r"serves \S+ since (\d+) ms", errors)]


def waited_in_time(carrier: str, results: Path) -> bool:
    """Whether no program waited longer than the target across a kill; prints the longest waits."""
    waits = noted_waits(results)
    moments = results / "kills"
    if not moments.exists():
        longest = max((end - begun for begun, end in waits), default=0)
        print(f"{carrier}: longest wait of a program {longest} ms (0: below {WAIT_MS})")
        return True
    kills = [round(float(moment) * 1000) for moment in moments.read_text().split()]
    across = waits_across(kills, waits)
    # Kills without any wait were not measured.
    is_in_time = 0 < max(across) <= WAIT_TARGET_MS
    print(
        f"{carrier}: longest wait of a program across a kill {median(across):g} ms (median of "
        f"{len(kills)} kills), at most {max(across)} ms (target {WAIT_TARGET_MS}: "
        f"{'reached' if is_in_time else 'missed'})"
    )
    return is_in_time


def noted_waits(results: Path) -> list[tuple[int, int]]:
    """When each wait of at least WAIT_MS began and ended, in milliseconds since boot."""
    text = "".join(path.read_text() for path in results.glob("waits?"))
    return [(int(begun), int(end)) for begun, end in map(str.split, text.splitlines())]


def waits_across(kills: Sequence[int], waits: Sequence[tuple[int, int]]) -> list[int]:
    """The longest wait across each kill, in milliseconds: of those during which it happened, and of
    those between it and the next one; 0 if none took WAIT_MS."""

    def longest(kill: float, following: float) -> int:
        own = ((b, e) for b, e in waits if e >= kill and (b <= kill or e < following))
        return max((end - begun for begun, end in own), default=0)

    return [longest(*each) for each in pairwise([*kills, math.inf])]


def measure_costs(rounds: int) -> bool:
    """Whether every target holds; prints the instructions of a fault by area."""
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
        return show((answer.results / "visits").read_text())


def show(text: str) -> bool:
    """Whether every target holds; prints the instructions of a fault, by area and round, and the
    medians."""
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
    is_reached = True
    for name, own in costs.items():
        ratios = [cost / median(costs["file"]) for cost in own]
        target, judged = TARGETS.get(name), ""
        if target is not None:
            is_missed = median(ratios) > target
            is_reached &= not is_missed
            judged = f", at most {target:g}: {'missed' if is_missed else 'reached'}"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name}: {median(ratios):.2f}x the swap file ({spread}){judged}")
    return is_reached


if __name__ == "__main__":
    sys.exit(main())
