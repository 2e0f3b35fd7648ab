"""Cost of the recorder to the machine that it records, and the events it misses.

Run it as root, on a quiet machine with memory cgroups of version 1 and zram, after `make build`:

    python bench/recorder.py -o docs/bench-recorder.md

Resident programs do fixed work in swap, first without the recorder, then twice as much with it,
then without it again, so that a steady drift cancels; the CPU time of their cgroup includes reclaim
and the recorder's programs in the kernel. The recorder reports its own CPU time and runs on another
processor. A figure is the median over many such blocks, with a 95 % interval by bootstrap: the
blocks are short, so that their number offsets the noise of each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import polars
from resident import Residents, groups, residents, zram_area
from touches import TOUCH, counters, swap_file, without_readahead

from pagewise.bootstrap import interval

AGENT = Path(sys.executable).parent / "pagewise-agent"
FOLDER = Path(__file__).parent
LAB = FOLDER.parent / "lab"
PHONE = FOLDER.parent / "examples" / "phone-1g"
PAGE_BYTES = 4096
MIB = 1 << 20
RECORDER_PROCESSOR = 1

# Three applications of the launch lab, each visit of which uses other data, and the share of
# their memory that is left to them: that of lab/plans/phone-1g.toml, 650 MiB of the 2,162 MiB
# that its applications used without a limit (examples/no-limit).
APPLICATIONS = (
    ["node", f"{LAB}/node/notes.js"],
    ["/usr/bin/python3", f"{LAB}/python/library.py"],
    ["/usr/bin/python3", f"{LAB}/python/code_browser.py"],
)
APPLICATIONS_SHARE = 650 / 2162
ROOM_MIB = 2048
WARM_UP = 4


@dataclass(frozen=True)
class RequestCost:
    """CPU seconds of one request without the recorder and with it, and the recorder's report."""

    off_s: float
    on_s: float
    recorder_s: float
    events: float
    report: dict[str, Any]

    @property
    def added_us(self) -> float:
        """CPU microseconds per event that the recorder adds to the workload."""
        return 1e6 * (self.on_s - self.off_s) / self.events

    @property
    def own_us(self) -> float:
        """The recorder's own CPU microseconds per event."""
        return 1e6 * self.recorder_s / self.events

    @property
    def ratio(self) -> float:
        """CPU time with the recorder, its own included, over that without."""
        return (self.on_s + self.recorder_s) / self.off_s


class Recorder:
    """A recorder that runs until `end`."""

    def __init__(self, output: Path) -> None:
        self.output = output
        words = ["taskset", "-c", str(RECORDER_PROCESSOR), AGENT, "record"]
        self.process = subprocess.Popen(
            [*words, "--json", "-o", output], stdout=subprocess.PIPE, text=True
        )
        while not (output.exists() and output.stat().st_size > 0):
            if self.process.poll() is not None:
                raise RuntimeError(f"the recorder ended with status {self.process.returncode}")
            time.sleep(0.01)

    def end(self) -> dict[str, Any]:
        """Ends the recorder and returns its report."""
        self.process.send_signal(signal.SIGINT)
        answer, _ = self.process.communicate()
        self.output.unlink()
        report: dict[str, Any] = json.loads(answer)
        return report


def block(programs: Residents, requests: int, folder: Path) -> RequestCost:
    """Without, with, with, without; after each change the first answers are not counted."""
    off_s = programs.ask(requests)
    recorder = Recorder(folder / "block.pgr")
    try:
        programs.ask(requests)
        on_s = programs.ask(requests) + programs.ask(requests)
    finally:
        report = recorder.end()
    programs.ask(requests)
    off_s += programs.ask(requests)
    recorded = 3 * requests
    return RequestCost(
        off_s / (2 * requests),
        on_s / (2 * requests),
        report["cpu_s"] / recorded,
        report["records"] / recorded,
        report,
    )


def storms(count: int, folder: Path) -> list[RequestCost]:
    """`count` blocks of a program that only swaps."""
    storm = folder / "storm"
    subprocess.run(["cc", "-O2", "-o", storm, FOLDER / "storm.c"], check=True)
    with residents([[str(storm), "64", "8192"]], 32) as programs:
        programs.ask(4)
        return [block(programs, 4, folder) for _ in range(count)]


def visits(count: int, folder: Path) -> list[RequestCost]:
    """`count` blocks of applications, which are started only if `count` is not 0."""
    if count == 0:
        return []
    with residents(APPLICATIONS, ROOM_MIB) as programs:
        programs.ask(WARM_UP)
        programs.leave(APPLICATIONS_SHARE)
        programs.ask(WARM_UP)
        return [block(programs, 1, folder) for _ in range(count)]


def totals_and_owners(folder: Path) -> list[tuple[str, str, str]]:
    """Compares a recording of random touches without readahead with the kernel's counters."""
    recording = folder / "owners.pgr"
    touch = [sys.executable, "-c", TOUCH.format(mib=96, touches=20_000)]
    before = counters()
    with swap_file(folder, 512), without_readahead(), groups(64) as (name, entries):
        inside = ["sh", "-c", f'{entries}exec "$@"', "sh", *touch]
        subprocess.run(
            [AGENT, "record", "--cgroup", name, "-o", recording, "--", *inside], check=True
        )
        after = counters()
    info = json.loads(
        subprocess.check_output([AGENT.parent / "pagewise", "info", recording, "--json"])
    )
    reads, others = info["events"]["swap_read"], dict(info["kinds"]).get("device_read", 0)
    share = f"{100 * (1 - others / reads):.2f} % of {reads:,}"
    rows = [("swap reads recorded with the process and page that faulted", ">= 99.5 %", share)]
    for event, counter in (("swap_write", "pswpout"), ("swap_read", "pswpin")):
        seen, moved = info["events"][event], after[counter] - before[counter]
        agreement = f"{seen:,} of {moved:,}, {100 * (seen / moved - 1):+.2f} %"
        rows.append(
            (f"{event} events recorded, of {counter} in the kernel", "within 1 %", agreement)
        )
    return rows


def costs(storm_count: int, visit_count: int, folder: Path) -> list[tuple[str, str, str]]:
    """The cost of an event, and of applications that swap if there are any blocks of them."""
    with zram_area(2048):
        stormed = storms(storm_count, folder)
        visited = visits(visit_count, folder)
    every = [block.report for block in (*stormed, *visited)]
    lost, recorded = (sum(report[name] for report in every) for name in ("lost", "records"))
    rate = median(60 * block.report["records"] / block.report["duration_s"] for block in stormed)
    peak = max(report["peak_bytes"] for report in every)
    event_us = median(block.own_us + block.added_us for block in stormed)
    return [
        (
            "CPU time per event in a swap storm, us: recorder and workload",
            "<= 0.3",
            spread([block.own_us + block.added_us for block in stormed], "both"),
        ),
        ("- the recorder process", "", spread([block.own_us for block in stormed], "own")),
        (
            "- added to the workload",
            "",
            spread([block.added_us for block in stormed], "added"),
        ),
        *applications(visited),
        launches(event_us),
        (f"events lost at {rate:,.0f} events per minute", "0", f"{lost} of {recorded:,}"),
        ("peak memory of the recorder, MiB", "<= 30", f"{peak / MIB:.1f}"),
    ]


def applications(visited: Sequence[RequestCost]) -> Iterator[tuple[str, str, str]]:
    """The additional CPU time of applications with the recorder; empty without blocks."""
    if visited:
        worked = median(block.events / block.on_s for block in visited)
        yield (
            f"three applications, {worked:,.0f} events per CPU second: CPU time with / without",
            "<= 1.02",
            spread([block.ratio for block in visited], "applications"),
        )


def launches(event_us: float) -> tuple[str, str, str]:
    """The additional CPU time of a plan's launches, computed: it is too small to measure.

    Each page that goes out or comes back is two events, the page's and its transfer's.
    """
    moved = polars.read_parquet(
        PHONE / "visits.parquet", columns=["swap_in_bytes", "swap_out_bytes"]
    )
    duration_s = tomllib.loads((PHONE / "run.toml").read_text())["run"]["duration_s"]
    rate = 2 * sum(moved.sum().row(0)) / PAGE_BYTES / duration_s
    return (
        f"launches of examples/phone-1g, {rate:,.0f} events per second: share of one processor, "
        "computed from the CPU time per event",
        "<= 2 %",
        f"{100 * rate * event_us / 1e6:.2f} %",
    )


def spread(values: Sequence[float], name: str) -> str:
    """The median, with its 95 % interval."""
    low, high = interval(values, 0.5, 1, name)
    return f"{median(values):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40, help="blocks of the swap storm, 2 s each")
    parser.add_argument(
        "--applications", type=int, default=60, help="blocks of applications, 3 s each; or 0"
    )
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    # Remove swap areas and cgroups after SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        sys.exit("another swap area is in use, and the kernel counts for the whole machine")
    counts = (arguments.blocks, arguments.applications)
    with tempfile.TemporaryDirectory() as name:
        rows = [*totals_and_owners(Path(name)), *costs(*counts, Path(name))]
    uname = platform.uname()
    lines = [
        "# What the recorder costs",
        "",
        "This page measures `pagewise-agent record`: how much CPU time and memory it takes, and",
        "whether it misses events. [recording.md](recording.md) describes the recorder.",
        "",
        "Command, as root on a quiet machine:",
        "",
        f"    python bench/recorder.py --blocks {counts[0]} --applications {counts[1]} "
        "-o docs/bench-recorder.md",
        "",
        f"{datetime.now(UTC).date()}, Linux {uname.release}, {uname.machine}, "
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}.",
        "",
        "A program does fixed work that swaps to zram, which is the *swap storm* below. One block",
        "runs the work without the recorder, twice with it, and without it again. CPU times are",
        "medians over the blocks; brackets hold their 95 % interval. Where the target lies inside",
        "the brackets, this run does not decide whether it is reached. The CPU time added to the",
        "workload includes the recorder's BPF programs in the kernel. The three applications are",
        "`notes.js`, `library.py` and `code_browser.py` of the folder `lab`.",
        "",
        "| what | target | measured |",
        "|---|---|---|",
        *(f"| {what} | {target} | {measured} |" for what, target, measured in rows),
    ]
    text = "\n".join(lines) + "\n"
    if arguments.output:
        arguments.output.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
