"""Kills real processes and measures the phases of each kill, for `pagewise study kill-anatomy`.

Victims (tools/victim.c) are in memory cgroups of their own, and die by SIGKILL: with 13 and 41
threads, with growing memory, with growing numbers of threads, among others that die at once, and by
the kernel's killer at the limit of their cgroup. Cells take turns in rounds, so that other load on
the machine affects all equally; a round in which other programs use more than a tenth of the
processors is measured again. Leaves in FOLDER, for each repeat: kills-1.json.gz (each kill with its
parameters), kills-1.pgk (the kernel's events), and trace-1.json (for ui.perfetto.dev). A repeat
that is there is kept, so an interrupted series resumes.

Needs root, a memory cgroup, a C compiler and tracefs, which it mounts only for its recorder.
Status 1: the machine was too busy for a repeat, or the machine lacks something.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import platform
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

AGENT = Path(sys.executable).with_name("pagewise-agent")
SOURCE = Path(__file__).with_name("victim.c")
SCHEMA = "pagewise.kill-runs/2"
MIB = 1 << 20
SLACK_MIB = 64
NICE = -15
"""Priority of victims and recorder, so that other load disturbs less."""
DEADLINE_S = 120
"""A victim or recorder that has not done its part by then is considered hung."""
LONGEST = "2h"
"""The recorder ends by then, even if this program was killed."""
SETTLE_S = 0.1
"""Longer than the recorder takes to notice a process of the group."""
LOAD_MAX = 0.1
"""The share of the processors that other programs may use in a round, as in a launch run."""
ATTEMPTS = 3
"""Rounds measured for each round wanted, at most."""
DETAILS = {"rss_curve": {"paper", "memory"}, "steps": {"paper"}}
"""The long fields of a kill, and the experiments whose results keep them; kills-1.pgk has all."""
# Mounted in a private mount namespace, so that the machine stays without tracefs.
WITH_TRACEFS = """
test -d /sys/kernel/tracing/events || mount -t tracefs nodev /sys/kernel/tracing || exit 99
exec "$@"
"""


@dataclass(frozen=True)
class VictimKind:
    """Victims of one kind: ``others`` like them die at once, and a victim that ``overruns`` the
    limit of its cgroup is killed by the kernel.
    """

    experiment: str
    threads: int
    mib: int
    others: int = 0
    overruns: bool = False


PAPER = (VictimKind("paper", 13, 60), VictimKind("paper", 41, 60))
MEMORY = tuple(VictimKind("memory", 13, mib) for mib in (20, 40, 80, 160, 320, 640, 1024))
THREADS = tuple(VictimKind("threads", threads, 20) for threads in (1, 2, 4, 8, 13, 20, 41, 80, 160))
TOGETHER = tuple(VictimKind("together", 13, 60, others) for others in (0, 1, 2, 4, 8, 16))
OVERRUN = (VictimKind("overrun", 13, 60, overruns=True),)
ALL = (*PAPER, *MEMORY, *THREADS, *TOGETHER, *OVERRUN)
SMALL = (
    VictimKind("paper", 3, 8),
    VictimKind("together", 2, 4, 2),
    VictimKind("overrun", 2, 16, overruns=True),
)
"""Cells for a test of this program."""


def main() -> None:
    """Measures the repeats that are missing, and prints how many kills were not recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each repeat")
    parser.add_argument("--small", action="store_true", help="three small cells")
    parser.add_argument("--busy", action="store_true", help="keep rounds on a busy machine")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    cells = SMALL if arguments.small else ALL
    load_max = 1.0 if arguments.busy else LOAD_MAX
    for repeat in range(1, arguments.repeats + 1):
        result = arguments.folder / f"kills-{repeat}.json.gz"
        if result.exists():
            print(f"{result}: kept")
            continue
        with tempfile.TemporaryDirectory() as scratch, memory_group() as group:
            series = Series(cells, group, compiled(Path(scratch)), arguments.rounds, load_max)
            runs = series.measure(result)
        write_result(runs, result)
        missing = sum(row["kill"] is None for row in runs["rows"])
        print(
            f"{result}: {len(runs['rows'])} kills, {missing} of them not recorded; "
            f"{runs['rounds_busy']} rounds measured again"
        )


def compiled(folder: Path) -> Path:
    """The compiled program of the victims."""
    victim = folder / "victim"
    subprocess.run(
        ["cc", "-std=gnu17", "-O2", "-pthread", "-o", victim, SOURCE], check=True, timeout=60
    )
    return victim


@dataclass(frozen=True)
class Series:
    """What to measure: ``rounds`` rounds of all ``cells``, each with at most ``load_max``."""

    cells: Sequence[VictimKind]
    group: Path
    victim: Path
    rounds: int
    load_max: float

    def measure(self, result: Path) -> dict[str, Any]:
        """Kills the victims of every cell in turn; each with its kill, or None if missing."""
        name = result.name.removesuffix(".json.gz")
        recording = result.with_name(f"{name}.pgk")
        recording.unlink(missing_ok=True)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        load_before = os.getloadavg()[0]
        asked: list[dict[str, Any]] = []
        loads: list[float] = []
        busy = 0
        with recorder(recording, self.group) as (pid, answers):
            while len(loads) < self.rounds:
                if len(loads) + busy == ATTEMPTS * self.rounds:
                    raise SystemExit(
                        f"{result}: other programs used more than {self.load_max:.0%} of the "
                        f"processors in {busy} rounds; run this again on a quiet machine"
                    )
                deaths, load = self.round(pid)
                if load > self.load_max:
                    busy += 1
                    continue
                asked += [{**death, "round": len(loads)} for death in deaths]
                loads.append(round(load, 4))
        (report,) = answers
        write_trace(recording, result.with_name(f"{name.replace('kills', 'trace')}.json"))
        return {
            "schema": SCHEMA,
            "started": started,
            "kernel": report["kernel"],
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "backend": report["backend"],
            "load": [load_before, os.getloadavg()[0]],
            "load_other": loads,
            "rounds_busy": busy,
            "lost": report["lost"],
            "absent": report["absent"],
            "rows": [{**death, "kill": row_of(report["kills"], death)} for death in asked],
        }

    def round(self, recorder_pid: int) -> tuple[list[dict[str, Any]], float]:
        """The deaths of one round, and the share of the processors that others used in it."""
        clock, all_s, own_s = time.monotonic(), busy_s(), used_s(recorder_pid)
        deaths = [death for cell in self.cells for death in killed(cell, self.group, self.victim)]
        own_s, all_s = used_s(recorder_pid) - own_s, busy_s() - all_s
        elapsed = (time.monotonic() - clock) * (os.cpu_count() or 1)
        return deaths, max(0.0, (all_s - own_s) / elapsed)


def busy_s() -> float:
    """Seconds that all processors together were busy since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def used_s(recorder_pid: int) -> float:
    """Seconds of processor time that this program, its victims and its recorder have used."""
    after_name = Path(f"/proc/{recorder_pid}/stat").read_text().rpartition(")")[2].split()
    recorder_s = sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")
    return recorder_s + sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def write_result(runs: dict[str, Any], result: Path) -> None:
    """Writes a repeat as one file, complete or not at all; the same kills give the same bytes."""
    part = result.with_suffix(".part")
    text = json.dumps(runs, separators=(",", ":")) + "\n"
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.rename(result)


def row_of(kills: Sequence[dict[str, Any]], death: dict[str, Any]) -> dict[str, Any] | None:
    """The kill of a process: others may have its id earlier or later, so times must match."""
    found = [
        kill
        for kill in kills
        if kill["pid"] == death["pid"] and death["from_ns"] <= kill["start_ns"] <= death["to_ns"]
    ]
    if len(found) != 1:
        return None
    left_out = [name for name, kept in DETAILS.items() if death["experiment"] not in kept]
    return found[0] | {name: [] for name in left_out}


@contextlib.contextmanager
def memory_group() -> Iterator[Path]:
    """A memory cgroup for those of the victims; removed afterwards."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    mount = first if (first / "cgroup.procs").exists() else second
    group = mount / f"pagewise-kills-{os.getpid()}"
    group.mkdir()
    try:
        if (mount / "cgroup.subtree_control").exists():
            (mount / "cgroup.subtree_control").write_text("+memory")
            (group / "cgroup.subtree_control").write_text("+memory")
        yield group
    finally:
        for folder in (*(path for path in group.iterdir() if path.is_dir()), group):
            remove(folder)


def remove(group: Path) -> None:
    """Kills what remains in a group, and removes it; the kernel needs a moment for both."""
    until = time.monotonic() + DEADLINE_S
    while group.exists():
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            group.rmdir()
        if time.monotonic() > until:
            raise SystemExit(f"{group}: cannot be removed")
        time.sleep(0.01)


@contextlib.contextmanager
def recorder(recording: Path, group: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Runs the recorder; yields its process id, and a list that has its report afterwards."""
    answers: list[dict[str, Any]] = []
    options = ("--json", "--buffer", "32MiB", "--for", LONGEST)
    command = [AGENT, "killtrace", "--cgroup", group, "-o", recording, *options]
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", WITH_TRACEFS, "sh", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        heading = line_of(process.stderr)
        if not heading.startswith("waiting for kills"):
            process.kill()
            raise SystemExit(f"killtrace: {heading}{process.communicate(timeout=DEADLINE_S)[1]}")
        yield process.pid, answers
        time.sleep(SETTLE_S)
        process.send_signal(signal.SIGINT)
        answers.append(json.loads(process.communicate(timeout=DEADLINE_S)[0]))
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=DEADLINE_S)
        process.kill()


def line_of(stream: Any) -> str:
    """The next line; empty if none comes in time."""
    ready, _, _ = select.select([stream], [], [], DEADLINE_S)
    return str(stream.readline()) if ready else ""


def killed(cell: VictimKind, group: Path, victim: Path) -> list[dict[str, Any]]:
    """Starts the victims of a cell, kills them at once, and returns each with its times."""
    with contextlib.ExitStack() as stack:
        victims = [
            stack.enter_context(living(cell, group / f"victim-{number}", victim))
            for number in range(cell.others + 1)
        ]
        time.sleep(SETTLE_S)
        for dying in victims:
            if not cell.overruns:
                dying.process.kill()
        for dying in victims:
            dying.process.wait(timeout=DEADLINE_S)
        to_ns = time.monotonic_ns()
    about = {"experiment": cell.experiment, "threads": cell.threads, "mib": cell.mib}
    return [
        {
            **about,
            "others": cell.others,
            "pid": dying.process.pid,
            "from_ns": dying.from_ns,
            "to_ns": to_ns,
        }
        for dying in victims
    ]


@dataclass(frozen=True)
class Victim:
    """A victim, and a time from which its process id is its own: it dies later."""

    process: subprocess.Popen[str]
    from_ns: int


@contextlib.contextmanager
def living(cell: VictimKind, group: Path, victim: Path) -> Iterator[Victim]:
    """A victim in a group of its own, which holds its memory; both are removed afterwards.

    If the victim overruns, the limit of its group is half of its memory.
    """
    group.mkdir()
    try:
        limit(group, cell.mib // 2 if cell.overruns else cell.mib + SLACK_MIB)
        inside = f'echo $$ >{group}/cgroup.procs; read _; exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", inside, "sh", str(victim), str(cell.threads), str(cell.mib)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            from_ns = time.monotonic_ns()
            time.sleep(SETTLE_S if cell.overruns else 0)
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.close()
            if not cell.overruns and line_of(process.stdout) != "ready\n":
                raise SystemExit(f"{victim}: did not get ready: {cell}")
            yield Victim(process, from_ns)
        finally:
            process.kill()
            process.wait(timeout=DEADLINE_S)
    finally:
        remove(group)


def limit(group: Path, mib: int) -> None:
    """Limits the memory of a group, and keeps it out of swap."""
    limits = {
        "memory.limit_in_bytes": mib * MIB,
        "memory.memsw.limit_in_bytes": mib * MIB,
        "memory.max": mib * MIB,
        "memory.swap.max": 0,
    }
    for name, value in limits.items():
        if (group / name).exists():
            (group / name).write_text(str(value))


def write_trace(recording: Path, trace: Path) -> None:
    """Converts the recording for ui.perfetto.dev."""
    trace.unlink(missing_ok=True)
    subprocess.run(
        [AGENT, "killtrace", "--read", recording, "--chrome", trace, "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=DEADLINE_S,
    )


if __name__ == "__main__":
    main()
