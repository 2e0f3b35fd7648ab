"""The low-memory killer as a shrinker (lab/lowmem), loaded in a guest, by S2's rule.

The guest's only processor has a clock that counts instructions, so no result depends on the load of
the host. kswapd does not kill here: each kill happens in the allocation of a program that launches.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import guest
import kernel_module
import killers
import pytest

pytestmark = pytest.mark.slow

MACHINE = guest.Machine(
    kernel_arguments="transparent_hugepage=never", processors=1, has_counted_clock=True
)
LEVEL_PAGES = 4096
TIMEOUT_NS = 1_000_000_000
NAMES = ("large", "small", "next", "spared", "tiny", "leaderless", "launch")
# With 470 MiB of memory, the launch needs about 150 MiB more than there is.
SCRIPT = """
for name in NAMES; do ln -s /bin/filler /bin/$name; done
filler make /disk/file 300000
sync

# Loads the driver, launches beside these cached programs, and keeps the driver's account.
launch_with() {
    case=$1
    insmod /lowmem.ko in_guest=1 in_kswapd=0 how=$2 wait_ms=$3 || exit 3
    echo 1 >/proc/sys/vm/drop_caches
    launch launch 300000 /disk/file >/result/$case.launch 2>&1
    sleep 2
    cat /proc/pagewise_lowmem >/result/$case.account
    for name in NAMES; do echo $name $(pidof $name | wc -w); done >/result/$case.alive
    rmmod pagewise_lowmem
    killall -9 NAMES 2>/dev/null
    sleep 1
}

# A program that has taken its memory: name, MiB, adj, threads, and "leave" if the first exits.
cached() {
    $1 ${5:-hold} $(($2 * 1024)) $3 $4 >/tmp/ready &
    until grep -q ready /tmp/ready; do sleep 0.05; done
    rm /tmp/ready
}

# Names, sizes and adj are such that the driver cannot choose only by the order of start or by size.
few() {
    cached next 90 600 1
    cached small 40 900 13
    cached large 60 900 41
    cached spared 100 0 1
}
few
launch_with serial serial 0
few
launch_with waiting serial 500
few
launch_with first first 500
for number in $(seq 40); do cached tiny 6 900 1; done
launch_with batch batch 0
cached leaderless 150 900 2 leave
cached next 90 600 1
cached spared 50 0 1
echo 1000 >/proc/1/oom_score_adj
launch_with leaderless serial 0
echo 0 >/proc/1/oom_score_adj

# Loads the driver with parameters that it refuses.
refuse() {
    insmod /lowmem.ko "$@" 2>/dev/null || return 0
    echo loaded with "$@" >>/result/refused
    rmmod pagewise_lowmem
}
refuse
refuse in_guest=1 how=gently
refuse in_guest=1 minfree=1024
refuse in_guest=1 minfree=4096,1024 adj=0,470
refuse in_guest=1 minfree=0,1024 adj=0,470
refuse in_guest=1 minfree=1024,4096 adj=0,1001
refuse in_guest=1 minfree=1024,4096 adj=-1001,0
dmesg | grep pagewise_lowmem: >>/result/refused
dmesg | grep -E 'oom-kill|BUG:|WARNING:|Oops' >/result/bad
true
""".replace("NAMES", " ".join(NAMES))


@dataclass(frozen=True)
class Kill:
    """One line of the driver's log."""

    name: str
    adj: int
    pages: int
    free_pages: int
    file_pages: int
    at_ns: int
    gone_ns: int
    reaped_pages: int
    by_kswapd: int
    caller_name: str


@dataclass(frozen=True)
class Case:
    """What a launch left."""

    kills: list[Kill]
    counters: dict[str, int]
    alive: dict[str, int]
    launch: str


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the guest left."""
    if reason := guest.refusal(MACHINE) or kernel_module.refusal(MACHINE):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("lowmem")
    files: dict[str, Path | str] = {
        "bin/filler": guest.compiled(
            folder / "filler", kernel_module.FILLER, "-static", "-pthread"
        ),
        "lowmem.ko": kernel_module.built(MACHINE, kernel_module.LOWMEM, folder),
    }
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=killers.HANGS_AFTER_S)
    assert answer.status == 0, answer.output
    return answer.results


def case(results: Path, name: str) -> Case:
    kills, counters = [], {}
    for line in (results / f"{name}.account").read_text().splitlines():
        if line.startswith("kill "):
            words = dict(re.findall(r"(\w+)=(\S+)", line))
            kills.append(
                Kill(
                    name=words["name"],
                    caller_name=words["caller_name"],
                    **{
                        field: int(words[field])
                        for field in Kill.__annotations__
                        if not field.endswith("name")
                    },
                )
            )
        else:
            word, number = line.split()
            counters[word] = int(number)
    alive = dict(line.split() for line in (results / f"{name}.alive").read_text().splitlines())
    launched = (results / f"{name}.launch").read_text()
    return Case(kills, counters, {word: int(count) for word, count in alive.items()}, launched)


@pytest.mark.parametrize("name", ["serial", "waiting", "first"])
def test_the_launching_program_kills_the_highest_adj_then_the_largest(
    results: Path, name: str
) -> None:
    found = case(results, name)
    victims = [kill.name for kill in found.kills]
    assert len(victims) >= 2
    assert victims == ["large", "small", "next"][: len(victims)]
    assert found.alive["spared"] == 1
    assert {kill.caller_name for kill in found.kills} == {"launch"}
    assert not any(kill.by_kswapd for kill in found.kills)
    assert "launch_ns=" in found.launch
    assert found.counters["kills"] == len(victims)


def test_a_process_without_its_first_thread_dies_and_init_is_spared(results: Path) -> None:
    kills = case(results, "leaderless").kills
    assert kills[0].name == "leaderless"
    assert kills[0].gone_ns > kills[0].at_ns
    assert {kill.name for kill in kills} <= {"leaderless", "next"}


@pytest.mark.parametrize("name", ["serial", "waiting", "first", "batch", "leaderless"])
def test_kills_only_when_free_and_file_pages_are_both_low(results: Path, name: str) -> None:
    for kill in case(results, name).kills:
        assert kill.free_pages < LEVEL_PAGES
        assert kill.file_pages < LEVEL_PAGES


@pytest.mark.parametrize("name", ["serial", "waiting", "first", "leaderless"])
def test_one_victim_at_a_time(results: Path, name: str) -> None:
    kills = case(results, name).kills
    for earlier, later in pairwise(kills):
        is_gone = 0 < earlier.gone_ns <= later.at_ns
        assert is_gone or later.at_ns - earlier.at_ns > TIMEOUT_NS


def test_only_a_waiting_caller_waits(results: Path) -> None:
    assert case(results, "serial").counters["waited_ns"] == 0
    # The shortest sleep of a caller that waits.
    assert case(results, "waiting").counters["waited_ns"] >= 50_000


def test_reclaim_first_frees_the_victims_memory_in_the_callers_allocation(results: Path) -> None:
    kills = case(results, "first").kills
    assert sum(kill.reaped_pages for kill in kills) > sum(kill.pages for kill in kills) / 2
    assert not any(kill.reaped_pages for kill in case(results, "serial").kills)


def test_a_batch_kills_as_many_as_the_shortage_needs(results: Path) -> None:
    kills = case(results, "batch").kills
    assert {kill.name for kill in kills} == {"tiny"}
    batches: dict[tuple[int, int], list[Kill]] = {}
    for kill in kills:
        batches.setdefault((kill.free_pages, kill.file_pages), []).append(kill)
    assert max(len(batch) for batch in batches.values()) >= 2
    for (free_pages, _), batch in batches.items():
        all_but_last = sum(kill.pages for kill in batch[:-1])
        assert all_but_last < LEVEL_PAGES - free_pages


@pytest.mark.parametrize(
    "message",
    [
        "kills processes: load it only in a guest, with in_guest=1",
        "how=gently: give serial, batch or first",
        "1 levels in minfree, but 2 in adj: give as many",
        "minfree: 1024 after 4096: give ascending levels",
        "minfree: 0 pages: give levels above 0",
        "adj: 1001: give numbers from -1000 to 1000",
        "adj: -1001: give numbers from -1000 to 1000",
    ],
)
def test_refuses_parameters_that_it_cannot_obey(results: Path, message: str) -> None:
    refused = (results / "refused").read_text()
    assert message in refused
    assert "loaded with" not in refused


def test_the_kernel_reports_no_error(results: Path) -> None:
    assert (results / "bad").read_text() == ""
