"""Stresses a kernel with lazy unmapping and the kernel's own checks, with the pool on and off.

    CHECKS=1 kernel/build.sh build/kernel-checks
    python bench/kernel_stress.py [--seconds 600] [--rows vm,mmap,calls] [--pools on,off] [--jobs 2]

Each row runs in a guest of its own, with two processors and swap: a class of stress-ng with
--verify, or random calls with every answer checked (tests/lazy_calls.c), one seed after the other
with other settings of the pool, also in a memory cgroup that is too small. Most classes of
stress-ng get no mapping from a pool, so in a row CLASS+calls a process with random calls runs
beside the class. The hits of such a row are those of the calls: it shows whether the class disturbs
the pool of another process, not whether its own mappings survive one. "on" is vm.lazy_unmap=2, for
all processes; "off" is 0, the control. The verdict of a row:

- `clean`: the kernel did not complain, the programs found no error, all pages left the pools;
- `not measurable`: clean, but no operation ended, or no mapping came from a pool that was on;
- else what was wrong. Complaints, or the end of the programs' output, follow the table; all output
  is in build/kernel-stress.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import kernel_guests
import lazy_kernel
from kernel_guests import CHECKED_KERNEL, Ran

STRESS_NG = Path("/usr/bin/stress-ng")
CLASSES = {
    "vm": "--vm 2 --vm-bytes 96M",
    "mmap": "--mmap 2 --mmap-bytes 64M",
    "mremap": "--mremap 2 --mremap-bytes 16M",
    "fork": "--fork 2 --fork-vm",
    "munmap": "--munmap 2",
    "mmapfork": "--mmapfork 1",
    "madvise": "--madvise 2",
    "mlock": "--mlock 2",
    "malloc": "--malloc 2 --malloc-bytes 2M --malloc-thresh 65536 --malloc-touch"
    " --malloc-pthreads 2",
}
"""Options of stress-ng."""
CALLS = ("calls", "calls-squeezed")
BESIDE = "+calls"
"""The end of the name of a row of stress-ng with random calls beside it."""
USING_POOLS = ("vm", "mremap", "malloc")
"""The classes of stress-ng whose mappings come from a pool."""
DEFAULT_ROWS = (*(each if each in USING_POOLS else each + BESIDE for each in CLASSES), *CALLS)
ROWS = (*CLASSES, *(each + BESIDE for each in CLASSES), *CALLS)
SQUEEZED_MIB = 24
"""The limit of the memory cgroup of calls-squeezed: about half of what one run maps."""
BOOT_S = 1200
"""Boot, the programs' own start and end, and the age of a pool; under load."""

START = """
mount -t tmpfs none /tmp
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mkswap /dev/vdc >/dev/null && swapon /dev/vdc || exit 4
cp /proc/vmstat /result/before
echo {setting} >/proc/sys/vm/lazy_unmap
"""
# Pools are empty when all processes that had one ended, or after five seconds.
END = """
cp /proc/vmstat /result/after
echo 0 >/proc/sys/vm/lazy_unmap
sleep 9
cp /proc/vmstat /result/vmstat
exit $status
"""
STRESS = """
stress-ng {options} --timeout {seconds}s --seed {seed} --verify --oomable --metrics-brief \
    >/result/run 2>&1
status=$?
"""
# Random calls until stress-ng has ended.
STRESS_BESIDE = """
(
    calls=0
    while [ ! -e /tmp/ended ]; do
        lazy_calls $(({seed} + calls)) 300 $((1 + calls % 2)) 2 >>/result/calls 2>&1 ||
            {{ echo "calls failed: seed $(({seed} + calls))" >>/result/calls; exit 1; }}
        calls=$((calls + 1))
    done
) &
beside=$!
{stress}
touch /tmp/ended
wait $beside || status=9
cat /result/calls >>/result/run
"""
# In turn: the defaults; a small pool that ages at once; no limit, with pages mapped ahead; and the
# threshold of malloc from which it uses mmap, so that brk serves less. Compaction moves pages.
CALL = """
{squeeze}
while sleep 2; do echo 1 >/proc/sys/vm/compact_memory; done &
settings="65536:5000:0 2048:1:0 0:5000:256 65536:200:64"
status=0
run=0
end=$(($(cut -d. -f1 /proc/uptime) + {seconds}))
while [ $status = 0 ] && [ $(cut -d. -f1 /proc/uptime) -lt $end ]; do
    setting=$(echo $settings | cut -d' ' -f$((run % 4 + 1)))
    echo $setting | cut -d: -f1 >/proc/sys/vm/lazy_unmap_max_kbytes
    echo $setting | cut -d: -f2 >/proc/sys/vm/lazy_unmap_age_msecs
    echo $setting | cut -d: -f3 >/proc/sys/vm/lazy_unmap_premap_kbytes
    threads=$((1 + run % 3))
    if [ $((run % 2)) = 0 ]; then export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=65536
    else unset GLIBC_TUNABLES; fi
    (echo 0 >$group/cgroup.procs; exec lazy_calls $(({seed} + run)) $((600 / threads)) $threads 2) \
        >>/result/run 2>&1
    status=$?
    [ $status = 0 ] || echo "failed: seed $(({seed} + run)) settings $setting" >>/result/run
    run=$((run + 1))
done
kill $!
echo "bogo calls $run" >>/result/run
"""
SQUEEZE = """
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/squeezed
mkdir $group
echo {mib}M >$group/memory.max
"""


@dataclass(frozen=True)
class Row:
    """A guest's result."""

    name: str
    pool: str
    verdict: str
    operations: int
    """Of stress-ng, its bogo operations; of random calls, the runs."""
    hits: int
    kept: int
    reclaimed: int
    kills: int
    details: tuple[str, ...]

    def table(self) -> str:
        """The row as Markdown."""
        return (
            f"| {self.name} | {self.pool} | {self.verdict} | {self.operations:,} | {self.hits:,} | "
            f"{self.kept:,} | {self.reclaimed:,} | {self.kills} |"
        )


def script(name: str, pool: str, seconds: int, seed: int) -> str:
    """The guest's script for a row."""
    if name not in CALLS:
        options = CLASSES[name.removesuffix(BESIDE)]
        work = STRESS.format(options=options, seconds=seconds, seed=seed)
        if name.endswith(BESIDE):
            work = STRESS_BESIDE.format(stress=work, seed=seed)
    else:
        limit = str(SQUEEZED_MIB) if name == "calls-squeezed" else str(kernel_guests.MEMORY_MIB)
        work = CALL.format(squeeze=SQUEEZE.format(mib=limit), seconds=seconds, seed=seed)
    return START.format(setting=2 if pool == "on" else 0) + work + END


@dataclass(frozen=True)
class Bench:
    """What the guests of all rows have in common."""

    machine: kernel_guests.Machine
    files: Mapping[str, Path | str]
    seconds: int
    seed: int

    def run(self, setting: tuple[str, str]) -> Row:
        """Boots a guest for a row, given as its name and the pool's setting."""
        name, pool = setting
        lines = script(name, pool, self.seconds, self.seed)
        ran = kernel_guests.boot(self.machine, lines, self.files, self.seconds + BOOT_S)
        ran.save(kernel_guests.ROOT / "build" / "kernel-stress" / f"{name}-{pool}")
        return row(name, pool, ran)


def row(name: str, pool: str, ran: Ran) -> Row:
    """What a guest's results mean."""
    complaints = ran.complaints()
    output = ran.files.get("run", ran.output)
    if ran.status is None or "vmstat" not in ran.files:
        why = "; ".join(complaints[:1]) or "the guest ended early"
        details = (*complaints, *ran.output.splitlines()[-20:])
        return Row(name, pool, why, 0, 0, 0, 0, 0, details)
    before, after, last = (ran.counters(each) for each in ("before", "after", "vmstat"))
    found = {
        each: after[f"lazy_unmap_{each}"] - before[f"lazy_unmap_{each}"]
        for each in ("hit", "pages_kept", "pages_reclaimed")
    }
    details = tuple(complaints)
    if complaints:
        verdict = complaints[0]
    elif ran.status != 0:
        verdict = f"status {ran.status}"
        details = tuple(output.splitlines()[-20:])
    elif lazy_kernel.unaccounted(last):
        verdict = f"{lazy_kernel.unaccounted(last)} pages are lost"
    elif not operations(output) or (pool == "on" and not found["hit"]):
        verdict = "not measurable"
    else:
        verdict = "clean"
    return Row(
        name,
        pool,
        verdict,
        operations(output),
        found["hit"],
        found["pages_kept"],
        found["pages_reclaimed"],
        after["oom_kill"] - before["oom_kill"],
        details,
    )


def operations(output: str) -> int:
    """The number that stress-ng, or the script of random calls, printed last."""
    found = re.findall(r"(?:metrc: \[\d+\] \S+ +|bogo calls )(\d+)", output)
    return int(found[-1]) if found else 0


def words(text: str, known: Iterable[str]) -> list[str]:
    given = text.split(",")
    if unknown := sorted(set(given) - set(known)):
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(unknown)}; known: {', '.join(known)}"
        )
    return given


def main() -> None:
    parser = argparse.ArgumentParser(description="Stresses a kernel with lazy unmapping.")
    parser.add_argument("--rows", type=partial(words, known=ROWS), default=list(DEFAULT_ROWS))
    parser.add_argument("--pools", type=partial(words, known=("on", "off")), default=["on", "off"])
    parser.add_argument("--seconds", type=int, default=600, help="of each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="guests at once")
    parser.add_argument("--kernel", type=Path, default=CHECKED_KERNEL)
    given = parser.parse_args()
    has_stress = not set(given.rows) <= set(CALLS)
    if has_stress and not STRESS_NG.exists():
        parser.error("stress-ng missing: tools/prerequisites.sh test")
    machine = kernel_guests.swapping_machine(given.kernel)
    files = dict([kernel_guests.static("lazy_calls", "tests/lazy_calls.c")])
    if has_stress:
        files |= kernel_guests.with_libraries(STRESS_NG)
    bench = Bench(machine, files, given.seconds, given.seed)
    settings = [(name, pool) for name in given.rows for pool in given.pools]
    print("| row | pool | verdict | operations | hits | pages kept | reclaimed | OOM kills |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    details = []
    with ThreadPoolExecutor(given.jobs) as guests:
        for each in guests.map(bench.run, settings):
            print(each.table(), flush=True)
            if each.details:
                details.append(f"{each.name}, pool {each.pool}:\n" + "\n".join(each.details))
    for each_detail in details:
        print(f"\n{each_detail}")


if __name__ == "__main__":
    main()
