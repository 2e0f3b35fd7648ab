"""Launch plans on a kernel with cgroup version 2, in a guest.

Each run must leave the guest as it was: the guest prints its state before and after.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import guest
import polars
import pytest
from plans import TIERS, plan

import pagewise as pw

AGENT = guest.AGENT
PAGEWISE = AGENT.with_name("pagewise")
MACHINE = guest.Machine(modules=("zram", "lzo_rle", "fuse", "loop"), kernel_arguments="psi=1")
MIB = 1 << 20
BOOT_S = 900

PLANS = {
    "swap-file": plan("swap-file", ["first", "second"] * 2),
    "zram": plan("zram", ["first", "second"] * 2),
    "zram+file": plan("zram+file", ["first", "second"] * 2),
    "tiers": TIERS,
    # Three exceed the threshold of 38 MiB but not the limit, so the OOM killer does not act before.
    "kill": plan(
        "kill",
        ["a", "b", "c", "a"],
        mib=14,
        more='pause = { visit = "200ms" }\nkill = { threshold = 0.8 }\n',
    ),
    # The balloon leaves 160 MiB, and the killer wants 50 MiB free: three applications of 40 MiB
    # leave too little. A visit takes a second, so that killd looks before the last one has ended.
    "minfree": plan(
        "minfree",
        ["a", "b", "c", "b", "c"],
        budget="200MiB",
        more='balloon = { size = "40MiB" }\nminfree = { levels = "12800:900" }\n'
        'pause = { visit = "1s" }\n',
    ),
    # The threshold is the whole budget, so the killer does not act. A visit takes a second, in
    # which the recorder takes several moments, one every 200 ms.
    "starved": plan(
        "kill",
        ["first", "second", "first"],
        more='pause = { visit = "1s" }\nkill = { threshold = 1.0 }\n',
    ),
}

# The disk that it slows down is that of /, so it runs in a root on a disk.
STORAGE = plan("swap-file", ["first", "second"], more='storage = { files = "5/5ms" }\n')

SCRIPT = """
mount -t cgroup2 none /sys/fs/cgroup
mount -t tracefs none /sys/kernel/tracing

state() {
    cat /proc/swaps /proc/sys/vm/swappiness /sys/fs/cgroup/cgroup.subtree_control
    find /sys/fs/cgroup -type d
    ls /sys/block /disk/*/swap /run/pagewise/launch.undo 2>/dev/null
    pidof hold || echo no application
}

# Runs a command; keeps its output, and the state of the machine before and after.
observe() {
    name=$1
    shift
    state >/result/$name.before
    "$@" >/result/$name.json 2>/result/$name.errors
    echo $? >/result/$name.status
    state >/result/$name.after
}

kill_run() {
    pagewise-agent launch /plans/endless.toml -o /disk/endless &
    run=$!
    until [ -e /disk/endless/visits.parquet ]; do sleep 0.1; done
    kill -9 $run
    # The guard undoes the changes, and then releases the lock.
    until pagewise-agent launch --undo; do sleep 0.1; done
}

observe doctor pagewise-agent doctor --json
observe record pagewise-agent record --for 2s --json -o /result/record.pgr
observe record-all pagewise-agent record --swap --faults --files --block --kills --launches \
    --for 2s --json -o /result/record-all.pgr
for name in swap-file zram zram+file tiers kill minfree starved; do
    observe $name pagewise-agent launch /plans/$name.toml -o /disk/$name --record --json
    cp -r /disk/$name /result/
done
observe killed kill_run

for folder in bin lib lib64 usr plans; do [ ! -e /$folder ] || cp -r /$folder /disk/; done
for folder in proc sys dev; do mkdir /disk/$folder && mount --rbind /$folder /disk/$folder; done
mkdir -p /disk/run /disk/tmp
observe storage chroot /disk pagewise-agent launch /plans/storage.toml -o /storage --json
cp -r /disk/storage /result/
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the commands in one guest."""
    guest.need_agent(MACHINE)
    folder = tmp_path_factory.mktemp("guest")
    hold = guest.compiled(folder / "hold", Path(__file__).with_name("hold.c"), "-static")
    endless = plan("swap-file", ["first", "second"], more="rounds = 1000\n")
    texts = PLANS | {"endless": endless, "storage": STORAGE}
    plans = {f"plans/{name}.toml": text for name, text in texts.items()}
    files = {**guest.with_libraries(AGENT), "bin/hold": hold, **plans}
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    return answer.results


@pytest.mark.slow
def test_the_guest_has_the_features_that_runs_need(results: Path) -> None:
    findings = guest.answered(results, "doctor")["findings"]
    assert isinstance(findings, list)
    found = {finding["name"]: finding for finding in findings}
    for name in ("memory-cgroup", "freezer", "swapon", "zram", "btf", "record --swap"):
        assert found[name]["is_granted"], found[name]
    assert "version 2" in found["memory-cgroup"]["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["record", "record-all"])
def test_a_recording_ends_in_time(results: Path, name: str) -> None:
    report = guest.answered(results, name)
    assert (report["backend"], report["lost"], report["failure"]) == ("bpf", 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["swap-file", "zram", "zram+file"])
def test_applications_swap_and_answer(results: Path, mode: str) -> None:
    report = guest.answered(results, mode)
    assert (report["answered"], report["cold"]) == (4, 2)
    visits = polars.read_parquet(results / mode / "visits.parquet")
    assert visits["cold"].to_list() == [True, True, False, False]
    # The second does not fit beside the first, so the first is swapped out and in.
    assert visits["swap_out_bytes"][1] > 20 * MIB and visits["swap_in_bytes"][2] > 20 * MIB
    assert (visits["memory_bytes"] <= 48 * MIB).all()

    recording = results / mode / "recording.pgr"
    info = json.loads(subprocess.check_output([PAGEWISE, "info", recording, "--json"], timeout=300))
    seen = dict(info["header"]["seen"])
    pages_out = visits["swap_out_bytes"].sum() // 4096
    assert info["lost"] == 0 and seen["page_out"] == pytest.approx(pages_out, rel=0.01)
    # Every page is touched, so every page that is read is soon faulted in.
    pages_in = visits["swap_in_bytes"].sum() // 4096
    assert seen["swap_in_fault"] == pytest.approx(pages_in, rel=0.05)


@pytest.mark.slow
def test_applications_swap_to_two_tiers_and_relaunchd_follows_them(results: Path) -> None:
    report = guest.answered(results, "tiers")
    assert (report["answered"], report["cold"]) == (6, 2)
    folder = results / "tiers"
    served = json.loads((folder / "swapd.json").read_text())
    assert served["through"] == "fuse" and not any(served["errors"].values())
    visits = polars.read_parquet(folder / "visits.parquet")
    # The visits cover all but the pages that come back when the area is disabled.
    for column, counts in (("fast_reads", "fast"), ("slow_reads", "slow")):
        assert 0 < visits[column].sum() <= served[counts]["reads"], column
    assert 0 < visits["slow_writes"].sum() <= served["slow"]["writes"]
    again = pw.simulate_as_recorded(folder / "swapd.pgr")
    assert again["identical"] and not again["is_cut"]

    assert visits["prefetched_pages"].null_count() == 0
    log = (folder / "relaunchd.log").read_text()
    assert log.count("event=frozen ") == 6, log
    wanted = [int(pages) for pages in re.findall(r"by=command .* wanted_pages=(\d+) ", log)]
    # Each application is thawed twice.
    assert wanted[:2] == [0, 0] and len(wanted) == 4 and min(wanted[2:]) > 2000, log


@pytest.mark.slow
def test_the_killer_kills_the_application_used_longest_ago(results: Path) -> None:
    assert guest.answered(results, "kill")["oom_kills"] == 0
    visits = polars.read_parquet(results / "kill" / "visits.parquet")
    assert visits["killed"].to_list() == ["", "", "a", "b"]
    assert visits["cold"].all() and visits["swap_out_bytes"].sum() == 0


@pytest.mark.slow
def test_killd_kills_beside_the_balloon(results: Path) -> None:
    assert guest.answered(results, "minfree")["oom_kills"] == 0
    visits = polars.read_parquet(results / "minfree" / "visits.parquet")
    assert "".join(visits["killed"]) == "a" and visits["answered"].all()
    log = (results / "minfree" / "killd.log").read_text()
    assert log.count("event=kill ") == 1, log


@pytest.mark.slow
def test_an_application_killed_by_the_oom_killer_is_counted_and_started_again(
    results: Path,
) -> None:
    report = guest.answered(results, "starved")
    visits = polars.read_parquet(results / "starved" / "visits.parquet")
    assert visits["cold"].all() and visits["kills"].sum() == 0
    # The OOM killer's victim is the largest, which is frozen.
    assert visits["oom_kills"].to_list()[:2] == [0, 1] and visits["answered"].to_list()[1]
    assert report["oom_kills"] == visits["oom_kills"].sum()
    assert "not ready in time" not in (results / "starved.errors").read_text()

    recording = results / "starved" / "recording.pgr"
    info = json.loads(subprocess.check_output([PAGEWISE, "info", recording, "--json"], timeout=300))
    assert dict(info["header"]["seen"])["oom_kill"] == visits["oom_kills"].sum()


@pytest.mark.slow
def test_kill_policies_are_replayed_on_the_memory_of_the_run(results: Path) -> None:
    oom_kills = guest.answered(results, "starved")["oom_kills"]
    recording = results / "starved" / "recording.pgr"
    # During a visit, an application of 40 MiB leaves less than 20 of 48 MiB free.
    command = [PAGEWISE, "replay-kills", recording, "--json", "--policy", "minfree,lmkd"]
    command += ["--option", "minfree.minfree_levels=5120:0"]
    result = json.loads(subprocess.check_output(command, timeout=300))
    assert result["total_bytes"] == 48 * MIB, "the memory of the run, not of the guest"
    assert result["has_watermarks"]
    kernel = [freeze for freeze in result["freezes"] if freeze["is_kernel_kill"]]
    assert len(kernel) == oom_kills == sum(kill["is_of_kernel"] for kill in result["recorded"])
    minfree, lmkd = result["policies"]
    assert minfree["decisions"], minfree
    victims = [victim["name"] for made in minfree["decisions"] for victim in made["victims"]]
    assert set(victims) == {"hold"}
    # The policy either kills or gives a reason why it does not.
    assert lmkd["decisions"] or lmkd["reasons"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PLANS, "killed", "storage"])
def test_each_run_leaves_the_guest_as_it_was(results: Path, name: str) -> None:
    before = (results / f"{name}.before").read_text()
    assert "pagewise-launch" not in before
    assert (results / f"{name}.after").read_text() == before


@pytest.mark.slow
def test_applications_read_files_as_slowly_as_the_storage_of_the_plan(results: Path) -> None:
    guest.answered(results, "storage")
    reads = tomllib.loads((results / "storage" / "run.toml").read_text())["run"]["file_reads"]
    assert reads["wanted_us"] == 5000
    # The host is busy with other tests, so the reads take longer at times.
    assert reads["measured_us"] > 0.8 * 5000 and reads["unslowed_us"] < reads["measured_us"] / 2
