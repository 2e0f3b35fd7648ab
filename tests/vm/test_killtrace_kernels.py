"""`killtrace` on Debian kernels in guests: phases, triggers, the kernel's functions.

Times under emulation are not meaningful, so the tests check that phases are present and add up.
With ``PAGEWISE_GOLDEN`` set to a folder, the recordings of the first two kills are copied there;
those in tests/golden were made in this way.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest
import pytest

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
SOURCE = Path(__file__).parents[2] / "tools" / "victim.c"
KERNELS = {
    "6.1": guest.Machine(),
    "6.12": guest.Machine(suite="bookworm-backports"),
}
FAULTS = ("double fault", "Oops", "BUG:", "Kernel panic")
"""Messages of a kernel that crashes because of the emulator; then the guest is booted once more."""
BOOT_S = 240
MIB = 1 << 20

SCRIPT = """
mount -t cgroup2 none /sys/fs/cgroup

# Starts the recorder, and waits until it is ready: $1 is its name, the rest are options.
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

# Starts a victim, and waits until it has its memory.
live() {
    victim "$@" >/tmp/output &
    pid=$!
    until grep -q ready /tmp/output; do sleep 0.1; done
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
# Each thread takes less than the free memory, both together take more.
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
    """The results of the commands in one guest."""

    results: Path

    def kills(self, name: str) -> list[dict[str, Any]]:
        errors = (self.results / f"{name}.errors").read_text()
        report = json.loads((self.results / f"{name}.json").read_text() or "{}")
        assert report, errors
        assert report["lost"] == 0
        rows: list[dict[str, Any]] = report["kills"]
        return [row for row in rows if row["comm"] == "victim"]


@pytest.fixture(scope="module", params=KERNELS)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    machine = KERNELS[request.param]
    guest.need_agent(machine)
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
        except guest.GuestFailed as error:
            is_hung = isinstance(error, guest.GuestHung)
            console = str(error)
            if attempt == "second" or not (is_hung or any(fault in console for fault in FAULTS)):
                raise
    raise AssertionError("unreachable")


def test_every_phase_is_reported_and_they_add_up(left: Left) -> None:
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


def test_the_oom_killer_is_the_trigger_of_its_kills(left: Left) -> None:
    (kill,) = left.kills("overrun")
    assert kill["trigger"] == "global-oom"
    assert kill["rss_bytes"] > 200 * MIB
    assert kill["signal_us"] is None and kill["reclaim_us"] > 0


def test_bpf_programs_report_every_phase(left: Left) -> None:
    (kill,) = left.kills("programs")
    assert (kill["threads"], kill["trigger"]) == (7, "user")
    phases = kill["signal_us"] + kill["threads_us"] + kill["reclaim_us"]
    assert phases == pytest.approx(kill["total_us"], rel=0.01)
    assert min(kill["signal_us"], kill["unmap_us"], kill["pagetables_us"]) > 0
    assert 20 * MIB <= kill["rss_bytes"] + 2 * MIB <= 26 * MIB


def test_functions_have_the_kernels_names(left: Left) -> None:
    (kill,) = left.kills("functions")
    steps = [step["name"] for step in kill["steps"]]
    for name in ("complete_signal", "do_exit", "exit_mmap", "unmap_vmas", "free_pgtables"):
        assert name in steps, steps
    assert steps.index("complete_signal") < steps.index("exit_mmap") < steps.index("unmap_vmas")


def test_a_saved_recording_gives_the_same_kills(left: Left) -> None:
    for name in ("kills", "overrun", "programs", "functions"):
        command = [AGENT, "killtrace", "--read", left.results / f"{name}.pgk", "--json"]
        again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        live = json.loads((left.results / f"{name}.json").read_text())
        assert json.loads(again.stdout)["kills"] == live["kills"]
