"""Kills recorders and records storms of events; compares the files with the kernel's counters.

    python bench/recorder_kills.py [--kills N] [--storm SECONDS] [--seed N] [--modes NAME,...]

kills recorders of each mode at random times while programs work, reads the file of each, and checks
that nothing of it remains in the kernel; then records storms of all sources. Prints a table.
Needs root, cc, memory cgroups of version 1 and, for text events, tracefs in a private mount
namespace. Adds a swap file while it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recorder_work import (
    ALLOCATOR,
    HANGS_AFTER_S,
    Work,
    is_loaded,
    programs_of,
    reading,
    shared,
    spawning,
    stop,
    swapping,
)
from touches import swap_file

BIN = Path(sys.executable).parent
AGENT = BIN / "pagewise-agent"
SWAP_MIB = 256
# A recorder writes pending events every second; under load this takes longer.
WRITTEN_S = 3.0
# Events that a file may contain before the work has counted them.
AHEAD = 8
ALLOCATIONS = 20_000
WITH_TRACEFS = (
    "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 99;"
    'exec "$@"'
)
INSTANCES = "/sys/kernel/tracing/instances"


@dataclass
class Killed:
    """What the killed recorders of a mode left."""

    mode: str
    recorders: int = 0
    without_file: int = 0
    unreadable: int = 0
    torn_bytes: int = 0
    recorded: int = 0
    least: int = 0
    most: int = 0
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def add(self, events: dict[str, int], least: dict[str, int], most: dict[str, int]) -> None:
        """Compares the events of a file with the fewest and the most that it may have."""
        for name, most_count in most.items():
            count = events.get(name, 0)
            self.recorded += count
            self.least += least[name]
            self.most += most_count
            if not least[name] <= count <= most_count:
                self.wrong.append(f"{name}: {count} is not from {least[name]} to {most_count}")


MODES: dict[str, tuple[list[str], Callable[[Path], Any]]] = {
    "record": ([], swapping),
    "record --kills": (["--kills", "--launches"], spawning),
    "record of all but kills": (
        ["--swap", "--faults", "--files", "--block", "--launches", "--buffer", "64MiB"],
        swapping,
    ),
    "record --backend tracefs": (["--swap", "--backend", "tracefs", "--buffer", "64MiB"], swapping),
}


def killed(mode: str, count: int, draw: random.Random, folder: Path) -> Killed:
    """Kills `count` recorders of a mode."""
    options, working = MODES[mode]
    found = Killed(mode)
    with contextlib.ExitStack() as stack:
        if working is swapping:
            stack.enter_context(swap_file(folder, SWAP_MIB))
        work: Work = stack.enter_context(working(folder))
        for number in range(count):
            recording = folder / f"{number}.pgr"
            kill_once(found, work, options, recording, draw.uniform(0.05, 5))
            recording.unlink(missing_ok=True)
    return found


def kill_once(
    found: Killed, work: Work, options: list[str], recording: Path, seconds: float
) -> None:
    """Kills a recorder `seconds` after it began, and checks its file and the machine."""
    found.recorders += 1
    is_text = "tracefs" in options
    command = [AGENT, "record", *options, "-o", recording, "--for", "60s"]
    if "--kills" in options:
        command += ["--cgroup", work.group]
    if is_text:
        command = ["unshare", "-m", "sh", "-c", WITH_TRACEFS, "sh", *command]
    before = work.count()
    null = subprocess.DEVNULL
    recorder = subprocess.Popen(
        list(map(str, command)), stdin=null, stdout=null, stderr=subprocess.PIPE, text=True
    )
    assert recorder.stderr is not None
    try:
        end = time.monotonic() + HANGS_AFTER_S
        while not (recording.exists() and recording.stat().st_size):
            if recorder.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the recorder does not record: {recorder.stderr.read()}")
            time.sleep(0.002)
        begun = time.monotonic()
        time.sleep(seconds)
        programs = programs_of(recorder.pid)
    finally:
        when = time.monotonic()
        recorder.kill()
        recorder.wait(HANGS_AFTER_S)
        recorder.stderr.close()
    after = work.count()
    sure = work.at(max(begun, when - WRITTEN_S))
    at_begin = work.at(begun + 0.1)
    least = {name: max(0, sure[name] - at_begin[name]) for name in after}
    # An event may be recorded before the work has counted it, and a process that exists when the
    # recording begins is recorded as if it had started then.
    most = {name: after[name] - before[name] + AHEAD for name in after}
    check_file(found, recording, least, most)
    check_machine(found, recorder.pid, programs, is_text)


def check_file(found: Killed, recording: Path, least: dict[str, int], most: dict[str, int]) -> None:
    """Reads the file of a killed recorder."""
    if not recording.exists():
        found.without_file += 1
        return
    found.torn_bytes += torn_bytes(recording)
    info = info_of(found, recording)
    if info is not None:
        found.add(events_of(info), least, most)


def info_of(found: Killed, recording: Path) -> dict[str, Any] | None:
    """What `pagewise info` reports of a recording; None, and counted, if it cannot be read."""
    ran = subprocess.run(
        [BIN / "pagewise", "info", recording, "--json"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    if ran.returncode != 0:
        found.unreadable += 1
        found.wrong.append(ran.stderr.strip())
        return None
    info: dict[str, Any] = json.loads(ran.stdout)
    return info


def events_of(info: dict[str, Any]) -> dict[str, int]:
    """Events by name; page writes are counted in pages, as the kernel counts them."""
    events: dict[str, int] = info["events"]
    kinds = dict(info["kinds"])
    is_text = info["header"]["recorder"]["backend"] == "tracefs"
    if "swap_write" in events:
        events["swap_write"] = kinds["swap_out" if is_text else "device_write"]
    return events


def torn_bytes(recording: Path) -> int:
    """Bytes after the last complete block of a recording (docs/recording.md)."""
    data = recording.read_bytes()
    place, head = 8, 16
    while place + head <= len(data):
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        if place + head + length > len(data):
            break
        place += head + length
    return len(data) - place


def check_machine(found: Killed, recorder: int, programs: set[int], is_text: bool) -> None:
    """Waits until the kernel has no BPF program and no trace instance of a killed recorder."""
    if not is_text and not programs:
        found.left.append("no BPF program was loaded while it recorded")
    end = time.monotonic() + 20
    left: list[str] = ["?"]
    while left and time.monotonic() < end:
        left = [f"BPF program {program}" for program in programs if is_loaded(program)]
        if is_text:
            left += [name for name in instances() if name == f"pagewise-{recorder}"]
        time.sleep(0.05)
    found.left += left


def instances() -> list[str]:
    """Names of the trace instances of this machine."""
    command = ["unshare", "-m", "sh", "-c", WITH_TRACEFS, "sh", "ls", INSTANCES]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_AFTER_S
    ).stdout.split()


def killed_allocations(count: int, draw: random.Random, folder: Path) -> Killed:
    """Kills `count` recorders of allocations, and the program of every second one."""
    found = Killed("record --allocations")
    source, program = folder / "allocator.c", folder / "allocator"
    source.write_text(ALLOCATOR)
    subprocess.run(["cc", "-O1", "-o", program, source], check=True, timeout=HANGS_AFTER_S)
    for number in range(count):
        found.recorders += 1
        recording, path = folder / f"allocated-{number}.pgr", folder / f"done-{number}"
        with shared(path, 1) as done:
            command = [AGENT, "record", "--allocations", "-o", recording, "--", program, path]
            recorder = subprocess.Popen(
                [*map(str, command), str(ALLOCATIONS)],
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            wait_for(lambda done=done: done()[0] > 0)
            time.sleep(draw.uniform(0, 1))
            recorder.kill()
            recorder.wait(HANGS_AFTER_S)
            if number % 2:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(recorder.pid, signal.SIGKILL)
            wait_for(lambda group=recorder.pid: not is_group(group))
            (allocations,) = done()
        recovered = folder / f"recovered-{number}.pgr"
        parts = f"{recording}.parts"
        subprocess.run(
            [AGENT, "record", "--allocations", "--recover", parts, "-o", recovered],
            capture_output=True,
            check=not number % 2,
            timeout=HANGS_AFTER_S,
        )
        info = info_of(found, recovered)
        if info is None:
            continue
        # A killed program may have allocated a block that it has not counted yet.
        found.add(
            {"allocated": info["allocated"]},
            {"allocated": allocations},
            {"allocated": allocations + number % 2},
        )
        losses = sum(loss["count"] for loss in info["losses"])
        if losses and not number % 2:
            found.wrong.append(f"{losses} lost although the program ended by itself")
    return found


def is_group(group: int) -> bool:
    """Whether a process group exists."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + HANGS_AFTER_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.005)


@dataclass(frozen=True)
class Storm:
    """A storm of all sources: the recorder's report, and recorded beside expected events."""

    report: dict[str, Any]
    rows: list[tuple[str, int, int]]
    """Name, recorded events, expected events."""


SOURCES = ("swap", "faults", "files", "block", "kills", "launches")


def swap_storm(seconds: float, folder: Path) -> Storm:
    """Records all sources of the machine while a program swaps; the kernel counts, too."""
    with swap_file(folder, SWAP_MIB), swapping(folder) as work:
        return storm(seconds, folder, work, None)


def other_storm(seconds: float, folder: Path) -> Storm:
    """Records all sources of a group that starts, kills and ends processes and reads a file."""
    with spawning(folder) as spawned, reading(folder, spawned) as work:
        return storm(seconds, folder, work, work.group)


def storm(seconds: float, folder: Path, work: Work, group: Path | None) -> Storm:
    """Records all sources of a group or of the machine; the work pauses at the start and end."""
    recording = folder / "storm.pgr"
    # Events before the recorder has started are not recorded.
    signal_all(work, signal.SIGSTOP)
    time.sleep(0.5)
    own = ["--cgroup", group] if group else []
    command = [AGENT, "record", *(f"--{name}" for name in SOURCES), "--json", *own]
    recorder = subprocess.Popen(
        list(map(str, [*command, "-o", recording])), stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: recording.exists() and recording.stat().st_size > 0)
    # Counted from here on: other programs may have swapped while the recorder started.
    before = work.count()
    time.sleep(0.5)
    # A process that exists when the recording begins is recorded as if it started its program then.
    present = members(group) if group else 0
    signal_all(work, signal.SIGCONT)
    time.sleep(seconds)
    signal_all(work, signal.SIGSTOP)
    time.sleep(0.5)
    after = work.count()
    recorder.send_signal(signal.SIGINT)
    report, _ = recorder.communicate(timeout=HANGS_AFTER_S)
    signal_all(work, signal.SIGCONT)
    stop(work)
    info = json.loads(
        subprocess.check_output(
            [BIN / "pagewise", "info", recording, "--json"], timeout=HANGS_AFTER_S
        )
    )
    recording.unlink()
    events = events_of(info)
    if "exec" in events:
        events["exec"] -= present
    rows = [(name, events.get(name, 0), after[name] - before[name]) for name in after]
    return Storm(json.loads(report), rows)


def members(group: Path) -> int:
    """The number of processes in a group and in those below it."""
    return sum(len(path.read_text().split()) for path in group.rglob("cgroup.procs"))


def signal_all(work: Work, number: signal.Signals) -> None:
    """Sends a signal to all programs of the work."""
    for program in work.programs:
        program.send_signal(number)


HEAD = "killed                     recorders  no file  unreadable  torn  events, least and most"


def print_killed(found: Killed) -> None:
    """Prints a row of the table, and below it every problem."""
    print(
        f"{found.mode:<26} {found.recorders:>7} {found.without_file:>7} {found.unreadable:>10} "
        f"{found.torn_bytes:>4}  {found.recorded:>10,} of {found.least:,} to {found.most:,}; "
        f"{len(found.left)} left in the kernel",
        flush=True,
    )
    for wrong in [*found.wrong, *found.left]:
        print(f"    {wrong}", flush=True)


def print_storm(title: str, found: Storm) -> None:
    """Prints the events of a storm, recorded beside expected."""
    report = found.report
    print(
        f"{title}: {report['records']:,} records, {report['lost']:,} lost, "
        f"{report['bytes'] / 2**20:.1f} MiB"
    )
    for event, recorded, expected in found.rows:
        print(f"    {event:<12} {recorded:>12,} recorded, {expected:>12,} expected", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--storm", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default=",".join([*MODES, "record --allocations"]))
    arguments = parser.parse_args()
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        sys.exit("another swap area is in use, and the kernel counts for the whole machine")
    draw = random.Random(arguments.seed)
    print(HEAD)
    with tempfile.TemporaryDirectory(prefix="pagewise-recorders-") as name:
        for mode in filter(None, arguments.modes.split(",")):
            folder = Path(name) / mode.replace(" ", "")
            folder.mkdir()
            if mode in MODES:
                print_killed(killed(mode, arguments.kills, draw, folder))
            else:
                print_killed(killed_allocations(arguments.kills, draw, folder))
        if arguments.storm:
            for title, storming in (
                ("swap, all sources of the machine", swap_storm),
                ("processes and files, all sources of a group", other_storm),
            ):
                folder = Path(name) / storming.__name__
                folder.mkdir()
                found = storming(arguments.storm, folder)
                print_storm(f"storm of {title}, {arguments.storm:g} s", found)
    print(f"load of the machine {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
