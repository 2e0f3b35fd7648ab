"""Random squeezes in which killd kills while a recorder records, each drawn from its seed.

A squeeze has a memory cgroup with a limit, processes that hold memory, processes that grow beyond
the limit, and a killd with one of its policies. ``outcome`` runs it and replays the recording with
the same policy and options.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from touches import swap_file

BIN = Path(sys.executable).parent
MEMORY = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20
HANGS_AFTER_S = 60
# How long a squeeze waits for its growers to be killed.
SQUEEZE_S = 20
SWAP_MIB = 96

# Grows to a size in MiB at a rate and holds it; touches a share of it each second. At its full size
# it starts idle forks, which share its memory.
HOLDER = """
import mmap, os, sys, time
size, rate, touched, forks = (float(word) for word in sys.argv[1:])
pages = int(size * 256)
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
began = time.monotonic()
filled = place = 0
while True:
    now = time.monotonic()
    wanted = min(pages, int((now - began) * rate * 256) + 1)
    for page in range(filled, wanted):
        memory[page * 4096] = 1 + page % 255
    filled = wanted
    if filled == pages:
        while forks and os.fork():
            forks -= 1
        if forks:
            time.sleep(1000)
    if filled == pages and not touched:
        time.sleep(1000)
    for _ in range(int(filled * touched / 200)):
        place = (place + 7919) % filled
        memory[place * 4096] = 7
    time.sleep(0.005)
"""


@dataclass(frozen=True)
class Member:
    """A process of a squeeze."""

    mebibytes: int
    rate: int
    touched: float
    adj: int
    forks: int = 0


@dataclass(frozen=True)
class Squeeze:
    """One squeeze; the seed determines every field."""

    seed: int
    policy: str
    options: dict[str, str]
    kills: str
    reclaim: str
    limit_mib: int
    has_swap: bool
    holders: tuple[Member, ...]
    growers: tuple[Member, ...]


POLICIES = ("largest", "minfree", "restart-cost", "lmkd", "pressure")
NEED_SWAP = ("lmkd", "pressure")
"""Policies whose rules, in a group of version 1, all need swap."""


def squeeze(seed: int, policy: str) -> Squeeze:
    """The squeeze of this seed for a policy."""
    draw = random.Random(f"{seed} {policy}")
    limit = draw.randrange(200, 500, 10)
    adjs = draw.sample(range(0, 1000, 50), 8)
    count = draw.randint(2, 5)
    share = draw.uniform(0.3, 0.6) / count
    holders = tuple(
        Member(
            max(4, int(limit * share * draw.uniform(0.4, 1.3))),
            1000,
            draw.choice((0.0, 0.0, 0.3)),
            adjs.pop(),
        )
        for _ in range(count)
    )
    growers = tuple(
        Member(2 * limit, draw.randint(30, 400), 0.0, adjs.pop())
        for _ in range(draw.choice((1, 1, 2)))
    )
    return Squeeze(
        seed,
        policy,
        options(draw, policy, limit),
        draw.choice(("serial", "serial", "batch")),
        draw.choice(("late", "late", "first", "never")),
        limit,
        policy in NEED_SWAP,
        holders,
        growers,
    )


def with_server(squeeze: Squeeze) -> Squeeze:
    """The squeeze with only the first holder, and a server that shares its memory with forks."""
    draw = random.Random(f"{squeeze.seed} {squeeze.policy} server")
    size = int(squeeze.limit_mib * draw.uniform(0.25, 0.4))
    server = Member(size, 1000, 0.0, draw.randrange(25, 1000, 50), draw.randint(2, 12))
    return dataclasses.replace(squeeze, holders=(server, squeeze.holders[0]))


def options(draw: random.Random, policy: str, limit_mib: int) -> dict[str, str]:
    """Thresholds that the policy reaches before the kernel's OOM killer runs."""
    if policy == "largest":
        return {"memory_percent": str(draw.randint(6, 25))}
    if policy == "restart-cost":
        low = draw.randint(6, 20)
        return {"low_percent": str(low), "high_percent": str(low + draw.randint(2, 15))}
    if policy == "minfree":
        pages = limit_mib * 256
        shares = sorted(draw.sample(range(6, 30), 3))
        levels = zip(shares, (0, draw.randrange(100, 500), draw.randrange(500, 900)), strict=True)
        text = ",".join(f"{pages * share // 100}:{adj}" for share, adj in levels)
        return {"minfree_levels": text, "file_cache_counts": draw.choice(("true", "false"))}
    if policy == "pressure":
        return {"swap_used_limit": str(draw.randint(60, 85))}
    return {
        "swap_free_low_percentage": str(draw.randint(20, 60)),
        "kill_heaviest_task": draw.choice(("true", "false")),
    }


def settings(squeeze: Squeeze, folder: Path) -> str:
    """The text of killd's settings file."""

    def value(text: str) -> str:
        return text if text.isdigit() or text in ("true", "false") else json.dumps(text)

    lines = [
        f'policy = "{squeeze.policy}"',
        f'kills = "{squeeze.kills}"',
        f'reclaim = "{squeeze.reclaim}"',
        "[options]",
        *(f"{name} = {value(text)}" for name, text in squeeze.options.items()),
        "[sockets]",
        f'statistics = "{folder}/statistics.sock"',
        f'metrics = "{folder}/metrics.sock"',
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class SqueezeOutcome:
    """The processes that killd killed, and those that the replay of the recording names."""

    squeeze: Squeeze
    killed: list[int]
    named: list[int]
    oom_kills: int
    result: dict[str, Any]
    # Whether killd logged `reconsider`: it searched for what holds the memory.
    has_reconsidered: bool

    @property
    def is_same(self) -> bool:
        """Whether both are the same processes in the same order."""
        return self.named == self.killed


def outcome(squeeze: Squeeze, folder: Path) -> SqueezeOutcome:
    """Runs the squeeze; ``folder`` keeps the recording and the logs."""
    folder.mkdir(exist_ok=True)
    recording, path = folder / "squeeze.pgr", folder / "killd.toml"
    path.write_text(settings(squeeze, folder))
    with contextlib.ExitStack() as stack:
        if squeeze.has_swap:
            stack.enter_context(swap_file(folder, SWAP_MIB))
        group = stack.enter_context(limited(squeeze.limit_mib))
        agent = BIN / "pagewise-agent"
        killd = [agent, "killd", "--cgroup", group, "--config", path]
        log = stack.enter_context(running(killd, folder / "killd.log"))
        wait_for(lambda: "event=start" in log.read_text())
        record = [agent, "record", "--kills", "--cgroup", group, "-o", recording]
        with running(record, folder / "record.log"):
            wait_for(lambda: recording.exists() and recording.stat().st_size > 0)
            holders = [start(group, member) for member in squeeze.holders]
            wait_for(
                lambda: (
                    holds(group, squeeze) or any(holder.poll() is not None for holder in holders)
                )
            )
            growers = [start(group, member) for member in squeeze.growers]
            wait_for(lambda: all(grower.poll() is not None for grower in growers), SQUEEZE_S)
            wait_for(lambda: log.read_text().count("event=kill ") == settled(log.read_text()), 5)
        oom = (group / "memory.oom_control").read_text().split()
        lines = [line.split() for line in log.read_text().splitlines()]
    killed = [
        int(words[1].removeprefix("process=")) for words in lines if words[:1] == ["event=kill"]
    ]
    result = replay(recording, squeeze)
    (policy,) = result["policies"]
    named = [
        victim["process"] for decision in policy["decisions"] for victim in decision["victims"]
    ]
    has_reconsidered = any(words[:1] == ["event=reconsider"] for words in lines)
    oom_kills = int(oom[oom.index("oom_kill") + 1])
    return SqueezeOutcome(squeeze, killed, named, oom_kills, result, has_reconsidered)


def settled(log: str) -> int:
    """Victims whose memory came back, or for which killd has stopped waiting."""
    return log.count("event=back ") + log.count("event=late ")


def replay(recording: Path, squeeze: Squeeze) -> dict[str, Any]:
    """The result of ``pagewise replay-kills`` with the policy and the settings of killd."""
    given = [f"--option={squeeze.policy}.{name}={text}" for name, text in squeeze.options.items()]
    given.append(f"--kills={squeeze.kills}")
    command = [BIN / "pagewise", "replay-kills", recording, "--policy", squeeze.policy, "--json"]
    ran = subprocess.run(
        [*command, *given], capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S
    )
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def holds(group: Path, squeeze: Squeeze) -> bool:
    """Whether the holders have all their memory and their forks."""
    used = int((group / "memory.usage_in_bytes").read_text())
    alive = len((group / "cgroup.procs").read_text().split())
    wanted = sum(member.mebibytes for member in squeeze.holders) * MIB
    processes = sum(1 + member.forks for member in squeeze.holders)
    return used >= wanted and alive >= processes


def start(group: Path, member: Member) -> subprocess.Popen[bytes]:
    """Starts a member, in the group from its first instruction on."""
    numbers = (member.mebibytes, member.rate, member.touched, member.forks)
    script = (
        f'echo $$ > "{group}/cgroup.procs" && echo {member.adj} > /proc/self/oom_score_adj && '
        'exec "$@"'
    )
    words = [sys.executable, "-ISc", HOLDER, *map(str, numbers)]
    return subprocess.Popen(["sh", "-c", script, "sh", *words], stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def limited(mebibytes: int) -> Iterator[Path]:
    """A memory cgroup with this limit; afterwards it and its processes are removed."""
    group = MEMORY / f"pagewise-squeeze-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(mebibytes * MIB))
        yield group
    finally:
        wait_for(lambda: not kill_all(group))
        wait_for(lambda: removed(group))


def kill_all(group: Path) -> bool:
    """Kills the processes of the group; returns whether there were any."""
    members = (group / "cgroup.procs").read_text().split()
    for member in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(member), 9)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return bool(members)


def removed(group: Path) -> bool:
    """Tries to remove an empty group; the kernel allows it a little after its last process."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def running(command: list[Any], log: Path) -> Iterator[Path]:
    """Runs a command with its output in a file, and terminates it afterwards."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        yield log
        process.terminate()
        process.wait(HANGS_AFTER_S)
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Any, seconds: float = HANGS_AFTER_S) -> bool:
    """Whether a condition becomes true before the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False
