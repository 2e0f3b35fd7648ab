"""Kills taken apart on kernels of Debian, in guests: phases, triggers, the kernel's functions.

Times under emulation say nothing, so what is asserted is that phases are there and add up. With
``PAGEWISE_GOLDEN`` set to a folder, the recordings of the first two kills go there: those in
tests/golden were made so.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest
import pytest

pytestmark = pytest.mark.slow

AGENT = Path(sys.executable).with_name("pagewise-agent")
SOURCE = Path(__file__).parents[2] / "tools" / "victim.c"
KERNELS = {
    "6.1": guest.Machine(),
    "6.12": guest.Machine(suite="bookworm-backports"),
}
FAULTS = ("double fault", "Oops", "BUG:", "Kernel panic")
"""What kernels say when the emulator fails them; then the guest is started once more."""
BOOT_S = 240
MIB = 1 << 20

SCRIPT = """
mount -t cgroup2 none /sys/fs/cgroup

# Starts the recorder and waits until it listens: $1 is its name, the rest are options.
listen() {
    name=$1
    shift
    pagewise-agent killtrace --all --json -o /result/$name.pgk "$@" \\
        >/result/$name.json 2>/result/$name.errors &
    tracer=$!
    until grep -q 'waiting for kills' /result/$name.errors; do
        sleep 0.1
        kill -0 $tracer || return 1
    done
}

# Starts a victim and waits until it has its memory.
live() {
    victim "$@" >/tmp/said &
    pid=$!
    until grep -q ready /tmp/said; do sleep 0.1; done
}

die() {
    sleep 0.5
    kill -9 $pid
    wait $pid
    sleep 0.5
}

end() {
    kill -INT $tracer
    wait $tracer
}

listen kills
live 13 20
die
live 41 30
die
end

listen overrun
# Each thread asks for less than there is, both for more.
victim 2 600
sleep 0.5
end

listen programs --backend btf
live 7 20
die
end

listen functions --backend function && live 5 20 && die && end
true
"""


@dataclass(frozen=True)
class Left:
    """What the commands in one guest left."""

    results: Path

    def kills(self, name: str) -> list[dict[str, Any]]:
        errors = (self.results / f"{name}.errors").read_text()
        told = json.loads((self.results / f"{name}.json").read_text() or "{}")
        assert told, errors
        assert told["lost"] == 0
        rows: list[dict[str, Any]] = told["kills"]
        return [row for row in rows if row["comm"] == "victim"]


@pytest.fixture(scope="module", params=KERNELS)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    machine = KERNELS[request.param]
    if not AGENT.exists():
        pytest.skip("no pagewise-agent beside this Python: make build")
    if missing := guest.refusal(machine):
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("guest")
    victim = guest.compiled(folder / "victim", SOURCE, "-static", "-pthread")
    files = {**guest.with_libraries(AGENT), "bin/victim": victim}
    answer = boot(machine, files, folder)
    assert answer.status == 0, answer.output
    if golden := os.environ.get("PAGEWISE_GOLDEN"):
        shutil.copy(answer.results / "kills.pgk", Path(golden) / f"kills-{request.param}.pgk")
    return Left(answer.results)


def boot(machine: guest.Machine, files: dict[str, Path | str], folder: Path) -> guest.Answer:
    for attempt in ("first", "second"):
        place = folder / attempt
        place.mkdir()
        try:
            return guest.boot(machine, SCRIPT, files, place, timeout_s=BOOT_S)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            is_hung = isinstance(error, subprocess.TimeoutExpired)
            said = str(error.output if is_hung else error)
            if attempt == "second" or not (is_hung or any(fault in said for fault in FAULTS)):
                raise
    raise AssertionError("unreachable")


def test_every_phase_is_told_and_they_add_up(left: Left) -> None:
    few, many = left.kills("kills")
    assert (few["threads"], many["threads"]) == (13, 41)
    for kill, mib in ((few, 20), (many, 30)):
        assert kill["trigger"] == "user" and kill["killer"]["comm"] == "sh"
        phases = kill["signal_us"] + kill["threads_us"] + kill["reclaim_us"]
        assert phases == pytest.approx(kill["total_us"], rel=0.01)
        inside = kill["unmap_us"] + kill["pagetables_us"]
        assert inside == pytest.approx(kill["reclaim_us"], rel=0.01)
        assert min(kill["signal_us"], kill["threads_us"], kill["unmap_us"]) > 0
        assert mib * MIB <= kill["rss_bytes"] + 2 * MIB <= (mib + 6) * MIB
        assert kill["rss_curve"][-1][1] == 0


def test_the_kernels_killer_is_named(left: Left) -> None:
    (kill,) = left.kills("overrun")
    assert kill["trigger"] == "global-oom"
    assert kill["rss_bytes"] > 200 * MIB
    assert kill["signal_us"] is None and kill["reclaim_us"] > 0


def test_programs_tell_every_phase(left: Left) -> None:
    (kill,) = left.kills("programs")
    assert (kill["threads"], kill["trigger"]) == (7, "user")
    phases = kill["signal_us"] + kill["threads_us"] + kill["reclaim_us"]
    assert phases == pytest.approx(kill["total_us"], rel=0.01)
    assert min(kill["signal_us"], kill["unmap_us"], kill["pagetables_us"]) > 0
    assert 20 * MIB <= kill["rss_bytes"] + 2 * MIB <= 26 * MIB


def test_functions_are_named_as_the_kernel_names_them(left: Left) -> None:
    (kill,) = left.kills("functions")
    steps = [step["name"] for step in kill["steps"]]
    for name in ("complete_signal", "do_exit", "exit_mmap", "unmap_vmas", "free_pgtables"):
        assert name in steps, steps
    assert steps.index("complete_signal") < steps.index("exit_mmap") < steps.index("unmap_vmas")


def test_a_saved_recording_says_the_same(left: Left) -> None:
    for name in ("kills", "overrun", "programs", "functions"):
        command = [AGENT, "killtrace", "--read", left.results / f"{name}.pgk", "--json"]
        again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        live = json.loads((left.results / f"{name}.json").read_text())
        assert json.loads(again.stdout)["kills"] == live["kills"]
