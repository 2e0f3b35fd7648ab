"""The preload library on a kernel with cgroup version 2, in a guest.

It must hold no more than the limits of the group permit, survive a burst, and free the memory that
it holds when the kernel reports pressure of its group.
"""

import json
import sys
from pathlib import Path
from typing import Any

import guest
import pytest

pytestmark = pytest.mark.slow

AGENT = Path(sys.executable).with_name("pagewise-agent")
LIBRARY = AGENT.parents[1] / "lib" / "libpagewise_lazy.so"
TESTS = Path(__file__).parents[1]
PROGRAMS = {
    "freed": TESTS / "vm" / "freed.c",
    "burst": TESTS.parent / "bench" / "lazy" / "programs" / "pressure.c",
    "taker": TESTS / "vm" / "pressure.c",
}
MACHINE = guest.Machine(kernel_arguments="psi=1")
MIB = 1 << 20
BOOT_S = 240

SETTINGS = {"fast": "--mode fast", "guarded": "--mode guarded", "faithful": "--profile faithful"}
# In a group of 100 MiB, the program frees 75 MiB, and then needs 80 MiB from the kernel.
KEEPS = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=536870912"
COMMANDS = {
    "glibc": "env",
    "keeps": f"env GLIBC_TUNABLES={KEEPS}",
    **{name: f"pagewise-agent lazy {words} --" for name, words in SETTINGS.items()},
}
# The groups of a program that has freed 40 MiB, with their smallest limits in MiB.
LIMITS_MIB = {"max": 80, "high": 64, "outer/inner": 96}
LOWERED_MIB = 48

SCRIPT = """
mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup
echo +memory >cgroup.subtree_control
export PAGEWISE_LAZY_LAZY_AFTER=1000s PAGEWISE_LAZY_DISCARD_AFTER=1000s

# Runs a command in a group from its first instruction on.
within() {
    group=$1
    shift
    exec sh -c 'echo $$ >/sys/fs/cgroup/$0/cgroup.procs && exec "$@"' $group "$@"
}

# Writes the library's counters of the program of group $1 to the file $2.json.
counters() {
    pagewise-agent lazy --stats $(cat $1/cgroup.procs) --json >/result/$2.json
}

# Waits, up to a minute, until counter $2 of the program of group $1 is at most $3.
falls() {
    for attempt in $(seq 300); do
        counters $1 now
        [ $(sed "s/.*\\"$2\\": *\\([0-9]*\\).*/\\1/" /result/now.json) -gt $3 ] || return 0
        sleep 0.2
    done
}

# Starts a program that frees memory and stays in the group.
free_in() {
    : >/tmp/output
    (within $1 pagewise-agent lazy -- freed 40) >/tmp/output &
    until grep -q ready /tmp/output; do sleep 0.1; done
}

burst() {
    name=$1
    shift
    mkdir burst
    echo 100M >burst/memory.max
    (within burst "$@" burst 75 80) >/result/$name.json
    echo $? >/result/$name.status
    cp burst/memory.events /result/$name.events
    rmdir burst
}
"""
SCRIPT += "".join(f"burst {name} {words}\n" for name, words in COMMANDS.items())
SCRIPT += f"""
mkdir -p max high outer/inner free
echo {LIMITS_MIB["max"]}M >max/memory.max
echo {LIMITS_MIB["high"]}M >high/memory.high
echo +memory >outer/cgroup.subtree_control
echo {LIMITS_MIB["outer/inner"]}M >outer/memory.max
for group in max high outer/inner free; do
    free_in $group
    counters $group ${{group%/*}}
done

echo {LOWERED_MIB}M >max/memory.max
falls max hot_pages $(({LOWERED_MIB} * 256 / 16))
counters max lowered
counters free before

# Programs that start from here on do not see the machine's pressure.
mount --bind /dev/null /proc/pressure/memory
for group in max free; do
    kill -9 $(cat $group/cgroup.procs)
    while [ -n "$(cat $group/cgroup.procs)" ]; do sleep 0.1; done
    free_in $group
    counters $group deaf-$group
done
# The group gets too little memory, and has no swap: the kernel stalls the program that takes it.
echo {LOWERED_MIB // 2}M >max/memory.high
program=$(cat max/cgroup.procs)
(within max taker hold {LOWERED_MIB - 8} 0 0) >/dev/null &
for attempt in $(seq 300); do
    pagewise-agent lazy --stats $program --json >/result/reported.json
    grep -q '"hot_pages": *0,.*"lazy_pages": *0,' /result/reported.json && break
    sleep 0.2
done
counters free unreported
true
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the programs in one guest."""
    if not LIBRARY.exists():
        pytest.skip("no preload library beside this Python: make build")
    if missing := guest.refusal(MACHINE):
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("guest")
    files: dict[str, Path | str] = {"lib/libpagewise_lazy.so": LIBRARY}
    # Linked with the C library of this machine, which the preload library needs.
    programs = [
        guest.compiled(folder / name, source, "-lm", "-pthread")
        for name, source in PROGRAMS.items()
    ]
    for program in (AGENT, *programs):
        files |= guest.with_libraries(program)
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    return answer.results


def counted(results: Path, name: str) -> dict[str, Any]:
    """The library's counters in a file."""
    report: dict[str, Any] = json.loads((results / f"{name}.json").read_text())
    return report


def held(results: Path, name: str) -> tuple[int, int]:
    """Bytes that the library holds hot, and lazily freed."""
    report = counted(results, name)
    return report["hot_pages"] * 4096, report["lazy_pages"] * 4096


def events(results: Path, name: str) -> dict[str, int]:
    """The memory events of the group."""
    lines = (results / f"{name}.events").read_text().splitlines()
    return {word: int(number) for word, number in map(str.split, lines)}


@pytest.mark.parametrize("name", ["glibc", *SETTINGS])
def test_a_burst_survives(results: Path, name: str) -> None:
    output = (results / "output").read_text()
    assert (results / f"{name}.status").read_text() == "0\n", output
    assert counted(results, name)["is_cleared"] is True
    assert events(results, name)["oom_kill"] == 0


def test_the_burst_is_killed_with_an_allocator_that_keeps_freed_memory(results: Path) -> None:
    assert (results / "keeps.status").read_text() == "137\n"
    assert events(results, "keeps")["oom_kill"] == 1


@pytest.mark.parametrize("group", LIMITS_MIB)
def test_held_memory_follows_the_smallest_limit(results: Path, group: str) -> None:
    most = LIMITS_MIB[group] * MIB // 16
    hot, lazy = held(results, group.partition("/")[0])
    assert 0 < hot <= most and lazy <= most
    assert held(results, "free")[0] > most, "without a limit more is held"


def test_held_memory_follows_a_lowered_limit(results: Path) -> None:
    most = LOWERED_MIB * MIB // 16
    assert held(results, "max")[0] > most
    hot, lazy = held(results, "lowered")
    assert 0 < hot <= most and lazy <= most
    assert held(results, "before")[0] > most, "other groups keep their memory"


def test_a_group_that_is_short_gets_the_held_memory_back(results: Path) -> None:
    assert held(results, "deaf-max")[0] > 0
    assert held(results, "reported") == (0, 0)
    assert sum(held(results, "unreported")) > 0, "other groups keep some memory"
