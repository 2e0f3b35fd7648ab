"""A real launch, recorded by the kernel and written as a Perfetto trace, beside the kernel's times.

Root: it makes an instance of tracefs, and removes it.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_traces import losses, perfetto, skip_if_switches_are_missing, taken_s, tracing

import pagewise

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


@pytest.fixture
def instance() -> Iterator[Path]:
    """An instance of tracefs with the events of a launch."""
    with tracing(EVENTS, buffer_kib=32 << 10) as folder:
        yield folder


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
    assert not losses(instance)
    text = (instance / "trace").read_text()
    skip_if_switches_are_missing(text)
    trace = tmp_path / "trace"
    trace.write_bytes(perfetto(text))
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
