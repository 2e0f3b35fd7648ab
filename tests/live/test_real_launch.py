"""A real launch, recorded by the kernel and written as a Perfetto trace, beside the kernel's times.

Root: it makes an instance of tracefs, and removes it.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from perfetto_traces import Writer

import pagewise

TRACING = Path("/sys/kernel/tracing")
EVENTS = (
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_process_exit",
    "task/task_newtask",
    "task/task_rename",
    "filemap/mm_filemap_add_to_page_cache",
)
FILE_BYTES = 32 << 20
APP = """
import hashlib, os, sys, threading
data = open(sys.argv[1], "rb").read()
barrier, stay = threading.Barrier(3), threading.Event()
def work():
    for _ in range(6):
        hashlib.sha256(data).digest()
    barrier.wait()
    stay.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
barrier.wait()
total = [0, 0]
for task in os.listdir("/proc/self/task"):
    ran, waited, _ = open(f"/proc/self/task/{task}/schedstat").read().split()
    total[0] += int(ran)
    total[1] += int(waited)
print(*total, flush=True)
sys.stdin.readline()
"""
LINE = re.compile(r"^\s*(.{1,16})-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+)\.(\d+): (\w+): (.*)$")
STATES = {"R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 1026}


@pytest.fixture
def instance() -> Iterator[Path]:
    """An instance of tracefs with the events of a launch."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not (TRACING / "instances").is_dir():
        pytest.skip("the kernel has no tracefs")
    folder = TRACING / f"instances/phone-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "trace_clock").write_text("boot")
        (folder / "buffer_size_kb").write_text("32768")
        for event in EVENTS:
            (folder / "events" / event / "enable").write_text("1")
        yield folder
    finally:
        (folder / "tracing_on").write_text("0")
        folder.rmdir()


def fields_of(text: str) -> dict[str, str]:
    """The fields of an event's text: values may have spaces, names have none."""
    parts = re.split(r"(?:^| )(\w+)=", text.replace(" ==>", ""))
    return {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}


def perfetto(text: str) -> bytes:
    """The text of tracefs as a Perfetto trace."""
    writer = Writer()
    bundles = {}
    for line in text.splitlines():
        if not (found := LINE.match(line)):
            continue
        _, tid, cpu, seconds, fraction, name, rest = found.groups()
        if int(cpu) not in bundles:
            bundles[int(cpu)] = writer.bundle(int(cpu))
        time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        event = bundles[int(cpu)].event.add(timestamp=time_ns, pid=int(tid))
        if name == "tracing_mark_write":
            event.print.buf = rest
            continue
        given = fields_of(rest)
        if name == "sched_switch":
            message = event.sched_switch
            message.prev_pid, message.next_pid = int(given["prev_pid"]), int(given["next_pid"])
            message.prev_comm, message.next_comm = given["prev_comm"], given["next_comm"]
            message.prev_state = STATES.get(given["prev_state"][0], 0)
        elif name == "sched_waking":
            event.sched_waking.pid = int(given["pid"])
            event.sched_waking.comm = given["comm"]
        elif name == "sched_process_exit":
            event.sched_process_exit.pid = int(given["pid"])
        elif name == "task_newtask":
            event.task_newtask.pid = int(given["pid"])
            event.task_newtask.comm = given["comm"]
            event.task_newtask.clone_flags = int(given["clone_flags"], 16)
        elif name == "task_rename":
            event.task_rename.pid = int(tid)
            event.task_rename.newcomm = given["newcomm"]
        elif name == "mm_filemap_add_to_page_cache":
            page = re.search(r"dev (\d+):(\d+) ino (\w+) .*ofs=(\d+)(?: order=(\d+))?", rest)
            assert page, rest
            # The bindings have no order: a large folio is an event for each page.
            for number in range(1 << int(page[5] or 0)):
                each = event if number == 0 else bundles[int(cpu)].event.add()
                each.timestamp, each.pid = time_ns, int(tid)
                message = each.mm_filemap_add_to_page_cache
                message.s_dev = int(page[1]) << 8 | int(page[2])
                message.i_ino, message.index = int(page[3], 16), int(page[4]) // 4096 + number
    return writer.bytes()


def taken_s() -> float:
    """Seconds of all CPUs that interrupts and the host took so far, in ticks of 10 ms. The
    scheduler's statistics leave them out, and the events of the trace do not."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return sum(map(int, fields[6:9])) / os.sysconf("SC_CLK_TCK")


def test_a_real_launch_has_the_times_that_the_kernel_counts(instance: Path, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(hashlib.sha256(b"seed").digest() * (FILE_BYTES // 32))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    program = tmp_path / "example.app"
    program.symlink_to(Path(sys.executable).resolve())
    taken_before_s = taken_s()
    with (instance / "trace_marker").open("w", buffering=1) as marker:
        marker.write("S|1|launchingActivity#1|1\n")
        command = [str(program), "-c", APP, str(file)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as app:
            assert app.stdout
            ran_ns, waited_ns = map(int, app.stdout.readline().split())
            marker.write("F|1|launchingActivity#1|1\n")
            marker.write("I|1|launchingActivity#1:completed-cold:example.app\n")
            app.communicate("\n", timeout=60)
    (instance / "tracing_on").write_text("0")
    taken = taken_s() - taken_before_s + 0.01
    lost = [
        line
        for stats in instance.glob("per_cpu/cpu*/stats")
        for line in stats.read_text().splitlines()
        if line.startswith(("overrun", "dropped events")) and not line.endswith(" 0")
    ]
    assert not lost
    trace = tmp_path / "trace"
    trace.write_bytes(perfetto((instance / "trace").read_text()))
    (launch,) = pagewise.launches(trace)["launches"]
    assert (launch["process"], launch["pid"], launch["class"]) == ("example.app", app.pid, "cold")
    main, others = launch["main_thread"], launch["other_threads"]
    assert main is not None
    assert others is not None
    ran_s = main["running_s"] + others["running_s"]
    ready_s = (ran_ns + waited_ns) / 1e9
    assert ran_ns / 1e9 * 0.95 <= ran_s <= ran_ns / 1e9 * 1.05 + taken
    assert ready_s * 0.95 <= launch["parts"]["cpu_s"] <= ready_s * 1.05 + taken
    inode = file.stat().st_ino
    read = {each["inode"]: each["bytes"] for each in launch["files"]}
    assert read.get(inode, 0) <= FILE_BYTES * 1.05
    print(f"ran {ran_s:.4f} of {ran_ns / 1e9:.4f} s, waited {waited_ns / 1e9:.4f} s, read {read}")
    assert read[inode] == pytest.approx(FILE_BYTES, rel=0.05)
