"""S2's launches in a guest whose kernel has S2's killer as a driver, beside launches under killd.

    python bench/lowmem_vm.py guest REPEAT OUT.json    one guest: every condition, every size
    python bench/lowmem_vm.py tables OUT.json...       tables and verdicts, as Markdown

The fillers of S2's five sizes (tests/vm/filler.c) launch after 24 cached applications of 12 to
48 MiB, 30 on average, with adj falling with age. A balloon leaves FREE_MIB free before each launch,
and the page cache is empty then, as otherwise S2's rule ("free and file pages below the level")
kills nothing. Levels are S2's: 4 MiB for adj 0, 16 MiB for adj 8 of 17 (470 of 1000). Files lie on
a device in the memory of the guest with the latency and bandwidth of devices/emmc-5.1.toml.

The guest's only processor runs one instruction per nanosecond, and its clock counts them: no result
depends on the load of the host, and whatever a kill costs is charged to the launch, as no second
processor takes it. So the share of kills in the slowdown is an upper bound for a phone with four.

What would refute the claims, for each way to kill, with at least three guests:

ACC-S2-1    a median launch in short memory that is no slower than in ample memory; a rank
            correlation of slowdown with need below 1; the smallest outside 1.2 to 1.6 times, the
            largest outside 2.5 to 4 times
ACC-S2-2    a median of kills outside 2 to 4 for one of the four small fillers, or outside 10 to 20
            for the largest
ACC-S2-5    a launch of the largest that is in no guest shorter with reclaim first than serial

The verdict is "not measurable" with fewer guests, for a way that killed nothing while the largest
launched, if a launch did not finish, if it began with free memory outside FREE_RANGE_MIB or with
LEVEL_MIB of files, or if the kernel's own OOM killer killed. ACC-S2-5 compares launches of the same
guest; if it is shorter in some guests only, it is "not measurable", too.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vm"))
import guest
import kernel_module
import killers

NEEDS_KIB = {**killers.LAUNCHES_KIB, "Asphalt 8": 502_748}
"""The memory need of each application (S2, table 1)."""
PAPER = {
    "Play Store": (0.364, "2-4"),
    "Camera": (0.604, "2-4"),
    "Chrome": (0.676, "2-4"),
    "MX Player": (1.088, "2-4"),
    "Asphalt 8": (2.286, "17"),
}
"""S2's slowdowns and kills."""
DRIVER = {
    "driver serial": "how=serial in_kswapd=1",
    "driver serial, launch kills": "how=serial in_kswapd=0",
    "driver serial, launch waits": "how=serial in_kswapd=0 wait_ms=1000",
    "driver batch": "how=batch in_kswapd=0 wait_ms=1000",
    "driver first": "how=first in_kswapd=0 wait_ms=1000",
}
KILLD = {
    "killd serial": ("serial", "never"),
    "killd batch": ("batch", "never"),
    "killd first": ("serial", "first"),
}
REPEATS_MIN = 3
# Of MemFree, from which the driver and killd subtract the kernel's reserve. More than the reserve
# and the higher level together, as otherwise a launch begins below the level.
FREE_MIB, FREE_RANGE_MIB = 26, (16, 32)
# The higher of S2's levels.
LEVEL_MIB = 16
CACHED, CACHED_MIB = 24, (12, 20, 30, 40, 48)
# S2's phones: 13 threads of an input method, 41 of a camera.
THREADS = (13, 41)
READ_US, READ_MB_S = 180, 225
FILES_MIB = 320
VMSTAT = (
    "allocstall_(normal|movable|dma32)",
    "pgscan_(direct|kswapd)",
    "pgsteal_(direct|kswapd)",
    "workingset_refault_(anon|file)",
    "pgmajfault",
    "pgpgin",
    "oom_kill",
)
"""The kernel's counters that each row keeps, as regular expressions."""
MACHINE = guest.Machine(
    modules=("configfs", "null_blk"),
    # S2's kernel, Linux 3.4 on Arm, has no huge pages.
    kernel_arguments="psi=1 transparent_hugepage=never",
    processors=1,
    memory_mib=1216,
    has_counted_clock=True,
)
PROTECTED = ("sh", "balloon", "launch", "pagewise-agent", "awk", "cat")

SCRIPT = f"""
for name in cached balloon launch; do ln -s /bin/filler /bin/$name; done
mkdir /files /rows
# S2's phones have one zone, which keeps nothing from allocations for a higher one.
echo 0 0 0 0 >/proc/sys/vm/lowmem_reserve_ratio
cp /proc/zoneinfo /result/zoneinfo
mount -t tracefs none /sys/kernel/tracing
mount -t configfs none /sys/kernel/config
device=/sys/kernel/config/nullb/files
mkdir $device
echo {FILES_MIB} >$device/size
echo 4096 >$device/blocksize
echo 1 >$device/memory_backed
echo 2 >$device/irqmode
echo {READ_US * 1000} >$device/completion_nsec
echo {READ_MB_S} >$device/mbps
echo 1 >$device/power
# Some kernels name the disk by its index, others by the folder.
disk=/dev/nullb$(cat $device/index)
[ -e $disk ] || disk=/dev/files
mkfs.ext4 -q -O ^has_journal -m 0 -N 64 $disk
mount -t ext4 -o noatime $disk /files || exit 5
for kib in {" ".join(map(str, NEEDS_KIB.values()))}; do filler make /files/$kib $kib; done
sync

cd /sys/kernel/tracing
echo mono >trace_clock
echo 8192 >buffer_size_kb
for event in begin end; do echo 1 >events/vmscan/mm_vmscan_direct_reclaim_$event/enable; done
cd /disk
kswapd=$(pidof kswapd0)

number() {{ sed -n "s/^$1: *\\([0-9]*\\) kB/\\1/p" /proc/meminfo; }}

# Waits until the program whose output goes to file $1 has its memory; fails if it was killed.
await() {{
    for wait in $(seq 500); do grep -q ready $1 && return; sleep 0.02; done
    return 1
}}

# Starts cached application $1 if it is not alive, and waits until it has its memory.
start() {{
    eval "process=\\$app$1"
    [ -n "$process" ] && grep -q VmRSS /proc/$process/status 2>/dev/null && return
    rm -f /tmp/ready
    cached hold $2 $3 $4 >/tmp/ready &
    eval "app$1=$!"
    await /tmp/ready
}}
fill() {{
{{STARTS}}
    echo 3 >/proc/sys/vm/drop_caches
    sleep 0.5
}}

# What the kernel and the killer have counted, as words NAME=VALUE.
counts() {{
    grep -E '^({"|".join(VMSTAT)}) ' /proc/vmstat | tr ' ' '='
    [ -e /proc/pagewise_lowmem ] && sed -n '/^kill /!s/ /=/p' /proc/pagewise_lowmem
    [ -e /tmp/killd ] && echo killd_kills=$(grep -c '^event=kill ' /tmp/killd)
    echo kswapd_ns=$(cut -d' ' -f1 /proc/$kswapd/schedstat)
}}

# Launches the filler of $2 KiB in condition $1, and appends a row.
once() {{
    row=$((row + 1))
    counts >/rows/$row.before
    echo "condition=$1" >/rows/$row.launch
    echo "kib=$2 free_kib=$(number MemFree)" >>/rows/$row.launch
    echo "file_kib=$(($(number Cached) + $(number Buffers) - $(number Shmem)))" >>/rows/$row.launch
    echo >/sys/kernel/tracing/trace
    launch launch $2 /files/$2 >>/rows/$row.launch
    echo "status=$?" >>/rows/$row.launch
    cp /sys/kernel/tracing/trace /disk/trace
    counts >/rows/$row.after
    process=$(sed -n 's/^process=\\([0-9]*\\) .*/\\1/p' /rows/$row.launch)
    awk -v tail=-$process '
        substr($1, length($1) - length(tail) + 1) != tail {{ next }}
        /reclaim_begin/ {{ begin = $4 + 0; calls++ }}
        /reclaim_end/ {{ sum += $4 - begin }}
        END {{ printf "reclaims=%d reclaim_ns=%.0f\\n", calls, sum * 1e9 }}
    ' /disk/trace >>/rows/$row.launch
    rm /disk/trace
}}
row=0
# Memory is backed by the host before it is measured.
balloon hold $(($(number MemFree) - 40960)) 0 1 >/tmp/ready &
backing=$!
await /tmp/ready || exit 4
kill -9 $backing
wait $backing
sleep 0.5
for kib in ORDER; do echo 3 >/proc/sys/vm/drop_caches; sleep 0.5; once ample $kib; done

# Fills memory again for the launches of a condition: killd takes more of it than the driver.
squeeze() {{
    [ -n "$balloon" ] && {{ kill -9 $balloon; wait $balloon; }}
    fill
    rm -f /tmp/balloon
    balloon hold $(($(number MemFree) - {FREE_MIB} * 1024)) -1000 1 >/tmp/balloon &
    balloon=$!
    await /tmp/balloon || exit 4
}}
CONDITIONS
sleep 1
cp /rows/* /result
dmesg | grep -E 'BUG:|WARNING:|Oops' >/result/bad
true
"""


def script(repeat: int) -> str:
    """The guest's script; ``repeat`` rotates the order of sizes and of ways to kill."""
    starts = "\n".join(
        f"    start {number} {CACHED_MIB[number % len(CACHED_MIB)] * 1024} {500 + 15 * number} "
        f"{THREADS[number % 2]}"
        for number in range(CACHED)
    )
    sizes = list(map(str, NEEDS_KIB.values()))
    turn = repeat % len(sizes)
    order = " ".join(sizes[turn:] + sizes[:turn])
    # No killer acts while killed applications start again, so that each launch begins alike.
    conditions = [
        f"squeeze\nfor kib in {order}; do\n"
        f"fill; insmod /lowmem.ko in_guest=1 {words} || exit 3\n"
        f"once '{name}' $kib; sleep 1.5\n"
        f"cat /proc/pagewise_lowmem >>'/result/{name}.account'\nrmmod pagewise_lowmem\ndone\n"
        for name, words in DRIVER.items()
    ] + [
        f"pagewise-agent killd --config '/{name}.toml' >/tmp/killd 2>&1 &\nkiller=$!\nsleep 1\n"
        f"kill -STOP $killer\nsqueeze\nfor kib in {order}; do\n"
        f"fill; kill -CONT $killer; sleep 0.1\n"
        f"once '{name}' $kib; sleep 1.5; kill -STOP $killer\ndone\n"
        f"kill -CONT $killer; kill $killer\nwait $killer\nmv /tmp/killd '/result/{name}.account'\n"
        for name in KILLD
    ]
    turn = repeat % len(conditions)
    text = "".join(conditions[turn:] + conditions[:turn])
    return SCRIPT.replace("{STARTS}", starts).replace("ORDER", order).replace("CONDITIONS", text)


def settings(kills: str, reclaim: str) -> str:
    """killd's settings: S2's levels."""
    rules = "".join(f'[[rule]]\nname = "{name}"\nis = "protected"\n' for name in PROTECTED)
    return (
        f'policy = "minfree"\nkills = "{kills}"\nreclaim = "{reclaim}"\n[options]\n'
        f'minfree_levels = "1024:0,4096:470"\n{rules}'
    )


def measure(repeat: int) -> list[dict[str, Any]]:
    """The rows of one guest: one for each condition and size."""
    mkfs = Path("/sbin/mkfs.ext4").resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files: dict[str, Path | str] = {
            **guest.with_libraries(killers.AGENT),
            **guest.with_libraries(mkfs),
            "bin/mkfs.ext4": mkfs,
            "bin/filler": guest.compiled(
                folder / "filler", kernel_module.FILLER, "-static", "-pthread"
            ),
            "lowmem.ko": kernel_module.built(MACHINE, kernel_module.LOWMEM, folder),
            **{f"{way}.toml": settings(*words) for way, words in KILLD.items()},
        }
        answer = guest.boot(MACHINE, script(repeat), files, folder, timeout_s=killers.HANGS_AFTER_S)
        if answer.status != 0:
            raise SystemExit(f"the guest failed: {answer.output[-2000:]}")
        if bad := (answer.results / "bad").read_text():
            raise SystemExit(f"the guest's kernel reports: {bad[-2000:]}")
        print(answer.output[-1000:], file=sys.stderr)
        paths = answer.results.glob("*.launch")
        numbers = sorted(int(path.stem) for path in paths)
        reserve = reserve_kib((answer.results / "zoneinfo").read_text())
        rows = [
            {**row(answer.results, number, repeat), "reserve_kib": reserve} for number in numbers
        ]
        for way in (*DRIVER, *KILLD):
            account = (answer.results / f"{way}.account").read_text()
            print(way, account[-3000:], sep="\n", file=sys.stderr)
        return rows


def row(folder: Path, number: int, repeat: int) -> dict[str, Any]:
    """One launch: what it took, and what the counters rose by."""
    before, after = (words(folder / f"{number}.{part}") for part in ("before", "after"))
    launch = (folder / f"{number}.launch").read_text()
    condition, _, rest = launch.removeprefix("condition=").partition("\n")
    found = {
        word: int(value) for word, value in re.findall(r"(\w+)=(-?\d+)\b", rest) if word != "sum"
    }
    rises = {word: value - before.get(word, 0) for word, value in after.items()}
    kills = rises.pop("kills", rises.pop("killd_kills", 0))
    return {"repeat": repeat, "condition": condition, "kills": kills, **found, **rises}


def words(path: Path) -> dict[str, int]:
    return {word: int(value) for word, value in re.findall(r"(\w+)=(\d+)", path.read_text())}


def reserve_kib(zoneinfo: str) -> int:
    """The kernel's reserve (totalreserve_pages) in KiB, from /proc/zoneinfo, with pages of 4 KiB.

    For each zone its high watermark and the most that it keeps from allocations that could use a
    higher zone, but at most the zone's pages.
    """
    pages = 0
    for zone in re.split(r"^Node ", zoneinfo, flags=re.MULTILINE)[1:]:
        high, managed = (
            int(found.group(1)) if (found := re.search(rf"^ +{name} +(\d+)$", zone, re.M)) else 0
            for name in ("high", "managed")
        )
        protection = re.search(r"protection: \((.*)\)", zone)
        kept = max(map(int, protection.group(1).split(","))) if protection else 0
        pages += min(high + kept, managed)
    return pages * 4


class Launches:
    """The rows of several guests, by condition and size."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows = list(rows)
        self.repeats = sorted({row["repeat"] for row in self.rows})

    def of(self, condition: str, kib: int) -> list[dict[str, Any]]:
        """The rows of a condition and a size, one for each guest, in order."""
        found = [row for row in self.rows if (row["condition"], row["kib"]) == (condition, kib)]
        return sorted(found, key=lambda row: int(row["repeat"]))

    def figures(self, condition: str, kib: int, name: str) -> list[float]:
        """One figure of each guest; guests whose launch did not finish have none."""
        return [float(row[name]) for row in self.of(condition, kib) if name in row]

    def beside(self, condition: str, other: str, kib: int) -> list[float]:
        """What a launch takes more than in another condition of the same guest, as a share.

        Guests without a finished launch in both conditions have none.
        """
        ours, theirs = (
            {row["repeat"]: row["launch_ns"] for row in self.of(way, kib) if "launch_ns" in row}
            for way in (condition, other)
        )
        return [ours[repeat] / theirs[repeat] - 1 for repeat in ours if repeat in theirs]

    def slowdowns(self, condition: str, kib: int) -> list[float]:
        """What a launch takes more than in ample memory of the same guest, as a share."""
        return self.beside(condition, "ample", kib)

    def why_not(self, condition: str) -> str | None:
        """Why a condition carries no verdict; None if it does."""
        if len(self.repeats) < REPEATS_MIN:
            return f"{len(self.repeats)} of {REPEATS_MIN} guests"
        largest = max(NEEDS_KIB.values())
        for kib in NEEDS_KIB.values():
            for way, where in ((condition, ""), ("ample", " in ample memory")):
                unfinished = len(self.repeats) - len(self.figures(way, kib, "launch_ns"))
                if unfinished:
                    return f"{unfinished} launches of {kib} KiB{where} did not finish"
            low, high = (1024 * mib for mib in FREE_RANGE_MIB)
            free = self.figures(condition, kib, "free_kib")
            if not all(low <= each <= high for each in free):
                return f"free before a launch: {min(free) / 1024:.0f} to {max(free) / 1024:.0f} MiB"
            files = self.figures(condition, kib, "file_kib")
            if any(each >= LEVEL_MIB * 1024 for each in files):
                return f"{LEVEL_MIB} MiB of files or more were cached before a launch of {kib} KiB"
            by_kernel = sum(self.figures(condition, kib, "oom_kill"))
            if by_kernel:
                return f"the kernel's own OOM killer killed {by_kernel:.0f} at {kib} KiB"
        if not all(self.figures(condition, largest, "kills")):
            return "killed nothing"
        return None


def ranks(figures: Sequence[float]) -> list[float]:
    """The rank of each figure; equal figures share the mean of their ranks."""
    ordered = sorted(figures)
    return [ordered.index(each) + (ordered.count(each) - 1) / 2 for each in figures]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's coefficient."""
    left, right = ranks(first), ranks(second)
    mean = (len(left) - 1) / 2
    covariance = sum((a - mean) * (b - mean) for a, b in zip(left, right, strict=True))
    spread = sum((a - mean) ** 2 for a in left) * sum((b - mean) ** 2 for b in right)
    return float(covariance / spread**0.5) if spread else 0.0


def middle(figures: Sequence[float], scale: float = 1, form: str = ",.0f") -> str:
    """The median, with the range in brackets if there is one."""
    if not figures:
        return "-"
    shown = [f"{each * scale:{form}}" for each in (median(figures), min(figures), max(figures))]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def tables(launches: Launches) -> str:
    """Every launch and every verdict, as Markdown."""
    lines = [
        "| filler | condition | free before, MiB | launch, ms | slowdown | kills | kills by the "
        "kernel's OOM killer | direct reclaim, ms | waited for victims, ms | "
        "in the driver, ms | kswapd, ms | refaults of files | read, MiB |",
        "|" + "---|" * 13,
    ]
    for name, kib in NEEDS_KIB.items():
        for condition in ("ample", *DRIVER, *KILLD):

            def figure(field: str, scale: float = 1, form: str = ",.0f") -> str:
                return middle(launches.figures(condition, kib, field), scale, form)  # noqa: B023

            slowdown = middle(launches.slowdowns(condition, kib), 100, "+.1f")
            cells = (
                name,
                condition,
                figure("free_kib", 1 / 1024),
                figure("launch_ns", 1e-6),
                "-" if condition == "ample" else f"{slowdown} %",
                figure("kills"),
                figure("oom_kill"),
                figure("reclaim_ns", 1e-6, ",.1f"),
                figure("waited_ns", 1e-6, ",.1f"),
                figure("in_shrinker_direct_ns", 1e-6, ",.1f"),
                figure("kswapd_ns", 1e-6, ",.1f"),
                figure("workingset_refault_file"),
                figure("pgpgin", 1 / 1024),
            )
            lines.append("| " + " | ".join(cells) + " |")
    reserves = sorted({row["reserve_kib"] for row in launches.rows if "reserve_kib" in row})
    shown = " to ".join(f"{each / 1024:.1f}" for each in sorted({*reserves[:1], *reserves[-1:]}))
    lines += [
        "",
        f"The kernel's reserve, which the driver and killd subtract from free memory: {shown} MiB."
        if reserves
        else "The rows do not say the kernel's reserve, which the driver and killd subtract from "
        "free memory.",
    ]
    lines += ["", "| claim | way to kill | ours | S2 | verdict |", "|---|---|---|---|---|"]
    for condition in (*DRIVER, *KILLD):
        lines += [
            f"| {claim} | {condition} | {ours} | {paper} | {verdict} |"
            for claim, ours, paper, verdict in verdicts(launches, condition)
        ]
    return "\n".join(lines)


def verdicts(launches: Launches, condition: str) -> Iterable[tuple[str, str, str, str]]:
    """The claims about a way to kill: name, our figure, S2's, and the verdict."""
    reason = launches.why_not(condition)

    def verdict(holds: bool) -> str:
        return f"not measurable: {reason}" if reason else "holds" if holds else "does not hold"

    slowdowns = {kib: launches.slowdowns(condition, kib) for kib in NEEDS_KIB.values()}
    if not all(slowdowns.values()):
        yield "all", "-", "-", verdict(False)
        return
    medians = [median(each) for each in slowdowns.values()]
    correlation = rank_correlation(list(slowdowns), medians)
    yield (
        "ACC-S2-1 order",
        f"{min(medians):+.1%} to {max(medians):+.1%}, rank correlation {correlation:.1f}",
        "+36 % to +229 %, 1.0",
        verdict(min(medians) > 0 and correlation > 0.999),
    )
    smallest, largest = min(slowdowns), max(slowdowns)
    for name, kib, low, high in (("smallest", smallest, 1.2, 1.6), ("largest", largest, 2.5, 4)):
        times = 1 + median(slowdowns[kib])
        paper = 1 + next(PAPER[app][0] for app, need in NEEDS_KIB.items() if need == kib)
        yield (
            f"ACC-S2-1 {name}",
            f"{times:.2f} times",
            f"{paper:.2f} times",
            verdict(low <= times <= high),
        )
    kills = {kib: median(launches.figures(condition, kib, "kills")) for kib in slowdowns}
    small = [count for kib, count in kills.items() if kib != largest]
    yield (
        "ACC-S2-2 small",
        f"{min(small):.0f} to {max(small):.0f} kills",
        "2-4",
        verdict(all(2 <= count <= 4 for count in small)),
    )
    yield (
        "ACC-S2-2 largest",
        f"{kills[largest]:.0f} kills",
        "17",
        verdict(10 <= kills[largest] <= 20),
    )
    serial = {"driver first": "driver serial, launch waits", "killd first": "killd serial"}
    if condition in serial:
        reason = reason or launches.why_not(serial[condition])
        changes = launches.beside(condition, serial[condition], largest)
        shorter = sum(change < 0 for change in changes)
        if 0 < shorter < len(changes):
            reason = reason or f"the guests disagree ({shorter} of {len(changes)} shorter)"
        yield (
            "ACC-S2-5 launch of the largest, beside serial",
            f"{middle(changes, 100, '+.1f')} %" if changes else "-",
            "shorter (proposed)",
            verdict(shorter > 0),
        )


def refusal() -> str | None:
    """Why no guest can be measured here; None if one can."""
    if not killers.AGENT.exists():
        return "no pagewise-agent beside this Python: make build"
    return guest.refusal(MACHINE) or kernel_module.refusal(MACHINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Launches under the low-memory driver and killd.")
    tasks = parser.add_subparsers(dest="task", required=True)
    booted = tasks.add_parser("guest", help="boot one guest and keep its rows")
    booted.add_argument("repeat", type=int, help="its number: rotates the order")
    booted.add_argument("out", type=Path)
    printed = tasks.add_parser("tables", help="print the tables and verdicts of several guests")
    printed.add_argument("rows", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.task == "guest":
        if reason := refusal():
            raise SystemExit(f"lowmem_vm: {reason}")
        arguments.out.write_text(json.dumps(measure(arguments.repeat)))
    else:
        rows = (row for path in arguments.rows for row in json.loads(path.read_text()))
        print(tables(Launches(rows)))


if __name__ == "__main__":
    main()
