"""Time until a victim's memory is free: killed as `killd` kills, and by SIGKILL only, in turn.

    python bench/killer.py [--rounds N]

writes docs/bench-killer.md. Needs root, cc, cargo and memory cgroups; each victim has a cgroup of
its own. Every wait has a limit, and everything started, mounted or created is removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "bench-killer.md"
V1 = Path("/sys/fs/cgroup/memory")
FREEZER = Path("/sys/fs/cgroup/freezer")
PROCESSOR = Path("/sys/fs/cgroup/cpu")
HANGS_AFTER_S = 60
NEVER_MS = 20_000.0
STALL_MS = 1200
SPINNERS = 8


@dataclass(frozen=True)
class Victim:
    """A victim: its size and its threads."""

    threads: int
    mebibytes: int


@dataclass
class Stage:
    """The resources of a scenario, and how to remove them, the last first."""

    folder: Path
    victim: int = 0
    undo: list[Callable[[], object]] = field(default_factory=list)


@dataclass(frozen=True)
class KillScenario:
    """A state of victim and machine, before and after the victim is started."""

    name: str
    words: str
    goal: str
    victims: tuple[Victim, ...]
    before: Callable[[Stage], list[str]]
    after: Callable[[Stage], None]


def nothing(_: Stage) -> None:
    """Leaves everything unchanged."""


def no_words(_: Stage) -> list[str]:
    """Gives the victim no arguments."""
    return []


def background(stage: Stage) -> None:
    """Keeps the processors busy, and gives the victim the lowest priority."""
    spin = ["sh", "-c", "while :; do :; done"]
    for _ in range(SPINNERS):
        spinner = subprocess.Popen(spin)
        stage.undo.append(lambda spinner=spinner: ended(spinner))
    for task in Path(f"/proc/{stage.victim}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(task.name), 19)
    time.sleep(0.3)


def freeze(stage: Stage) -> None:
    """Freezes the victim with the freezer of version 1."""
    group = FREEZER / stage.folder.name
    group.mkdir()
    stage.undo.append(lambda: removed(group))
    stage.undo.append(lambda: (group / "freezer.state").write_text("THAWED"))
    (group / "cgroup.procs").write_text(str(stage.victim))
    (group / "freezer.state").write_text("FROZEN")
    late = time.monotonic() + HANGS_AFTER_S
    while (group / "freezer.state").read_text() != "FROZEN\n" and time.monotonic() < late:
        time.sleep(0.001)


def throttle(stage: Stage) -> None:
    """Limits the victim to 2 ms of a processor in 100, which one of its threads uses up."""
    group = PROCESSOR / stage.folder.name
    group.mkdir()
    stage.undo.append(lambda: removed(group))
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("2000")
    (group / "cgroup.procs").write_text(str(stage.victim))


def stall(stage: Stage) -> list[str]:
    """Mounts a file system whose reads no signal interrupts, for one thread of the victim."""
    folder = Path(tempfile.mkdtemp(prefix="pagewise-stall-"))
    stage.undo.append(folder.rmdir)
    server = subprocess.Popen(
        [compiled("stall"), folder, str(STALL_MS)], stdout=subprocess.PIPE, text=True
    )
    stage.undo.append(lambda: ended(server))
    stage.undo.append(
        lambda: subprocess.run(["umount", "-l", folder], timeout=HANGS_AFTER_S, check=False)
    )
    wait_until_ready(server, "FUSE cannot be mounted here")
    return [str(folder / "x")]


SMALL, MANY, LARGE = Victim(13, 60), Victim(41, 80), Victim(1, 512)
SCENARIOS = (
    KillScenario(
        "ordinary",
        "at ordinary priority",
        "at least 0.9",
        (SMALL, MANY, LARGE),
        no_words,
        nothing,
    ),
    KillScenario(
        "background",
        f"nice 19 beside {SPINNERS} spinning processes",
        "at least 20",
        (SMALL, MANY, LARGE),
        no_words,
        background,
    ),
    KillScenario(
        "quota", "2 ms of a processor in every 100 ms", "-", (SMALL, MANY), no_words, throttle
    ),
    KillScenario(
        "frozen", "frozen (cgroups of version 1)", "freed at all", (SMALL, MANY), no_words, freeze
    ),
    KillScenario(
        "waiting",
        f"a thread in a read that stalls for {STALL_MS} ms",
        "at least 100",
        (SMALL, MANY),
        stall,
        nothing,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times kills by killd and by SIGKILL only.")
    parser.add_argument("--rounds", type=int, default=9, help="kills each way, in turn")
    parser.add_argument("names", nargs="*", help="scenarios; default: all")
    arguments = parser.parse_args()
    prepare()
    load = os.getloadavg()[0]
    rows = []
    for scenario in SCENARIOS:
        if arguments.names and scenario.name not in arguments.names:
            continue
        for victim in scenario.victims:
            row = compared(scenario, victim, arguments.rounds)
            print(row, flush=True)
            rows.append(row)
    if not arguments.names:
        write(rows, arguments.rounds, load)


def compared(scenario: KillScenario, victim: Victim, rounds: int) -> str:
    """A row of the table: both ways in turn, round by round."""
    found: dict[str, list[float]] = {"plain": [], "reap": []}
    for _ in range(rounds):
        for way, times in found.items():
            times.append(killed(scenario, victim, way))
    plain, reap = (median(found[way]) for way in ("plain", "reap"))
    ratios = [plain / reap for plain, reap in zip(found["plain"], found["reap"], strict=True)]
    is_never = plain >= NEVER_MS
    ratio = "-" if is_never else f"{plain / reap:.1f}"
    spread = "" if is_never else f" ({min(ratios):.1f} to {max(ratios):.1f})"
    cells = (
        scenario.words,
        f"{victim.threads} thread{'s' * (victim.threads > 1)}, {victim.mebibytes} MiB",
        "never" if is_never else f"{plain:.1f}",
        f"{reap:.1f} ({min(found['reap']):.1f} to {max(found['reap']):.1f})",
        ratio + spread,
        scenario.goal,
    )
    return "| " + " | ".join(cells) + " |"


def killed(scenario: KillScenario, victim: Victim, way: str) -> float:
    """Milliseconds until nine tenths of the group's memory are free."""
    with staged(scenario, victim) as stage:
        usage = stage.folder / "memory.usage_in_bytes"
        command = [kill_time(), way, str(stage.victim), str(usage)]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S
        )
        back = json.loads(answer.stdout)["back_us"]
        return NEVER_MS if back is None else back / 1000


@contextlib.contextmanager
def staged(scenario: KillScenario, victim: Victim) -> Iterator[Stage]:
    """A victim in the state of the scenario, in its own group; everything is removed at the end."""
    stage = Stage(V1 / f"pagewise-bench-{os.getpid()}")
    stage.folder.mkdir()
    stage.undo.append(lambda: removed(stage.folder))
    try:
        limit = (victim.mebibytes + 200) << 20
        (stage.folder / "memory.limit_in_bytes").write_text(str(limit))
        words = [str(victim.threads), str(victim.mebibytes), *scenario.before(stage)]
        enter = f'echo $$ > "{stage.folder}/cgroup.procs" && exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", enter, "sh", compiled("victim"), *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        stage.victim = process.pid
        stage.undo.append(lambda: ended(process))
        wait_until_ready(process, "the victim did not start")
        scenario.after(stage)
        yield stage
    finally:
        for undo in reversed(stage.undo):
            undo()


def wait_until_ready(process: subprocess.Popen[str], otherwise: str) -> None:
    """Waits until a program reports that it is ready."""
    assert process.stdout is not None
    is_heard = select.select([process.stdout], [], [], HANGS_AFTER_S)[0]
    if not is_heard or process.stdout.readline() != "ready\n":
        raise OSError(otherwise)


def ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Ends a process and waits for it."""
    process.kill()
    process.wait(timeout=HANGS_AFTER_S)


def removed(group: Path) -> None:
    """Removes a group once the kernel allows it."""
    late = time.monotonic() + HANGS_AFTER_S
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > late:
                raise
            time.sleep(0.002)


def compiled(name: str) -> Path:
    """The path of a C program, compiled if necessary."""
    return ROOT / "build" / f"bench-{name}"


def kill_time() -> Path:
    """The program that kills and times."""
    return ROOT / "target" / "release" / "examples" / "kill_time"


def prepare() -> None:
    """Compiles the programs."""
    if os.geteuid() != 0 or not (V1 / "memory.usage_in_bytes").exists():
        raise SystemExit("needs root and memory cgroups of version 1")
    compiled("victim").parent.mkdir(exist_ok=True)
    for source in (ROOT / "tools" / "victim.c", ROOT / "bench" / "stall.c"):
        command = [
            "cc",
            "-std=gnu17",
            "-O2",
            "-Wall",
            "-pthread",
            "-o",
            compiled(source.stem),
            source,
        ]
        subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
    build = ["cargo", "build", "--release", "--quiet", "-p", "killer", "--example", "kill_time"]
    subprocess.run(build, check=True, cwd=ROOT, timeout=1800)


def write(rows: list[str], rounds: int, load: float) -> None:
    """Writes the document around the rows."""
    kernel, processors = platform.release(), os.cpu_count()
    day = datetime.now(UTC).date()
    table = "\n".join(rows)
    DOCUMENT.write_text(f"""# How soon memory is back after a kill

This page measures what [killd](killd.md) gains by freeing a victim's memory itself. Each row
compares a victim that only gets SIGKILL with one that is killed as `killd` kills: SIGKILL, 2 ms of
grace, then `process_mrelease` from a thread of ordinary priority. The time runs from SIGKILL until
nine tenths of the memory of the victim's memory cgroup are free. It leaves out the time that
`killd` takes to decide.

Command, as root on a machine with memory cgroups of version 1:

    python bench/killer.py

{day}, Linux {kernel}, {processors} processors, load {load:.1f} at the start. The two ways to kill
take turns, {rounds} kills each.

| victim is | victim has | SIGKILL only, ms | as killd, ms | ratio | target |
|---|---|---|---|---|---|
{table}

Times are medians; brackets hold the lowest and highest round, and for the ratio the lowest and
highest ratio of one round. "never" means not within 20 s.

- On an idle machine the kernel frees an ordinary victim at once, so `killd` gains nothing.
- `killd` gains where the victim gets little or no processor time, or waits for a device.
- Where a victim competes for a processor, single kills vary as widely as the brackets show, so
  the medians of two runs differ, too.
- A thread in a read that no signal ends shows up as such only after it has seen the signal, so
  `killd` checks for it again during the grace.
""")


if __name__ == "__main__":
    main()
