"""Lazy unmapping in the kernel (docs/kernel.md), in guests of the kernel that `make kernel` builds.

Every case is a static program, so no library takes part.
"""

import importlib
import re
from pathlib import Path

import guest
import lazy_kernel
import pytest
from lazy_kernel import CASES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "build" / "kernel"
MACHINE = guest.Machine(
    kernel=str(KERNEL / "root"),
    kernel_arguments="psi=1 transparent_hugepage=never",
    processors=1,
    memory_mib=512,
    has_counted_clock=True,
)
BOOT_S = 600
BLOCKS = 400
"""Blocks of the churn program: enough that most come from the pool, few enough for a guest."""
FREED_MIB, LIMIT_MIB = 64, 96
DECISIONS = ROOT / "crates" / "policy" / "tests" / "data" / "kernel-decisions.txt"
"""Requests and the kernel's decisions, which the tests of `policy` compare with `retention`."""

# Runs `churn` as a static program with 128 KiB as its fixed threshold of malloc, as the paper's
# program has, and keeps what it prints and the CPU time of user and kernel, which a counted clock
# gives in instructions.
CHURN = f"""
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072
churn malloc {BLOCKS} 0 >/result/churn-off || exit 3
lazy_unmap run churn malloc {BLOCKS} 0 >/result/churn-on || exit 3
lazy_unmap run churn calloc {BLOCKS} 0 >/result/churn-calloc || exit 3
"""

SCRIPT = "".join(
    f"lazy_unmap {case} >/result/{case} 2>&1; echo $? >/result/{case}.status\n" for case in CASES
)
SCRIPT += """
mount -t tracefs none /sys/kernel/tracing
echo 4096 >/proc/sys/vm/lazy_unmap_max_kbytes
echo 1 >/sys/kernel/tracing/events/lazy_unmap/enable
lazy_unmap replay || exit 4
echo 0 >/sys/kernel/tracing/events/lazy_unmap/enable
cp /sys/kernel/tracing/trace /result/trace
echo 65536 >/proc/sys/vm/lazy_unmap_max_kbytes
"""
SCRIPT += CHURN
SCRIPT += f"""
# All processes, without a call of their own.
echo 2 >/proc/sys/vm/lazy_unmap
cp /proc/vmstat /result/vmstat.default-before
churn malloc {BLOCKS} 0 >/result/churn-default
cp /proc/vmstat /result/vmstat.default-after
echo 0 >/proc/sys/vm/lazy_unmap
cp /proc/vmstat /result/vmstat.off-before
lazy_unmap run churn malloc {BLOCKS} 0 >/result/churn-forbidden
cp /proc/vmstat /result/vmstat.off-after
echo 1 >/proc/sys/vm/lazy_unmap
unset GLIBC_TUNABLES

# A burst in a memory cgroup that the pool nearly fills, and one on the whole machine.
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
echo 0 >/proc/sys/vm/lazy_unmap_max_kbytes
echo 0 >/proc/sys/vm/lazy_unmap_age_msecs
mkdir /sys/fs/cgroup/burst
echo {LIMIT_MIB}M >/sys/fs/cgroup/burst/memory.max
(echo 0 >/sys/fs/cgroup/burst/cgroup.procs; exec lazy_unmap pressure {LIMIT_MIB - 12}) \
    >/result/group
echo $? >/result/group.status
cp /sys/fs/cgroup/burst/memory.events /result/group.events
free_mib=$(($(sed -n 's/^MemFree: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo) / 1024))
lazy_unmap pressure $((free_mib - 32)) >/result/machine
echo $? >/result/machine.status
cp /proc/vmstat /result/vmstat
cp /proc/meminfo /result/meminfo
dmesg >/result/dmesg
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of all cases in one guest."""
    if not (KERNEL / "bzImage").exists():
        pytest.skip("no kernel with lazy unmapping in build/kernel: make kernel")
    if missing := guest.refusal(MACHINE):
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("guest")
    programs = {
        "lazy_unmap": Path(__file__).with_name("lazy_unmap.c"),
        "churn": ROOT / "bench" / "lazy" / "programs" / "churn.c",
    }
    files: dict[str, Path | str] = {
        f"bin/{name}": guest.compiled(folder / name, source, "-static", "-lm")
        for name, source in programs.items()
    }
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output + answer.console[-2000:]
    return answer.results


def counters(results: Path, name: str) -> dict[str, int]:
    """The kernel's counters in a copy of /proc/vmstat."""
    return lazy_kernel.counters((results / name).read_text())


def traps(results: Path, name: str) -> int:
    """Page faults of a run of the churn program."""
    found = re.search(r'"traps": (\d+)', (results / name).read_text())
    assert found is not None
    return int(found.group(1))


def decisions(trace: str) -> str:
    """Requests and decisions in a trace, a line each: what, first page, pages.

    A line of `free` also has the number of pages that were touched. First pages are counted from
    the lowest that occurs.
    """
    found = re.findall(
        r"(?:mark_write: (map|free) (\w+) ([\d ]+)"
        r"|lazy_unmap_(keep|take|discard): start=(\w+) end=(\w+))",
        trace,
    )
    rows = [
        (request, int(address, 16) >> 12, pages)
        if request
        else (decision, int(start, 16) >> 12, str(int(end, 16) - int(start, 16) >> 12))
        for request, address, pages, decision, start, end in found
    ]
    lowest = min(first for _, first, _ in rows)
    return "".join(f"{what} {first - lowest} {pages}\n" for what, first, pages in rows)


def test_the_kernel_decides_as_recorded(results: Path) -> None:
    assert decisions((results / "trace").read_text()) == DECISIONS.read_text()


@pytest.mark.parametrize("case", CASES)
def test_case(results: Path, case: str) -> None:
    status = (results / f"{case}.status").read_text()
    assert status == "0\n", (results / case).read_text()


@pytest.mark.parametrize("name", ["churn-on", "churn-calloc", "churn-default"])
def test_the_pool_takes_nine_of_ten_faults_of_churn(results: Path, name: str) -> None:
    assert traps(results, "churn-off") > 10_000
    assert traps(results, name) <= 0.1 * traps(results, "churn-off")


def test_the_administrator_turns_it_on_and_off_for_all(results: Path) -> None:
    before, after = (counters(results, f"vmstat.default-{when}") for when in ("before", "after"))
    assert after["lazy_unmap_hit"] > before["lazy_unmap_hit"]
    before, after = (counters(results, f"vmstat.off-{when}") for when in ("before", "after"))
    assert after["lazy_unmap_pages_kept"] == before["lazy_unmap_pages_kept"]
    assert traps(results, "churn-forbidden") > 0.9 * traps(results, "churn-off")


@pytest.mark.parametrize("name", ["group", "machine"])
def test_reclaim_takes_the_pool_before_anybody_is_killed(results: Path, name: str) -> None:
    output = (results / name).read_text()
    assert (results / f"{name}.status").read_text() == "0\n", output
    held = re.findall(r"held\w*_kib=(\d+)", output)
    assert int(held[0]) >= FREED_MIB * 1024 - 64
    assert int(held[1]) < int(held[0])


def test_no_kill_while_a_pool_holds_memory(results: Path) -> None:
    counted = counters(results, "vmstat")
    assert counted["lazy_unmap_pages_reclaimed"] > 0
    assert counted["oom_kill"] == 0
    assert counted["lazy_unmap_pages_held_at_oom"] == 0
    assert "oom_kill 0" in (results / "group.events").read_text()


def test_all_memory_comes_back(results: Path) -> None:
    """After every program has ended, no pool holds a page, and every kept page is accounted for."""
    counted = counters(results, "vmstat")
    assert re.search(r"LazyUnmapped: +0 kB", (results / "meminfo").read_text())
    assert lazy_kernel.unaccounted(counted) == 0


def test_the_kernel_does_not_complain(results: Path) -> None:
    assert lazy_kernel.complaints((results / "dmesg").read_text()) == []


def test_the_benches_see_what_the_kernel_complains_of(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (KERNEL / "bzImage").exists() or guest.refusal(MACHINE):
        pytest.skip("no kernel with lazy unmapping in build/kernel: make kernel")
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    boot = importlib.import_module("kernel_guests").boot
    ran = boot(MACHINE, "echo '<4>WARNING: at mm/lazy_unmap.c' >/dev/kmsg\nexit 3\n", {}, BOOT_S)
    assert ran.status == 3
    (complaint,) = ran.complaints()
    assert complaint.endswith("WARNING: at mm/lazy_unmap.c")
