"""The static agent of aarch64 on a board that has busybox and no library, in an emulated guest.

The agent is the one in dist: doctor, record, launch with three kinds of swap, killd and killtrace.
What it recorded is read here, on another processor.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import guest
import polars
import pytest
from plans import TIERS, plan

import pagewise as pw

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "dist/pagewise-agent-aarch64"
PAGEWISE = guest.AGENT.with_name("pagewise")
COMPILER = "aarch64-linux-gnu-gcc"
SOURCES = ("hold", "swapping", "pressure")
MACHINE = guest.Machine(
    architecture="arm64",
    suite="bookworm-backports",
    kernel="linux-image-cloud-arm64",
    modules=("zram", "loop"),
    kernel_arguments="psi=1",
)
GROUP = "/sys/fs/cgroup/small"
PAGE_BYTES, MIB = 4096, 1 << 20
PROGRAM_MIB, LIMIT_MIB = 32, 20
BOOT_S = 900

PLANS = {
    "swap-file": plan("swap-file", ["first", "second"] * 2),
    "zram": plan("zram", ["first", "second"] * 2),
    "tiers": TIERS,
}
KILLD = """\
policy = "largest"
[options]
memory_percent = 20
[[rule]]
name = "keeper"
is = "protected"
[[rule]]
name = "sh"
is = "protected"
"""
# The program checks every page that it reads back, and its status is that of the recording.
SWAP = f"""\
echo 0 >{GROUP}/cgroup.procs
(echo 4000; echo all) | swapping {PROGRAM_MIB}
"""
SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
mount -t tracefs none /sys/kernel/tracing
find / -xdev -name '*.so*' >/result/libraries

# Runs a command, and keeps its output.
observe() {{
    name=$1
    shift
    "$@" >/result/$name.json 2>/result/$name.errors
    echo $? >/result/$name.status
}}

# Waits until a file has a line with these words.
until_said() {{
    until grep -q "$2" $1; do
        sleep 0.1
        kill -0 $3 || return 1
    done
}}

observe doctor pagewise-agent doctor --json

echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir {GROUP}
echo {LIMIT_MIB}M >{GROUP}/memory.max
dd if=/dev/zero of=/disk/swap bs=1M count={2 * PROGRAM_MIB} 2>/dev/null
chmod 600 /disk/swap
mkswap /disk/swap >/dev/null
swapon /disk/swap
grep pswp /proc/vmstat >/result/before
observe pages pagewise-agent record --swap --launches --json -o /result/pages.pgr -- sh /swap.sh
grep pswp /proc/vmstat >/result/after
grep pswp /proc/vmstat >/result/before_work
observe work pagewise-agent record --json -o /result/work.pgr -- sh /swap.sh
grep pswp /proc/vmstat >/result/after_work
swapoff /disk/swap
rmdir {GROUP}
echo -memory >/sys/fs/cgroup/cgroup.subtree_control

# Memory of an agent that records while nothing happens.
pagewise-agent record --swap --launches --for 5s -o /result/idle.pgr >/dev/null 2>&1 &
recorder=$!
sleep 3
grep -E '^(VmRSS|RssAnon):' /proc/$recorder/status >/result/idle.status
wait $recorder

for name in {" ".join(PLANS)}; do
    observe $name pagewise-agent launch /plans/$name.toml -o /disk/$name --record --json
    cp -r /disk/$name /result/
done

keeper hold 4 0 0 >/dev/null &
keeper=$!
pagewise-agent killtrace --all --json -o /result/kills.pgk \\
    >/result/kills.json 2>/result/kills.errors &
tracer=$!
until_said /result/kills.errors 'waiting for kills' $tracer
pagewise-agent killd --config /killd.toml >/result/killd.log 2>/result/killd.errors &
killd=$!
until_said /result/killd.log '^event=start ' $killd
hog hog 50 4 >/dev/null 2>&1 &
hog=$!
wait $hog
echo $? >/result/hog.status
sleep 1
kill -0 $keeper && echo alive >/result/keeper
kill -INT $killd
wait $killd
echo $? >/result/killd.status
kill -INT $tracer
wait $tracer
dmesg | grep -i 'out of memory' >/result/oom
true
"""


def refusal() -> str | None:
    """Why the board cannot be emulated here; None if it can."""
    if not PROGRAM.exists():
        return "dist/pagewise-agent-aarch64 is not built: make dist-agents"
    if shutil.which(COMPILER) is None:
        return f"{COMPILER} missing: tools/prerequisites.sh test"
    return guest.refusal(MACHINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands left on the board."""
    if reason := refusal():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("board")
    here = Path(__file__).parent
    hold, swapping, pressure = (
        guest.compiled(folder / name, here / f"{name}.c", "-static", "-pthread", compiler=COMPILER)
        for name in SOURCES
    )
    files: dict[str, Path | str] = {
        "bin/pagewise-agent": PROGRAM,
        "bin/hold": hold,
        "bin/swapping": swapping,
        "bin/keeper": pressure,
        "bin/hog": pressure,
        "killd.toml": KILLD,
        "swap.sh": SWAP,
        **{f"plans/{name}.toml": text for name, text in PLANS.items()},
    }
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    return answer.results


def asked(*words: str | Path) -> dict[str, Any]:
    """What a command of `pagewise` answers here."""
    done = subprocess.run([PAGEWISE, *words, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def counted(path: Path) -> dict[str, int]:
    """The kernel's counts of pages written to swap and read back."""
    return {name: int(pages) for name, pages in map(str.split, path.read_text().splitlines())}


def test_the_board_has_no_library_and_doctor_grants_bpf(results: Path) -> None:
    assert (results / "libraries").read_text() == ""
    report = guest.answered(results, "doctor")
    assert report["kernel"].endswith("-arm64"), report["kernel"]
    found = {finding["name"]: finding for finding in report["findings"]}
    for name in ("tracefs", "btf", "psi", "memory-cgroup", "freezer", "swapon", "zram"):
        assert found[name]["is_granted"], found[name]
    for name in ("swap", "faults", "files", "block", "kills", "launches"):
        assert found[f"record --{name}"]["is_granted"], found[f"record --{name}"]
    assert found["killtrace"]["is_granted"], found["killtrace"]


def test_a_recording_of_the_board_is_read_here(results: Path) -> None:
    report = guest.answered(results, "pages")
    assert (report["backend"], report["lost"], report["failure"]) == ("bpf", 0, None)
    info = asked("info", results / "pages.pgr")
    recorder = info["header"]["recorder"]
    assert (recorder["machine"], recorder["page_bytes"]) == ("aarch64", PAGE_BYTES)
    # A shared page that swap brings back is counted, but has no owner.
    assert all("shared memory" in loss["what"] for loss in info["header"]["losses"])
    before, after = (counted(results / name) for name in ("before", "after"))
    pages_out, pages_in = (after[name] - before[name] for name in ("pswpout", "pswpin"))
    least = (PROGRAM_MIB - LIMIT_MIB) * MIB // PAGE_BYTES
    seen = dict(info["header"]["seen"])
    assert pages_out >= least and seen["page_out"] == pytest.approx(pages_out, rel=0.01)
    assert pages_in >= least and seen["swap_read"] == pytest.approx(pages_in, rel=0.01)
    owners = {process["name"]: process["events"] for process in info["processes"]}
    assert owners["swapping"] > 0.95 * sum(owners.values()), owners
    assert asked("analyze", results / "pages.pgr")["accesses"] == info["accesses"]


def test_a_recording_with_faults_has_those_that_swapped_in(results: Path) -> None:
    """arm64 has no tracepoint page_fault_user, so faults begin where the kernel handles them."""
    report = guest.answered(results, "work")
    assert (report["backend"], report["lost"], report["failure"]) == ("bpf", 0, None)
    info = asked("info", results / "work.pgr")
    analysis = asked("analyze", results / "work.pgr")
    assert info["accesses"] == analysis["accesses"] > 0
    before, after = (counted(results / name) for name in ("before_work", "after_work"))
    pages_in = after["pswpin"] - before["pswpin"]
    seen = dict(info["header"]["seen"])
    assert (seen["swap_in_fault"], seen["swap_read"]) == (analysis["swap"]["ins"], pages_in)
    # Every page that is read comes back by a fault, and so does one that was not written yet.
    assert seen["swap_in_fault"] == pytest.approx(pages_in, rel=0.05), (seen, pages_in)
    times = analysis["fault_time"]
    assert times["device"]["count"] > 100 and times["cached"]["count"] > 0
    mean_ns = times["device"]["sum_ns"] / times["device"]["count"]
    assert 10_000 < mean_ns < 1_000_000_000, times


def test_the_idle_recorder_writes_its_memory(results: Path) -> None:
    lines = (results / "idle.status").read_text()
    print(lines)
    assert all(re.search(rf"(?m)^{name}:\s+\d+ kB$", lines) for name in ("VmRSS", "RssAnon"))
    assert asked("info", results / "idle.pgr")["lost"] == 0


@pytest.mark.parametrize("mode", ["swap-file", "zram"])
def test_applications_swap_and_answer(results: Path, mode: str) -> None:
    report = guest.answered(results, mode)
    assert (report["answered"], report["cold"]) == (4, 2)
    visits = polars.read_parquet(results / mode / "visits.parquet")
    assert visits["cold"].to_list() == [True, True, False, False]
    # The second does not fit beside the first, so the first is swapped out and in.
    assert visits["swap_out_bytes"][1] > 20 * MIB and visits["swap_in_bytes"][2] > 20 * MIB
    info = asked("info", results / mode / "recording.pgr")
    pages_out = visits["swap_out_bytes"].sum() // PAGE_BYTES
    seen = dict(info["header"]["seen"])
    assert info["lost"] == 0 and seen["page_out"] == pytest.approx(pages_out, rel=0.01)


def test_swapd_serves_two_tiers_and_relaunchd_predicts(results: Path) -> None:
    report = guest.answered(results, "tiers")
    assert (report["answered"], report["cold"]) == (6, 2)
    served = json.loads((results / "tiers/swapd.json").read_text())
    assert served["through"] == "fuse" and not any(served["errors"].values())
    assert min(served["fast"]["reads"], served["slow"]["reads"]) > 0
    again = pw.simulate_as_recorded(results / "tiers/swapd.pgr")
    assert again["identical"] and not again["is_cut"]
    log = (results / "tiers/relaunchd.log").read_text()
    wanted = [int(pages) for pages in re.findall(r"by=command .* wanted_pages=(\d+) ", log)]
    # Each application is thawed twice.
    assert wanted[:2] == [0, 0] and len(wanted) == 4 and min(wanted[2:]) > 2000, log


def test_killd_kills_the_hog_before_the_kernel_does(results: Path) -> None:
    log = (results / "killd.log").read_text()
    kills = [line for line in log.splitlines() if line.startswith("event=kill ")]
    assert len(kills) == 1 and " name=hog " in kills[0], log
    assert (results / "hog.status").read_text() == "137\n"
    assert (results / "keeper").read_text() == "alive\n"
    assert (results / "killd.status").read_text() == "0\n", (results / "killd.errors").read_text()
    assert (results / "oom").read_text() == ""


def test_killtrace_measures_that_kill(results: Path) -> None:
    report = json.loads((results / "kills.json").read_text())
    assert report["lost"] == 0, (results / "kills.errors").read_text()
    (kill,) = (row for row in report["kills"] if row["comm"] == "hog")
    assert (kill["trigger"], kill["threads"]) == ("user", 4)
    assert kill["rss_bytes"] > 100 * MIB
    assert kill["total_us"] > kill["signal_us"] > 0 and kill["rss_curve"][-1][1] == 0
