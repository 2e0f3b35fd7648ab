"""Runs killd and earlyoom against the same programs in one guest.

Each case is a few lines of shell that write their findings to ``/result``; ``run`` boots the guest
once for all cases. The guest is emulated, so only orderings and ratios within it are meaningful;
its clock counts instructions, so that the load of the host does not change them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest

from pagewise.errors import Missing

AGENT = Path(sys.executable).with_name("pagewise-agent")
SOURCE = Path(__file__).with_name("pressure.c")
SQUEEZE = Path(__file__).parents[2] / "bench" / "squeeze.c"
MODULES = ("zram", "lzo_rle")
MACHINE = guest.Machine(
    modules=MODULES, kernel_arguments="psi=1", processors=1, has_counted_clock=True
)
# Runs at the emulator's speed, which depends on the host's load; frees and launches in parallel.
TWO_PROCESSORS = guest.Machine(modules=MODULES, kernel_arguments="psi=1")

# Available memory in percent: below the first a killer acts, above the second memory has recovered.
LOW, RECOVERED = 20, 40
ROUNDS = 5
# Each round starts at a different phase of a killer's polling interval, evenly over the 100 ms of
# earlyoom.
PHASE_S = 0.1 / ROUNDS
# How long to wait for a recovery.
SECONDS = 12
# The cases take two minutes on an idle host.
HANGS_AFTER_S = 1200
ZRAM_MIB = 256
PROCESSES = 500
# The number of idle forks that share a server's memory.
FORKS = 8
# The length of the idle case, and the largest share of a processor that a killer may use in it.
IDLE_SECONDS, IDLE_SHARE_MAX = 300, 0.001
# The names of the guest's programs, as in a killer's log.
PROGRAMS = (
    "hog",
    "keeper",
    "victim",
    "filler",
    "spinner",
    "bomb",
    "server",
    "watcher",
    "launch",
    "steady",
)
# The names in the guest of the programs that mislead a killer (bench/squeeze.c).
MISLEADING = ("sharer", "vforker", "restarter", "crowd", "writer")
# The right victim of a random squeeze, programs beside it, and protected ones
# (bench/squeezes_vm.py).
SQUEEZED = ("right", "idle", "guarded")
# These programs, among them the shell that runs the cases, must not be killed.
PROTECTED = ("keeper", "watcher", "steady", "guarded", "sh")
# The number of cached applications, which leaves the guest above the threshold.
CACHED = 8
# The memory need of each application, in KiB (S2, table 1).
LAUNCHES_KIB = {"Play Store": 57_756, "Camera": 74_932, "Chrome": 103_900, "MX Player": 119_464}

KILLD = f"""\
policy = "largest"
[options]
memory_percent = {LOW}
""" + "".join(f'[[rule]]\nname = "{name}"\nis = "protected"\n' for name in PROTECTED)
EARLYOOM = f"earlyoom -m {LOW} -r 0 --avoid '^({'|'.join(PROTECTED)})$'"
COMMANDS = {"killd": "pagewise-agent killd --config /killd.toml", "earlyoom": EARLYOOM}
# By default earlyoom waits until free swap is below 10 percent, too; -s 50 makes that 50 percent.
ZRAM_COMMANDS = {**COMMANDS, "earlyoom": f"{EARLYOOM} -s 50"}

HEAD = """
mount -t cgroup2 none /sys/fs/cgroup
mkdir /freezer
mount -t cgroup -o freezer none /freezer
mkdir /freezer/cold
apps=/sys/fs/cgroup/apps
keeper hold 4 0 0 >/dev/null &
keeper=$!

# Starts a killer; its output is the log of the case.
begin() {
    name=$1
    shift
    "$@" >/result/$name.log 2>&1 &
    killer=$!
    sleep 0.5
}

# Says how the keeper ended, and whom the kernel killed.
broken() {
    wait $keeper
    echo the keeper died in $name with status $?
    dmesg | grep -iE 'oom|killed|segfault|trap' | tail -5
} >>/result/broken

# Ends the killer and the programs of the case, and waits until memory is back.
end() {
    kill $killer
    killall -9 hog victim filler bomb spinner server steady MISLEADING 2>/dev/null
    wait $killer
    [ -e /proc/$keeper ] || broken
    sleep 0.3
}

# Fills free memory with cached applications of 40 MiB.
cache() {
    for attempt in $(seq 20); do
        [ $(pidof victim | wc -w) -lt CACHED ] || break
        victim hold 40 900 0 >/dev/null &
        sleep 0.1
    done
    sleep 0.5
}

# Starts a program that takes memory, and watches memory fall and recover.
cross() {
    watcher watch LOW RECOVERED SECONDS >/result/$name.json &
    watch=$!
    "$@" >/dev/null 2>&1 &
    wait $watch
}
"""


def case(name: str, commands: dict[str, str], rounds: int, body: str) -> str:
    """A case, run with each killer in turn."""
    return "".join(
        f"begin {name}.{killer}.{number} {command}\nsleep {number * PHASE_S:.3f}\n{body}\nend\n"
        for number in range(rounds)
        for killer, command in commands.items()
    )


OURS = {"killd": COMMANDS["killd"]}
FAST = "cross hog hog 200 13"
# Measures the killer's CPU time while nothing happens.
IDLE = (
    f"cat /proc/$killer/stat >/result/idle.before\nsleep {IDLE_SECONDS}\n"
    "cat /proc/$killer/stat >/result/idle.after"
)
# 205 MiB that make memory short and must stay; the victim's 150 MiB must come back.
FILL = "cross filler hold 205 0 0"

CASES = {
    "fast": case("fast", COMMANDS, ROUNDS, FAST),
    # A server shares 180 MiB with its forks, so killing any one of the nine frees none of it.
    "forks": case(
        "forks", COMMANDS, 2, f"server forks 180 0 {FORKS} >/dev/null &\nsleep 2\n{FAST}"
    ),
    # Programs that mislead a killer, beside a hog; in the last two cases they are the hog.
    "shared": case("shared", COMMANDS, 1, f"sharer shared 150 4 >/dev/null &\nsleep 2\n{FAST}"),
    "crowd": case("crowd", COMMANDS, 1, f"crowd crowd 300 64 >/dev/null &\nsleep 4\n{FAST}"),
    "tmpfs": case(
        "tmpfs",
        COMMANDS,
        1,
        f"writer file /result/shared-memory 100 >/dev/null &\nsleep 2\n{FAST}\n"
        "rm /result/shared-memory",
    ),
    "vfork": case(
        "vfork",
        COMMANDS,
        1,
        "vforker vfork 200 >/dev/null &\nsleep 2\ncross steady hold 150 0 0",
    ),
    "respawn": case("respawn", COMMANDS, 1, "cross restarter respawn 400 200"),
    "lru-gen": "echo y >/sys/kernel/mm/lru_gen/enabled\n"
    + case("lru-gen", COMMANDS, 1, FAST)
    + "echo n >/sys/kernel/mm/lru_gen/enabled\n",
    "stuck": "fsfreeze --freeze /disk\n"
    + case("stuck", COMMANDS, 1, f"victim stuck 150 900 /disk/stuck >/dev/null &\nsleep 1\n{FILL}")
    + "fsfreeze --unfreeze /disk\n",
    "frozen": case(
        "frozen",
        COMMANDS,
        1,
        "victim hold 150 900 0 >/dev/null &\nsleep 1\necho $! >/freezer/cold/cgroup.procs\n"
        f"echo FROZEN >/freezer/cold/freezer.state\n{FILL}\n"
        "echo THAWED >/freezer/cold/freezer.state",
    ),
    "slow": case(
        "slow",
        COMMANDS,
        1,
        "victim spin 150 900 19 4 >/dev/null &\nsleep 1\nspinner spin 1 -500 0 4 >/dev/null &\n"
        f"sleep 1\n{FILL}",
    ),
    "group": "echo +memory >/sys/fs/cgroup/cgroup.subtree_control\nmkdir $apps\n"
    "echo 200M >$apps/memory.max\n"
    + case(
        "group",
        {"killd": f"{COMMANDS['killd']} --cgroup $apps"},
        1,
        "sh -c 'echo 0 >$0/cgroup.procs; exec hog hog 100 2' $apps &\nwait $!\n"
        "cat $apps/memory.events >/result/group.events",
    ),
    "bomb": case("bomb", OURS, 1, "cross bomb bomb 80 6\nsleep 1"),
    "many": f"for number in $(seq {PROCESSES}); do keeper hold 0 0 0 >/dev/null & done\nsleep 3\n"
    + case("many", OURS, 1, f"sleep 1\n{IDLE}\n{FAST}\npidof keeper | wc -w >/result/many.alive"),
    "reuse": "killall keeper\nkeeper hold 4 0 0 >/dev/null &\nkeeper=$!\n"
    "echo 400 >/proc/sys/kernel/pid_max\n"
    "(while :; do busybox true & wait; done) &\nforks=$!\n"
    + case("reuse", OURS, 1, FAST)
    + "kill $forks\nwait $forks\necho 32768 >/proc/sys/kernel/pid_max\n",
    "restart": case(
        "restart",
        OURS,
        1,
        "kill -9 $killer\nwatcher watch LOW RECOVERED SECONDS >/result/$name.json &\nwatch=$!\n"
        "hog hold 345 0 0 >/dev/null &\nsleep 2\n"
        f"{OURS['killd']} >>/result/$name.log 2>&1 &\nkiller=$!\nwait $watch",
    ),
    "locked": case(
        "locked",
        OURS,
        1,
        f"{FAST}\ncat /proc/$killer/smaps >/result/locked.smaps\n"
        "cat /proc/$killer/stat >/result/locked.stat",
    ),
    "launch": f"for round in $(seq {ROUNDS}); do\n"
    + "".join(
        f"echo {kib} $(launch launch {kib}) >>/result/plenty\n" for kib in LAUNCHES_KIB.values()
    )
    + "done\n"
    + case(
        "launch",
        OURS,
        ROUNDS,
        "".join(
            f"cache\necho {kib} $(launch launch {kib}) >>/result/short\n"
            for kib in LAUNCHES_KIB.values()
        ),
    ),
    "zram": f"echo {ZRAM_MIB}M >/sys/block/zram0/disksize\nmkswap /dev/zram0 >/dev/null\n"
    "swapon /dev/zram0\n"
    + case("zram", ZRAM_COMMANDS, 2, "cross hog hog 100 4")
    + "swapoff /dev/zram0\n",
}


@dataclass(frozen=True)
class Findings:
    """The results of the guest."""

    folder: Path

    def watched(self, name: str, killer: str) -> list[dict[str, Any]]:
        """The watcher's reports of a case, round by round."""
        paths = sorted(self.folder.glob(f"{name}.{killer}.*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def killed(self, name: str) -> list[str]:
        """The names of the processes that killd killed in a case, in order."""
        logs = sorted(self.folder.glob(f"{name}.killd.*.log"))
        lines = [line for log in logs for line in log.read_text().splitlines()]
        words = [line.split() for line in lines if line.startswith("event=kill ")]
        return [
            word.removeprefix("name=") for line in words for word in line if "name=" in word[:5]
        ]

    def killed_by_peer(self, name: str) -> list[str]:
        """The names of the processes to which earlyoom sent signals in a case, in order."""
        logs = sorted(self.folder.glob(f"{name}.earlyoom.*.log"))
        text = "".join(log.read_text(errors="replace") for log in logs)
        return re.findall(r"^sending SIG\w+ to process \d+ .*?\"(.*?)\"", text, re.MULTILINE)

    def text(self, name: str) -> str:
        """The text of a file of the guest; empty if there is none."""
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def launches(self, name: str) -> dict[int, list[float]]:
        """Milliseconds of launches by KiB, from ``plenty`` or ``short``."""
        times: dict[int, list[float]] = {}
        for line in self.text(name).splitlines():
            kib, ms = line.split()
            times.setdefault(int(kib), []).append(float(ms))
        return times


def earlyoom() -> Path:
    """earlyoom of Debian 13: version 1.8.2, the newest in any suite."""
    return guest.package("earlyoom", MACHINE.architecture, "trixie") / "usr" / "bin" / "earlyoom"


def refusal() -> str | None:
    """Why the guest cannot be booted here; None if it can."""
    if not AGENT.exists():
        return "no pagewise-agent beside this Python: make build"
    if missing := guest.refusal(MACHINE):
        return missing
    try:
        earlyoom()
    except Missing as error:
        return f"earlyoom cannot be fetched: {error}"
    return None


def run(
    folder: Path,
    machine: guest.Machine = MACHINE,
    cases: Iterable[str] | None = None,
    scripts: Mapping[str, str] = CASES,
) -> Findings:
    """Boots the guest and runs the cases of these names, by default all ``scripts``. Raises
    RuntimeError if the script fails."""
    pressure = guest.compiled(folder / "pressure", SOURCE, "-static", "-pthread")
    squeeze = guest.compiled(folder / "squeeze", SQUEEZE, "-static")
    files: dict[str, Path | str] = {
        **guest.with_libraries(AGENT),
        **guest.with_libraries(earlyoom()),
        **{f"bin/{name}": pressure for name in PROGRAMS},
        **{f"bin/{name}": squeeze for name in (*MISLEADING, *SQUEEZED)},
        "killd.toml": KILLD,
    }
    script = HEAD + "".join(scripts[name] for name in cases or scripts)
    words = {"LOW": LOW, "RECOVERED": RECOVERED, "SECONDS": SECONDS, "CACHED": CACHED}
    for word, number in words.items():
        script = script.replace(word, str(number))
    script = script.replace("MISLEADING", " ".join((*MISLEADING, *SQUEEZED)))
    answer = guest.boot(machine, script, files, folder, timeout_s=HANGS_AFTER_S)
    if answer.status != 0:
        raise RuntimeError(answer.output[-2000:])
    return Findings(answer.results)
