#!/usr/bin/env python3
"""How quickly an agent starts, and the memory that it takes while it records and nothing happens.

    sudo .venv/bin/python bench/agent_small.py [AGENT] [--runs 200]

AGENT is by default the static agent for this machine in dist (make dist-agents). The memory is
that of the process (VmRSS) and what the kernel allocates for its BPF maps.
"""

import argparse
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_MS = 10.0
IDLE_MB = 3.0
STARTED_WITHIN_S = 20
BUFFERS = ("8MiB", "1MiB")
"""The default size of the buffer between kernel and recorder, and a small one."""


def main() -> None:
    """Prints a line for each figure, with its target."""
    parser = argparse.ArgumentParser(description="Measure the start and the idle memory.")
    parser.add_argument("agent", nargs="?", type=Path, metavar="AGENT")
    parser.add_argument("--runs", type=int, default=200, metavar="N")
    arguments = parser.parse_args()
    agent = arguments.agent or ROOT / f"dist/pagewise-agent-{platform.machine()}"
    if not agent.is_file():
        sys.exit(f"{agent}: no such file; make dist-agents leaves one")
    times = sorted(1e3 * started_s(agent) for _ in range(arguments.runs))
    print(
        f"start (--version): {statistics.median(times):.2f} ms "
        f"({times[0]:.2f} to {times[-1]:.2f}), target {START_MS:.0f}"
    )
    if os.geteuid() != 0:
        sys.exit("measuring the memory of a recorder needs root")
    threads = Path("/proc/sys/kernel/pid_max").read_text().strip()
    print(f"{agent}, {os.cpu_count()} processors, pid_max {threads}")
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        for size in BUFFERS:
            print(f"idle, --buffer {size}: {idle(agent, size, Path(folder))}")


def started_s(agent: Path) -> float:
    """Wall time of `--version`."""
    before = time.perf_counter()
    subprocess.run([agent, "--version"], stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - before


def idle(agent: Path, buffer: str, folder: Path) -> str:
    """The memory of a recorder whose sources are silent, in words."""
    output = folder / f"{buffer}.pgr"
    recorder = subprocess.Popen(
        [agent, "record", "--swap", "--launches", "--buffer", buffer, "-o", output],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await_start(recorder, output)
        time.sleep(2)
        process = Path("/proc") / str(recorder.pid)
        status = (process / "status").read_text()
        rows = {row[1]: int(row[2]) for row in re.finditer(r"(\w+):\s+(\d+) kB", status)}
        maps = sum(map_bytes(file.read_text()) for file in (process / "fdinfo").iterdir())
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(timeout=60)
    return (
        f"{mb(1024 * rows['VmRSS'])} MB, target {IDLE_MB:.0f}, of which "
        f"{mb(1024 * rows['RssAnon'])} its own; BPF maps in the kernel {mb(maps)} MB"
    )


def await_start(recorder: subprocess.Popen[bytes], output: Path) -> None:
    """Waits until the recording has a header, which is written when all sources are on."""
    timer = time.monotonic() + STARTED_WITHIN_S
    while not output.exists() or output.stat().st_size == 0:
        if recorder.poll() is not None or time.monotonic() > timer:
            sys.exit("the recorder did not start")
        time.sleep(0.1)


def map_bytes(information: str) -> int:
    """Bytes that the kernel allocates for a BPF map, by the text of its descriptor."""
    found = re.search(r"^map_type:(?:.|\n)*^memlock:\s+(\d+)", information, re.MULTILINE)
    return int(found[1]) if found else 0


def mb(count: int) -> str:
    """Bytes in MB."""
    return f"{count / 1e6:.1f}"


if __name__ == "__main__":
    main()
