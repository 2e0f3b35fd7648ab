"""Recorders that are killed, and storms of all events, beside the kernel's counters.

    python bench/recorder_kills.py [--kills N] [--storm SECONDS] [--seed N] [--modes NAME,...]

kills recorders of each mode at random times while programs work, reads what each left, and looks
at what it left on the machine; then records storms of all sources. Prints rows of figures.
Needs root, cc, memory cgroups of version 1 and, for text events, tracefs in a mount namespace of
its own. A file is used as swap meanwhile.
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
# What is pending is written each second; a machine with load takes longer.
WRITTEN_S = 3.0
# Events that a file may have before the work has counted them.
AHEAD = 8
ALLOCATIONS = 20_000
WITH_TRACEFS = (
    "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 99;"
    'exec "$@"'
)
INSTANCES = "/sys/kernel/tracing/instances"


@dataclass
class Killed:
    """What became of the recorders of a mode that were killed."""

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
        """Sets the events of a file beside the fewest and the most that it may have."""
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
    "record --backend tracefs": (["--swap", "--backend", "tracefs", "--buffer", "64MiB"], swapping),
}


def killed(mode: str, count: int, draw: random.Random, folder: Path) -> Killed:
    """Kills that many recorders of a mode."""
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
    """Kills a recorder so long after it began, and checks all that it left."""
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
    # An event may be recorded before the work has counted it, and who is there counts as begun.
    most = {name: after[name] - before[name] + AHEAD for name in after}
    look_at_file(found, recording, least, most)
    look_at_machine(found, recorder.pid, programs, is_text)


def look_at_file(
    found: Killed, recording: Path, least: dict[str, int], most: dict[str, int]
) -> None:
    """Reads what a killed recorder left."""
    if not recording.exists():
        found.without_file += 1
        return
    found.torn_bytes += torn_bytes(recording)
    answer = subprocess.run(
        [BIN / "pagewise", "info", recording, "--json"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    if answer.returncode != 0:
        found.unreadable += 1
        found.wrong.append(answer.stderr.strip())
        return
    info = json.loads(answer.stdout)
    found.add(events_of(info), least, most)


def events_of(info: dict[str, Any]) -> dict[str, int]:
    """Events by name; of page writes as many as pages, as the kernel counts them."""
    events: dict[str, int] = info["events"]
    kinds = dict(info["kinds"])
    is_text = info["header"]["recorder"]["backend"] == "tracefs"
    if "swap_write" in events:
        events["swap_write"] = kinds["swap_out" if is_text else "device_write"]
    return events


def torn_bytes(recording: Path) -> int:
    """Bytes behind the last whole block of a recording (docs/recording.md)."""
    data = recording.read_bytes()
    place = 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        if place + 12 + length > len(data):
            break
        place += 12 + length
    return len(data) - place


def look_at_machine(found: Killed, recorder: int, programs: set[int], is_text: bool) -> None:
    """Waits until nothing of a killed recorder is left."""
    if not is_text and not programs:
        found.left.append("no BPF program was seen while it recorded")
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
    """Kills that many recorders of allocations, every other one with its program."""
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
        answer = subprocess.run(
            [BIN / "pagewise", "info", recovered, "--json"],
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )
        if answer.returncode != 0:
            found.unreadable += 1
            found.wrong.append(answer.stderr.strip())
            continue
        info = json.loads(answer.stdout)
        # A killed program may have been given a block that it has not counted yet.
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
    """Whether a process group has a process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def wait_for(holds: Callable[[], bool]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + HANGS_AFTER_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.005)


@dataclass(frozen=True)
class Storm:
    """A storm of all sources: what the recorder told, and its events beside those that happened."""

    told: dict[str, Any]
    rows: list[tuple[str, int, int]]


SOURCES = ("swap", "faults", "files", "block", "kills", "launches")


def swap_storm(seconds: float, folder: Path) -> Storm:
    """All sources of the whole machine while a program swaps, beside the kernel's counters."""
    with swap_file(folder, SWAP_MIB), swapping(folder) as work:
        return storm(seconds, folder, work, None)


def other_storm(seconds: float, folder: Path) -> Storm:
    """All sources of a group whose programs start, kill and end processes and read a file."""
    with spawning(folder) as spawned, reading(folder, spawned) as work:
        return storm(seconds, folder, work, work.group)


def storm(seconds: float, folder: Path, work: Work, group: Path | None) -> Storm:
    """Records all sources of a group or of the machine. The work stands still at either end."""
    recording = folder / "storm.pgr"
    # What happens ahead of the recorder is not recorded.
    signal_all(work, signal.SIGSTOP)
    time.sleep(0.5)
    before = work.count()
    own = ["--cgroup", group] if group else []
    command = [AGENT, "record", *(f"--{name}" for name in SOURCES), "--json", *own]
    recorder = subprocess.Popen(
        list(map(str, [*command, "-o", recording])), stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: recording.exists() and recording.stat().st_size > 0)
    time.sleep(0.5)
    # Who is there when a recording begins is recorded as if it began its program.
    present = members(group) if group else 0
    signal_all(work, signal.SIGCONT)
    time.sleep(seconds)
    signal_all(work, signal.SIGSTOP)
    time.sleep(0.5)
    after = work.count()
    recorder.send_signal(signal.SIGINT)
    answer, _ = recorder.communicate(timeout=HANGS_AFTER_S)
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
    return Storm(json.loads(answer), rows)


def members(group: Path) -> int:
    """Processes in a group and in those below it."""
    return sum(len(path.read_text().split()) for path in group.rglob("cgroup.procs"))


def signal_all(work: Work, number: signal.Signals) -> None:
    """Stops the programs of a work, or lets them go on."""
    for program in work.programs:
        program.send_signal(number)


HEAD = "killed                     recorders  no file  unreadable  torn  events, least and most"


def print_killed(found: Killed) -> None:
    """A row of the table, and what is wrong."""
    print(
        f"{found.mode:<26} {found.recorders:>7} {found.without_file:>7} {found.unreadable:>10} "
        f"{found.torn_bytes:>4}  {found.recorded:>10,} of {found.least:,} to {found.most:,}; "
        f"{len(found.left)} left on the machine",
        flush=True,
    )
    for wrong in [*found.wrong, *found.left]:
        print(f"    {wrong}", flush=True)


def print_storm(title: str, found: Storm) -> None:
    """What was recorded of a storm, beside what happened."""
    told = found.told
    print(
        f"{title}: {told['records']:,} records, {told['lost']:,} lost, "
        f"{told['bytes'] / 2**20:.1f} MiB"
    )
    for event, recorded, happened in found.rows:
        print(f"    {event:<12} {recorded:>12,} recorded, {happened:>12,} happened", flush=True)


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
