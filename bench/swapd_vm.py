"""Instructions of a fault through each carrier of swapd and with a swap file, in an emulated guest.

    python bench/swapd_vm.py [--rounds N]

The guest's clock counts the instructions of its only processor, one per nanosecond, and skips idle
time, so the load of this machine does not change the figures. A program of 96 MiB visits its pages
at random, first in ample memory and then in a group of 24 MiB. Its CPU time in ample memory, a
visit, is taken off. What remains of the processor's time, the kernel's and swapd's included, is
divided by the major faults. swapd does not poll (``--poll 0us``). Prints a row per area and round,
and the medians relative to the swap file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if reason := guest.refusal(MACHINE):
        raise SystemExit(f"swapd_vm: {reason}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = guest.compiled(folder / "swapping", VM / "swapping.c", "-static")
        files: dict[str, Path | str] = {
            **guest.with_libraries(AGENT),
            "bin/swapping": program,
            "rounds": str(arguments.rounds),
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
    main()
