"""What the recorder costs the machine that it records, and how much it misses.

Run it as root, on a quiet machine with memory cgroups of version 1, after `make build lab-setup`:

    python bench/recorder.py --rounds 5 -o docs/bench-recorder.md

Each figure is a ratio or a difference of runs with the recorder on and off, in turn. A workload
runs in a memory cgroup of its own and tells its CPU time, with that of the kernel on its behalf,
which includes its reclaim; the recorder tells its own, from the first record to the last. The
applications are those of bench/recorder.toml in the launch lab, under pressure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

AGENT = Path(sys.executable).parent / "pagewise-agent"
MEMORY = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20

# Touches pages of a region at random, three of eight times with a write: every access that misses
# is an event or four.
STORM = """
import mmap, random, sys
random.seed(42)
pages = {mib} * 256
region = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(pages):
    region[page * 4096] = 1
for _ in range({touches}):
    page = random.randrange(pages)
    if random.random() < 0.375:
        region[page * 4096 + 1] = 1
    else:
        region[page * 4096]
"""

PLAN = Path(__file__).with_name("recorder.toml")


@dataclass(frozen=True)
class Run:
    """One run of a workload: CPU seconds, and what the recorder says where it was on."""

    cpu_s: float
    recorder_cpu_s: float = 0.0
    recorder_peak_bytes: int = 0
    events: int = 0
    lost: int = 0
    wall_s: float = 0.0


@contextmanager
def swap_file(folder: Path, mib: int) -> Iterator[None]:
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, mib * MIB)
    path.chmod(0o600)
    subprocess.run(["mkswap", "-q", path], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["swapon", "-p", "32000", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


@contextmanager
def group(mib: int) -> Iterator[str]:
    """A memory cgroup with a budget."""
    name = f"pagewise-bench-{os.getpid()}"
    folder = MEMORY / name
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(mib * MIB))
        yield name
    finally:
        folder.rmdir()


def run(program: str, mib: int, recording: Path | None, extra: tuple[str, ...] = ()) -> Run:
    """Runs a Python program in a budget of ``mib``, recorded or not."""
    with group(mib) as name:
        inside = f'echo $$ > {MEMORY / name}/cgroup.procs; exec "$@"'
        times = "import resource,sys; r=resource.getrusage(resource.RUSAGE_SELF); "
        times += "print(r.ru_utime + r.ru_stime, file=sys.stderr)"
        command = ["sh", "-c", inside, "sh", sys.executable, "-c", f"{program}\n{times}"]
        if recording is not None:
            wanted = ["--cgroup", name, "--json", *extra, "-o", str(recording)]
            command = [str(AGENT), "record", *wanted, "--", *command]
        finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(f"status {finished.returncode}: {finished.stderr}")
    cpu_s = float(finished.stderr.split()[-1])
    if recording is None:
        return Run(cpu_s)
    told = json.loads(finished.stdout)
    return Run(
        cpu_s,
        told["cpu_s"],
        told["peak_bytes"],
        told["records"],
        told["lost"],
        told["duration_s"],
    )


@dataclass(frozen=True)
class Applications:
    """The CPU seconds of a launch run, agent included, and what it recorded."""

    cpu_s: float
    events: int
    lost: int
    duration_s: float


def launch(folder: Path, is_recorded: bool) -> Applications:
    """Runs the plan, whose applications and agent are all waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(AGENT), "launch", str(PLAN), "--json", "-o", str(folder)]
    finished = subprocess.run(
        [*command, "--record"] if is_recorded else command, capture_output=True, text=True
    )
    if finished.returncode != 0:
        raise RuntimeError(f"status {finished.returncode}: {finished.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = json.loads(finished.stdout)
    if told["answered"] != told["visits"]:
        raise RuntimeError(f"{told['answered']} of {told['visits']} visits answered")
    recording = told.get("recording") or {}
    return Applications(
        cpu_s, recording.get("recorded", 0), recording.get("lost", 0), told["duration_s"]
    )


def launches(rounds: int, folder: Path) -> list[tuple[Applications, Applications]]:
    """(off, on) in turn; which comes first alternates."""
    found = []
    for number in range(rounds):
        order = (True, False) if number % 2 else (False, True)
        runs = {on: launch(folder / f"launch-{number}-{on}", on) for on in order}
        found.append((runs[False], runs[True]))
    return found


def counters() -> dict[str, int]:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def spread(values: list[float]) -> str:
    low, _, high = quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return f"{median(values):.3f} ({low:.3f} to {high:.3f})"


def pairs(program: str, mib: int, rounds: int, folder: Path) -> list[tuple[Run, Run]]:
    """(off, on) in turn; which comes first alternates."""
    found = []
    for number in range(rounds):
        recording = folder / f"{number}.pgr"
        if number % 2:
            on = run(program, mib, recording)
            off = run(program, mib, None)
        else:
            off = run(program, mib, None)
            on = run(program, mib, recording)
        recording.unlink()
        found.append((off, on))
    return found


def totals_and_owners(folder: Path) -> list[tuple[str, str, str]]:
    """A recording of random touches without readahead beside the kernel's counters."""
    cluster = Path("/proc/sys/vm/page-cluster")
    before_cluster = cluster.read_text()
    cluster.write_text("0")
    try:
        before = counters()
        recording = folder / "owners.pgr"
        run(STORM.format(mib=96, touches=20_000), 64, recording)
        after = counters()
    finally:
        cluster.write_text(before_cluster)
    command = [AGENT.parent / "pagewise", "info", recording, "--json"]
    info = json.loads(subprocess.check_output(command))
    reads, others = info["events"]["swap_read"], dict(info["kinds"]).get("device_read", 0)
    rows = [
        (
            "in-fault reads of the page that their process owns",
            ">= 99.5 %",
            f"{100 * (1 - others / reads):.2f} % of {reads:,}",
        )
    ]
    if len(Path("/proc/swaps").read_text().splitlines()) > 2:
        return [*rows, ("totals beside the kernel's", "within 1 %", "others swapped: not measured")]
    for event, counter in (("swap_write", "pswpout"), ("swap_read", "pswpin")):
        moved = after[counter] - before[counter]
        rows.append(
            (
                f"{event} beside {counter}",
                "within 1 %",
                f"{info['events'][event]:,} of {moved:,}, "
                f"{100 * (info['events'][event] / moved - 1):+.2f} %",
            )
        )
    return rows


def measure(rounds: int) -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as name, swap_file(Path(name), 512):
        folder = Path(name)
        rows = totals_and_owners(folder)
        storm = pairs(STORM.format(mib=96, touches=40_000), 64, rounds, folder)
        own = [1e6 * on.recorder_cpu_s / on.events for _, on in storm]
        added = [1e6 * (on.cpu_s - off.cpu_s) / on.events for off, on in storm]
        both = [left + right for left, right in zip(own, added, strict=True)]
        applications = launches(rounds, folder)
        ratios = [on.cpu_s / off.cpu_s for off, on in applications]
    every = [on for _, on in (*storm, *applications)]
    rate = median(60 * on.events / on.wall_s for _, on in storm)
    lost = sum(on.lost for on in every)
    peak = max(on.recorder_peak_bytes for _, on in storm)
    worked = median(on.events / on.duration_s for _, on in applications)
    return [
        *rows,
        ("per event in a swap storm, us of CPU: recorder and workload", "<= 0.3", spread(both)),
        ("- of which the recorder itself", "", spread(own)),
        ("- of which the workload has more than without", "", spread(added)),
        (
            f"six applications with {worked:,.0f} events a second: CPU on / off",
            "<= 1.02",
            spread(ratios),
        ),
        (
            f"events lost at {rate:,.0f} a minute",
            "0",
            f"{lost} of {sum(r.events for r in every):,}",
        ),
        ("peak memory of the recorder, MiB", "<= 30", f"{peak / MIB:.1f}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    # Swap areas and cgroups go when it is told to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    rows = measure(arguments.rounds)
    uname = platform.uname()
    lines = [
        "# What the recorder costs",
        "",
        f"`python bench/recorder.py --rounds {arguments.rounds}` on Linux {uname.release}, "
        f"{uname.machine}, {os.cpu_count()} processors,",
        f"load average {os.getloadavg()[0]:.1f}. CPU time; median and quartiles of runs with the "
        "recorder on and off in turn.",
        "",
        "| what | to reach | measured |",
        "|---|---|---|",
        *(f"| {what} | {target} | {measured} |" for what, target, measured in rows),
    ]
    text = "\n".join(lines) + "\n"
    if arguments.output:
        arguments.output.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
