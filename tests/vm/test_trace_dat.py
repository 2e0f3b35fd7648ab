"""A recording of trace-cmd in a guest, read as trace.dat and as text of the same events.

The text is what `trace-cmd report` prints of the file: with the formats of the kernel, with its own
plugins, and with the fields as numbers. A second recording is read as the kernel's own text.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import SkipTest

import guest
import polars
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KERNELS = {"6.1": None, "6.12": "bookworm-backports"}
TEXTS = {"kernel": ("-N",), "plugins": (), "numbers": ("-R",)}
"""Options of `trace-cmd report`. With `-t`, which is always given, times have nanoseconds."""
BOOT_S = 300
TIMEOUT_S = 300
PACKAGE = "org.pagewise.filler"
"""Android keeps the end of a name that is too long for a command: pagewise.filler."""
EVENTS = (
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_exit",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "task:task_newtask",
    "task:task_rename",
    "signal:signal_generate",
    "oom:mark_victim",
    "oom:oom_score_adj_update",
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_direct_reclaim_end",
    "vmscan:mm_vmscan_memcg_reclaim_begin",
    "vmscan:mm_vmscan_memcg_reclaim_end",
    "vmscan:mm_vmscan_kswapd_wake",
    "vmscan:mm_vmscan_kswapd_sleep",
    "vmscan:mm_vmscan_lru_shrink_inactive",
    "vmscan:mm_vmscan_write_folio",
    "filemap:mm_filemap_add_to_page_cache",
    "filemap:mm_filemap_delete_from_page_cache",
    "block:block_bio_queue",
    "block:block_rq_issue",
    "block:block_rq_complete",
    "kmem:rss_stat",
)
"""Events that are recorded, and of which at least one happens. Compaction may not be needed."""
FACTS = {
    "block_complete": 100,
    "block_request": 1000,
    "direct_reclaim": 10,
    "exit": 10,
    "kswapd": 2,
    "launch": 1,
    "new_task": 10,
    "oom_kill": 1,
    "oom_score_adj": 2,
    "page_added": 1000,
    "page_deleted": 1000,
    "rss": 1000,
    "swap_out": 1000,
    "switch": 100,
    "wake": 100,
}
"""The smallest number of what the events say, as `pagewise info` counts it."""
NAMES = '"a pid=5 x" "b:7 [120] D" ") Z (" "-1 [0] 1.1: x:" "c:1 [5] ==> d:2"'
"""Names of threads and files that look like parts of a line, as words of a shell."""

WORK = f"""
# Only the recorder is safe from the OOM killer.
echo 0 >/proc/$$/oom_score_adj
marker=/sys/kernel/tracing/trace_marker
echo "no marker" >$marker
echo "C|7|bytes|-5" >$marker
filler hold 80000 500 3 >/tmp/held &
held=$!
until grep -q ready /tmp/held; do sleep 0.1; done
# Memory is now short, so that this reclaims, swaps, and reads its file again.
echo "S|$$|launchingActivity#1|1" >$marker
/tmp/pagewise.filler launch 100000 /disk/data
echo "F|$$|launchingActivity#1|1" >$marker
echo "I|$$|launchingActivity#1:completed-cold:{PACKAGE}" >$marker
# The file leaves memory, and is then read by a cgroup that has less memory than the file needs.
echo 3 >/proc/sys/vm/drop_caches
sh -c '
    echo $$ >/sys/fs/cgroup/small/cgroup.procs
    cat /disk/data >/dev/null
    filler launch 20000 /disk/data
'
for name in {NAMES}; do
    NAME="$name" sh -c '
        echo -n "$NAME" >/proc/$$/comm
        read line <"/disk/$NAME"
        sleep 0.02
        true
    '
done
"/tmp/a pid=1 b"
kill -9 $held
wait $held
# More than memory and swap: the kernel's OOM killer ends it.
filler hold 400000 1000 1 >/tmp/out
echo "C|7|status|$?" >$marker
true
"""
SCRIPT = f"""
mount -t tracefs none /sys/kernel/tracing
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo 12M >/sys/fs/cgroup/small/memory.max
mkswap /dev/vdc >/dev/null
swapon /dev/vdc
echo 1 >/proc/sys/vm/overcommit_memory
filler make /disk/data 100000
for name in {NAMES}; do
    echo line >"/disk/$name"
done
ln -s /bin/busybox "/tmp/a pid=1 b"
ln -s /bin/filler /tmp/pagewise.filler
echo -1000 >/proc/$$/oom_score_adj
options="-C boot -e {" -e ".join(EVENTS)}"
for compaction in begin end; do
    options="$options -e compaction:mm_compaction_$compaction"
done

sync
echo 3 >/proc/sys/vm/drop_caches
trace-cmd record -b 8192 $options -o /disk/trace.dat sh /work || exit 1
cp /disk/trace.dat /result/trace.dat

sync
echo 3 >/proc/sys/vm/drop_caches
# All events stay in the buffers until their text is made.
trace-cmd start -b 16384 $options || exit 1
sh /work
trace-cmd stop || exit 1
gzip -c /sys/kernel/tracing/trace >/disk/trace.gz
trace-cmd extract -o /disk/kernel.dat || exit 1
mv /disk/trace.gz /disk/kernel.dat /result/
"""


def recorded(kernel: str, folder: Path) -> Path:
    """The folder with both recordings, and the texts of the first one."""
    trace_cmd = shutil.which("trace-cmd")
    if trace_cmd is None:
        raise SkipTest("trace-cmd missing: apt-get install -y trace-cmd")
    machine = guest.Machine(suite=KERNELS[kernel], memory_mib=208, swap_mib=96)
    guest.need_agent(machine)
    source = Path(__file__).with_name("filler.c")
    filler = guest.compiled(folder / "filler", source, "-static", "-pthread")
    files = {**guest.with_libraries(Path(trace_cmd)), "bin/filler": filler, "work": WORK}
    answer = guest.boot(machine, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output
    for name, options in TEXTS.items():
        report = run(trace_cmd, "report", "-t", *options, answer.results / "trace.dat")
        (answer.results / f"{name}.txt").write_text(report)
    return answer.results


@pytest.fixture(scope="module", params=KERNELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(request.param, tmp_path_factory.mktemp("guest"))


def run(*words: str | Path, **variables: str) -> str:
    """The standard output of a command, which must succeed."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def answered(command: str, trace: Path, *options: str) -> dict[str, Any]:
    pagewise = guest.AGENT.with_name("pagewise")
    answer: dict[str, Any] = json.loads(run(pagewise, command, trace, "--json", *options))
    return answer


def counted(trace: Path) -> dict[str, Any]:
    """What `pagewise info` counts, read as a system trace."""
    header = answered("info", trace, "--as", "swap")["header"]
    system = header["system"]
    return {
        "events": dict(header["seen"]),
        "facts": system["facts"],
        "losses": header["losses"],
        "rejects": header["rejects"],
        "clock_problems": system["clock_problems"],
        "disordered": header["disordered"],
    }


def check_counts(counts: dict[str, Any]) -> None:
    """No count may be equal only because nothing happened."""
    seen = {event.partition(":")[2] for event in EVENTS} | {"print"}
    assert not seen - counts["events"].keys()
    few = {name: counts["facts"].get(name, 0) for name in FACTS}
    assert not {name: count for name, count in few.items() if count < FACTS[name]}
    assert counts["rejects"] == [] and counts["clock_problems"] == {}


def rows(trace: Path, kind: str, output: Path) -> polars.DataFrame:
    """The rows of the imported trace, with the pid of each."""
    words = (guest.AGENT.with_name("pagewise"), "import", trace, "--as", kind, "-o", output)
    run(*words, "--force")
    header = answered("info", output)["header"]
    pids = [process["pid"] for process in header["processes"]]
    assert header["start_ns"] > 0
    # The text names threads that the events of the file do not name, and so numbers processes
    # otherwise.
    numbers = polars.DataFrame(
        {"process": range(len(pids)), "pid": pids},
        schema={"process": polars.UInt32, "pid": polars.UInt32},
    )
    imported = polars.read_parquet(output).with_columns(
        time_ns=polars.col("time_ns") + header["start_ns"]
    )
    return imported.join(numbers, on="process", how="left", maintain_order="left").drop("process")


@pytest.mark.parametrize("text", TEXTS)
def test_both_readers_count_the_same(folder: Path, text: str) -> None:
    of_file, of_text = counted(folder / "trace.dat"), counted(folder / f"{text}.txt")
    check_counts(of_file)
    assert of_text == of_file
    print(f"{text}: {sum(of_file['events'].values())} events, {of_file['facts']}")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("command", ["launches", "kills", "pressure"])
def test_both_readers_give_the_same_answers(folder: Path, command: str, text: str) -> None:
    of_file, of_text = (answered(command, folder / name) for name in ("trace.dat", f"{text}.txt"))
    for answer in (of_file, of_text):
        del answer["trace"]
    match command:
        case "launches":
            assert [launch["process"] for launch in of_file["launches"]] == [PACKAGE]
            assert of_file["launches"][0]["parts"]["direct_reclaim_s"] > 0
        case "kills":
            kills = [(kill["adj"], "mark_victim" in kill["sources"]) for kill in of_file["kills"]]
            assert kills == [(500, False), (1000, True)]
        case _:
            kinds = {interval["kind"] for interval in of_file["intervals"]}
            assert {"direct-reclaim", "kswapd", "refaults"} <= kinds
    assert of_text == of_file


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["block", "swap"])
def test_both_readers_import_the_same_rows(
    folder: Path, kind: str, text: str, tmp_path: Path
) -> None:
    if (kind, text) == ("block", "numbers"):
        pytest.skip("block requests are imported only from the text of the kernel's formats")
    of_file = rows(folder / "trace.dat", kind, tmp_path / "file.parquet")
    of_text = rows(folder / f"{text}.txt", kind, tmp_path / "text.parquet")
    assert len(of_file) > FACTS["page_added"]
    assert of_text.equals(of_file)
    print(f"{text} as {kind}: {len(of_file)} rows")


def test_every_event_is_the_same(folder: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo missing: tools/prerequisites.sh")
    test = "text_of_trace_cmd_gives_the_events_of_its_file"
    words = ("cargo", "test", "--release", "--offline", "-p", "trace", "--test", "system_text")
    printed = run(*words, "--", "--exact", test, PAGEWISE_TRACE_DAT=str(folder / "trace.dat"))
    assert "1 passed" in printed


def test_the_text_of_the_kernel_has_the_same_events(folder: Path, tmp_path: Path) -> None:
    file, text = folder / "kernel.dat", folder / "trace.gz"
    of_file, of_text = counted(file), counted(text)
    check_counts(of_file)
    # The kernel prints a marker under its former name.
    of_text["events"]["print"] = of_text["events"].pop("tracing_mark_write")
    assert of_text == of_file
    for kind in ("block", "swap"):
        first, second = (
            rows(trace, kind, tmp_path / f"{trace.name}.parquet") for trace in (file, text)
        )
        assert len(first) == len(second) > FACTS["page_added"]
        # The text has microseconds.
        apart_ns = (first["time_ns"] - second["time_ns"]).abs()
        assert (apart_ns <= 1000).all()
        assert first.drop("time_ns").equals(second.drop("time_ns"))
        print(f"text of the kernel as {kind}: {len(first)} rows")
