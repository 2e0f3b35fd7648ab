"""Random squeezes of a memory cgroup, each with a hog that is the right victim.

    python bench/killer_squeezes.py [--rounds N] [--seed S] [--only NUMBER] [--kind KIND]

Beside the hog run programs that mislead a killer: forks that share memory, shared memory without a
name, a child between vfork and exec, a child that is restarted after each kill, a crowd of small
processes, a file in tmpfs. With `--kind tmpfs-grows` the file itself grows, so that no kill is
right. The script counts kills in vain and needless kills, and compares the memory that `killd`
reports as freed with the group's counter. Needs root, cc and memory cgroups of version 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
AGENT = Path(sys.executable).with_name("pagewise-agent")
SOURCE = Path(__file__).with_name("squeeze.c")
V1 = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20
HANGS_AFTER_S = 60
# Available memory in per cent of the limit: killd kills below the first, until it has the second.
LOW, HIGH = 12, 20
# How far freed_bytes may be from what the group gained, as a share.
TOLERANCE = 0.10
# Page tables, stacks and the error of the kernel's counters, which matter for a small victim.
SLACK_BYTES = MIB
# How long a squeeze continues after the right victim has died, to catch needless kills.
QUIET_S = 0.3
# The same after a file in tmpfs has stopped growing: memory stays short.
GROWN_S = 1.0
# Right kills of a squeeze whose hog is restarted after each kill.
GENERATIONS = 3
POLICIES = {
    "restart-cost": 'policy = "restart-cost"\n[options]\n'
    f"low_percent = {LOW}\nhigh_percent = {HIGH}\n",
    "largest": f'policy = "largest"\n[options]\nmemory_percent = {LOW}\n',
}
# The name of protected programs.
KEEPER = "keeper"
PROTECTED = f'[[rule]]\nname = "{KEEPER}"\nis = "protected"\n'


@dataclass(frozen=True)
class Program:
    """A program of a squeeze: the arguments of squeeze.c, and whether it is the right victim."""

    words: tuple[str, ...]
    is_right: bool = False
    is_protected: bool = False
    # The program only restarts the right victim, which is its child.
    is_supervisor: bool = False


@dataclass(frozen=True)
class Squeeze:
    """One squeeze, drawn from its seed."""

    seed: int
    number: int
    kind: str
    limit_mib: int
    policy: str
    idle: tuple[Program, ...]
    hog: Program
    # Limit of killd's open files, which bounds its table; None: the machine's limit.
    files_max: int | None = None

    @property
    def command(self) -> str:
        """The command that runs this squeeze again."""
        script = "python bench/killer_squeezes.py"
        return f"{script} --seed {self.seed} --only {self.number} --kind {self.kind}"

    @property
    def right_kills(self) -> int:
        """Kills of a right victim after which the squeeze ends."""
        programs = (*self.idle, self.hog)
        if not any(program.is_right for program in programs):
            return 0
        return GENERATIONS if any(program.is_supervisor for program in programs) else 1


@dataclass
class Watch:
    """The group's usage since the last decision, and its victims whose memory is not back yet."""

    stage: Stage
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=20_000))
    pending: int = 0
    began_ns: int = 0
    reported: int = 0

    def sample(self) -> None:
        """Records the group's usage now."""
        self.samples.append((time.monotonic_ns(), self.stage.usage()))

    def gained(self) -> int:
        """The group's highest usage before the kill, less its lowest usage after it.

        Other programs may take memory right afterwards; the kernel keeps the maximum."""
        peak = self.stage.folder / "memory.max_usage_in_bytes"
        most = int(peak.read_text())
        peak.write_text("0")
        return most - min(used for at_ns, used in self.samples if at_ns > self.began_ns)


@dataclass
class SqueezeOutcome:
    """The result of a squeeze."""

    kills: int = 0
    right: int = 0
    vain: int = 0
    needless: int = 0
    protected: int = 0
    # For each decision: bytes that killd reported, and bytes that the group gained by its counter.
    reports: list[tuple[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def drawn(seed: int, number: int, limit_mib: int | None = None, kind: str | None = None) -> Squeeze:
    """The squeeze of this number; the limit and the kind are drawn unless they are given."""
    dice = random.Random(f"{seed}/{number}")
    if kind is None:
        kind = "thousands" if number % RARE == RARE - 1 else KINDS[number % len(KINDS)]
    limit = THOUSANDS_MIB if kind == "thousands" else dice.choice((200, 300, 400))
    limit = limit_mib or limit
    idle, hog, files_max = MAKERS[kind](dice, limit)
    protected = Program(("hog", str(limit // 16)), is_protected=True)
    policy = dice.choice(list(POLICIES))
    return Squeeze(seed, number, kind, limit, policy, (protected, *idle), hog, files_max)


Drawn = tuple[tuple[Program, ...], Program, int | None]


def rate(dice: random.Random) -> str:
    """KiB per millisecond: fills the group within half a second to some seconds."""
    return str(dice.choice((128, 256, 512)))


def hog(dice: random.Random, limit: int) -> Program:
    """A process that takes more than is left of the limit."""
    return Program(("hog", str(2 * limit), rate(dice)), is_right=True)


def forks(dice: random.Random, limit: int) -> Drawn:
    """A server that shares its memory with its forks."""
    size = dice.randint(limit // 5, limit // 3)
    return (Program(("server", str(size), str(dice.randint(2, 16)))),), hog(dice, limit), None


def shared(dice: random.Random, limit: int) -> Drawn:
    """Processes that map shared memory without a name."""
    size = dice.randint(limit // 5, limit // 3)
    return (Program(("shared", str(size), str(dice.randint(1, 8)))),), hog(dice, limit), None


def shared_hog(dice: random.Random, limit: int) -> Drawn:
    """The hog's memory is shared memory that only it maps."""
    idle = Program(("server", str(limit // 5), str(dice.randint(1, 8))))
    return (idle,), Program(("shared", str(2 * limit), "0"), is_right=True), None


def vfork(dice: random.Random, limit: int) -> Drawn:
    """The hog has a child between vfork and exec, which is the younger of the two."""
    # The right victim starts first, with its child; then a protected program fills the group.
    size = limit * 5 // 8
    idle = Program(("vfork", str(size)), is_right=True)
    filler = Program(("hog", str(limit // 4), rate(dice)), is_protected=True)
    return (idle,), filler, None


def respawn(dice: random.Random, limit: int) -> Drawn:
    """The hog is restarted after each kill."""
    idle = Program(("server", str(limit // 4), str(dice.randint(2, 8))))
    words = ("respawn", str(2 * limit), rate(dice))
    return (idle,), Program(words, is_right=True, is_supervisor=True), None


def crowd(dice: random.Random, limit: int) -> Drawn:
    """A crowd of small processes, more than killd can open files for."""
    count = dice.randint(150, 400)
    idle = Program(("crowd", str(count), str(dice.randint(4, 64))))
    return (idle,), hog(dice, limit), dice.choice((300, 320, 360))


def thousands(dice: random.Random, limit: int) -> Drawn:
    """More processes than killd's table holds; the newest is the hog."""
    return (Program(("crowd", "5000", "4")),), hog(dice, limit), None


def tmpfs(dice: random.Random, limit: int) -> Drawn:
    """A file in tmpfs, which no kill frees."""
    size = dice.randint(limit // 4, limit // 2)
    return (Program(("file", "{tmpfs}/file", str(size))),), hog(dice, limit), None


def tmpfs_grows(dice: random.Random, limit: int) -> Drawn:
    """A file in tmpfs grows until memory is short, and stops before none is left."""
    idle, _, _ = plain(dice, limit)
    # Each process has about 1 MiB more than it takes; the protected program has a sixteenth.
    others = sum(int(program.words[1]) + 1 for program in idle) + limit // 16 + 2
    left = limit * dice.randint(3, 8) // 100
    words = ("file", "{tmpfs}/file", str(limit - left - others), rate(dice))
    return idle, Program(words), None


def plain(dice: random.Random, limit: int) -> Drawn:
    """Programs that share nothing."""
    sizes = [dice.randint(4, limit // 12) for _ in range(dice.randint(1, 4))]
    return tuple(Program(("hog", str(size))) for size in sizes), hog(dice, limit), None


MAKERS: dict[str, Callable[[random.Random, int], Drawn]] = {
    "forks": forks,
    "shared": shared,
    "shared-hog": shared_hog,
    "vfork": vfork,
    "respawn": respawn,
    "crowd": crowd,
    "tmpfs": tmpfs,
    "plain": plain,
    "thousands": thousands,
    "tmpfs-grows": tmpfs_grows,
}
# The kinds that take turns. Of the other two, one is rare and one is drawn only by --kind.
KINDS = tuple(kind for kind in MAKERS if kind not in ("thousands", "tmpfs-grows"))
# One squeeze in this many has thousands of processes, which need a larger group and take seconds.
RARE, THOUSANDS_MIB = 50, 1024


class Stage:
    """A memory cgroup, a tmpfs, and the programs in it; all removed at the end."""

    def __init__(self, squeeze: Squeeze, program: Path) -> None:
        self.program = program
        self.folder = V1 / f"killd-squeeze-{os.getpid()}-{squeeze.number}"
        self.tmpfs = Path(tempfile.mkdtemp(prefix="killd-squeeze-"))
        self.limit = squeeze.limit_mib * MIB
        self.started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Stage:
        self.folder.mkdir()
        (self.folder / "memory.limit_in_bytes").write_text(str(self.limit))
        # No swap, even if the machine has some: a killer would wait until it is full.
        (self.folder / "memory.swappiness").write_text("0")
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "memory.memsw.limit_in_bytes").write_text(str(self.limit))
        mount = ["mount", "-t", "tmpfs", "-o", "mode=700", "none", str(self.tmpfs)]
        subprocess.run(mount, check=True, timeout=HANGS_AFTER_S)
        return self

    def __exit__(self, *_: object) -> None:
        late = time.monotonic() + HANGS_AFTER_S
        while (left := self.processes()) and time.monotonic() < late:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.002)
        for process in self.started:
            process.wait(timeout=HANGS_AFTER_S)
            if process.stdout:
                process.stdout.close()
        subprocess.run(["umount", str(self.tmpfs)], check=True, timeout=HANGS_AFTER_S)
        self.tmpfs.rmdir()
        while True:
            try:
                self.folder.rmdir()
                return
            except OSError:
                if time.monotonic() > late:
                    raise
                time.sleep(0.002)

    def processes(self) -> list[int]:
        """The processes of the group."""
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]

    def usage(self) -> int:
        """Bytes that the group uses."""
        return int((self.folder / "memory.usage_in_bytes").read_text())

    def kernel_kills(self) -> int:
        """Processes of the group that the kernel killed."""
        text = (self.folder / "memory.oom_control").read_text()
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0))

    def start(self, program: Program, is_awaited: bool) -> subprocess.Popen[str]:
        """Starts a program in the group."""
        enter = f'echo $$ > "{self.folder}/cgroup.procs"; exec "$@"'
        name = self.program.with_name(KEEPER) if program.is_protected else self.program
        words = [word.format(tmpfs=self.tmpfs) for word in program.words]
        process = subprocess.Popen(
            ["sh", "-c", enter, "sh", str(name), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        if is_awaited:
            assert process.stdout is not None
            if not select.select([process.stdout], [], [], HANGS_AFTER_S)[0]:
                raise TimeoutError(f"{program} is not ready")
            if process.stdout.readline() != "ready\n":
                raise OSError(f"{program} has ended")
        return process


@contextlib.contextmanager
def killd(squeeze: Squeeze, stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    """killd on the group; its standard output does not block."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as settings:
        settings.write(POLICIES[squeeze.policy] + PROTECTED)
        settings.flush()

        def limit() -> None:
            if squeeze.files_max is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (squeeze.files_max, squeeze.files_max))

        process = subprocess.Popen(
            [AGENT, "killd", "--cgroup", stage.folder, "--config", settings.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=limit,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=HANGS_AFTER_S)
            process.stdout.close()


def fields(line: str) -> dict[str, str]:
    """The fields of a line of killd."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def family(process: int) -> set[int]:
    """A process and all its descendants."""
    found = {process}
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for child in children:
            found |= family(int(child))
    return found


def run(squeeze: Squeeze, program: Path) -> SqueezeOutcome:
    """Runs a squeeze until the right victims have died and memory is no longer short.

    A squeeze without a right victim ends after the hog has taken all its memory."""
    outcome = SqueezeOutcome()
    with Stage(squeeze, program) as stage:
        started = [(idle, stage.start(idle, is_awaited=True)) for idle in squeeze.idle]
        with killd(squeeze, stage) as killer:
            text = b""
            late = time.monotonic() + HANGS_AFTER_S
            while b"event=start " not in text and time.monotonic() < late:
                text += read(killer, 0.05)
            last = stage.start(squeeze.hog, is_awaited=False)
            started.append((squeeze.hog, last))
            right = {process.pid for program, process in started if program.is_right}
            supervisors = {process.pid for program, process in started if program.is_supervisor}
            protected = {process.pid for program, process in started if program.is_protected}
            quiet_s = QUIET_S if squeeze.right_kills else GROWN_S
            seen, quiet_since = 0, None
            watch = Watch(stage)
            while time.monotonic() < late:
                watch.sample()
                text += read(killer, 0.001)
                for process in set(right):
                    right |= family(process)
                lines = text.decode(errors="replace").splitlines()
                if len(lines) > seen:
                    # The event of a line happened before this sample.
                    watch.sample()
                for line in lines[seen:]:
                    judge(line, outcome, right - supervisors, protected, watch)
                seen = len(lines)
                is_over = not is_short(stage) if squeeze.right_kills else has_written(last)
                if outcome.right >= squeeze.right_kills and is_over:
                    quiet_since = quiet_since or time.monotonic()
                    if time.monotonic() - quiet_since > quiet_s:
                        break
                else:
                    quiet_since = None
            else:
                outcome.problems.append(f"{outcome.right} of {squeeze.right_kills} right kills")
            outcome.lines = text.decode(errors="replace").splitlines()
            if stage.kernel_kills():
                outcome.problems.append(f"the kernel killed {stage.kernel_kills()}")
    return outcome


def is_short(stage: Stage) -> bool:
    """Whether so little memory is available that killd chooses a victim."""
    return stage.usage() > stage.limit * (100 - LOW) // 100


def has_written(process: subprocess.Popen[str]) -> bool:
    """Whether the process has written `ready`, or has ended."""
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0)[0])


def read(process: subprocess.Popen[bytes], time_s: float) -> bytes:
    """What the process wrote; waits for at most `time_s`."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], time_s)[0]:
        return b""
    return os.read(process.stdout.fileno(), 1 << 16)


def judge(
    line: str, outcome: SqueezeOutcome, right: set[int], protected: set[int], watch: Watch
) -> None:
    """Counts the event of a line, and notes what is wrong with it."""
    found = fields(line)
    process = int(found.get("process", 0))
    match found.get("event"):
        case "kill":
            outcome.kills += 1
            if watch.pending == 0:
                watch.began_ns, watch.reported = int(found["at_ns"]), 0
            watch.pending += 1
            if process in protected:
                outcome.protected += 1
                outcome.problems.append(f"{process} is protected")
            elif process in right:
                outcome.right += 1
            else:
                outcome.needless += 1
                outcome.problems.append(f"{process} need not die")
        case "back" | "late":
            watch.pending -= 1
            watch.reported += int(found["freed_bytes"])
            if watch.pending > 0:
                return
            gained = watch.gained()
            outcome.reports.append((watch.reported, gained))
            if gained < SLACK_BYTES // 4:
                outcome.vain += 1
                outcome.problems.append(f"the end of {process} freed nothing")
            if abs(watch.reported - gained) > max(TOLERANCE * gained, SLACK_BYTES):
                outcome.problems.append(f"{process}: {watch.reported} reported, {gained} gained")


def compiled(folder: Path) -> Path:
    """Compiles squeeze.c."""
    program = folder / "squeeze"
    command = ["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-pthread", "-o", program, SOURCE]
    subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
    shutil.copy(program, folder / KEEPER)
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description="Random squeezes whose right victim is known.")
    parser.add_argument("--rounds", type=int, default=200, help="number of squeezes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run only this squeeze, and print killd's log")
    parser.add_argument("--kind", choices=MAKERS, help="draw only squeezes of this kind")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not (V1 / "memory.usage_in_bytes").exists():
        raise SystemExit("needs root and memory cgroups of version 1")
    numbers = range(arguments.rounds) if arguments.only is None else [arguments.only]
    total: Counter[str] = Counter()
    errors: list[float] = []
    with tempfile.TemporaryDirectory(prefix="killd-squeeze-") as folder:
        program = compiled(Path(folder))
        for number in numbers:
            squeeze = drawn(arguments.seed, number, kind=arguments.kind)
            outcome = run(squeeze, program)
            total.update(
                squeezes=1,
                kills=outcome.kills,
                right=outcome.right,
                vain=outcome.vain,
                needless=outcome.needless,
                protected=outcome.protected,
                failed=bool(outcome.problems),
            )
            errors += [
                abs(reported - gained) / gained for reported, gained in outcome.reports if gained
            ]
            if outcome.problems or arguments.only is not None:
                print(f"{squeeze.kind}: {'; '.join(outcome.problems) or 'ok'}: {squeeze.command}")
            if arguments.only is not None:
                print(squeeze, *outcome.lines, sep="\n")
    print(", ".join(f"{int(count)} {name}" for name, count in total.items()), flush=True)
    if errors:
        errors.sort()
        worst, middle = errors[-1], errors[len(errors) // 2]
        print(f"reported against gained: {middle:.1%} off at the median, {worst:.1%} at most")
    raise SystemExit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
