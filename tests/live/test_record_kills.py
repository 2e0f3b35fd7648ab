"""Moments at kills: a replay of the recording names the processes that killd killed.

Needs root, BPF and a memory cgroup of version 1.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from groups import MIB, Group
from recorded_squeezes import MEMORY, Member, Squeeze, outcome, squeeze
from waiting import running, within

import pagewise as pw

REFUSAL = refusal("record --kills")
if REFUSAL is None and not (MEMORY / "memory.limit_in_bytes").exists():
    REFUSAL = "needs a memory cgroup of version 1"
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


def replayed(recording: Path, **options: object) -> dict[str, Any]:
    return pw.replay_kills(recording, policy="largest", options={"largest": options})


TRIES = 3


@pytest.mark.parametrize("policy", ["largest", "minfree", "restart-cost"])
def test_the_replay_names_the_victims_of_killd(tmp_path: Path, policy: str) -> None:
    found = outcome(squeeze(7, policy), tmp_path / "squeeze")
    for again in range(TRIES - 1):
        # On a busy machine killd may run too late, and the kernel's OOM killer ends the squeeze.
        if found.killed or not found.oom_kills:
            break
        found = outcome(squeeze(7, policy), tmp_path / f"squeeze-{again}")
    assert found.killed, "the squeeze ends with a kill"
    assert found.named == found.killed
    (replay,) = found.result["policies"]
    assert replay["victims_named"] == len(found.killed)
    assert (replay["victims_not_named"], replay["victims_unknown"]) == (0, 0)
    assert all(kill["has_moment"] for kill in found.result["recorded"])


SERVER = Member(mebibytes=110, rate=1000, touched=0.0, adj=0, forks=8)
HOG = Member(mebibytes=600, rate=50, touched=0.0, adj=0)
WITH_FORKS = {
    "largest": {"memory_percent": "15"},
    "restart-cost": {"low_percent": "15", "high_percent": "20"},
}


@pytest.mark.parametrize("policy", WITH_FORKS)
def test_the_replay_spares_a_server_with_eight_idle_forks_as_killd_does(
    tmp_path: Path, policy: str
) -> None:
    """When memory is short, the server is larger than the hog, but its end frees almost nothing."""
    with_forks = Squeeze(
        0, policy, WITH_FORKS[policy], "serial", "late", 200, False, (SERVER,), (HOG,)
    )
    found = outcome(with_forks, tmp_path / "squeeze")
    assert found.result["has_weights"]
    assert len(found.killed) == 1, "killd kills only the hog"
    assert found.named == found.killed, found.result["policies"]
    (decision,) = found.result["policies"][0]["decisions"]
    (victim,) = decision["victims"]
    # A hog that dies within a moment or two has no weight, so all its anonymous memory counts.
    assert min(victim["own_bytes"], victim["weight_bytes"] or MIB << 10) >= 40 * MIB
    assert all(spared["weight_bytes"] < 10 * MIB for spared in decision["spared"])


def test_the_moment_of_a_kill_has_all_of_the_victims_memory(tmp_path: Path) -> None:
    recording = tmp_path / "kill.pgr"
    with Group(200 * MIB) as group:
        victim = group.hold(90 * MIB, 0)
        # 100 MiB are available, so no policy kills before the second process takes them.
        command = [AGENT, "record", "--kills", "--cgroup", group.folder, "-o", recording]
        with running(command) as recorder:
            assert within(60, lambda: recording.exists() and recording.stat().st_size > 0)
            second = group.hold(80 * MIB, 0)
            # Both at once: the second is killed before the memory of the first is back.
            os.kill(victim, signal.SIGKILL)
            os.kill(second, signal.SIGKILL)
            assert within(60, lambda: not {victim, second} & set(group.processes()))
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(60) == 130
    result = replayed(recording, memory_percent=25)
    kills = {kill["process"]: kill for kill in result["recorded"]}
    assert all(kills[process]["has_moment"] for process in (victim, second))
    (decision,) = result["policies"][0]["decisions"]
    (named,) = decision["victims"]
    assert named["process"] == victim and named["own_bytes"] >= 90 * MIB
    assert decision["available_bytes"] < 50 * MIB
    # The second is not named: the memory of the first, which comes back, is enough.
    assert result["policies"][0]["victims_named"] == 1
    assert result["policies"][0]["victims_not_named"] == 1


def test_a_kill_without_a_moment_is_reported(tmp_path: Path) -> None:
    if not Path("/sys/kernel/tracing/instances").exists():
        with_tracefs = "mount -t tracefs tracefs /sys/kernel/tracing && "
    else:
        with_tracefs = ""
    recording = tmp_path / "text.pgr"
    script = (
        f'{with_tracefs}exec "$0" record --kills --backend tracefs -o "$1" --for 60s --cgroup "$2"'
    )
    with Group(200 * MIB) as group:
        victim = group.hold(90 * MIB, 0)
        command = ["unshare", "-m", "sh", "-c", script, AGENT, recording, group.folder]
        with running(command, stderr=subprocess.PIPE, text=True) as recorder:
            begun = within(
                60,
                lambda: (
                    recorder.poll() is not None
                    or (recording.exists() and recording.stat().st_size > 0)
                ),
            )
            assert begun
            if recorder.poll() is not None:
                pytest.skip(f"no text events: {recorder.stderr.read()}")
            # The file begins before the recorder has looked which processes are in the group.
            time.sleep(1)
            os.kill(victim, signal.SIGKILL)
            assert within(60, lambda: victim not in group.processes())
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(60) == 130
    result = replayed(recording, memory_percent=1)
    assert [kill["has_moment"] for kill in result["recorded"] if kill["process"] == victim] == [
        False
    ]
    assert result["policies"][0]["victims_unknown"] == 1
    command = [AGENT.with_name("pagewise"), "replay-kills", recording, "--policy", "largest"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "kills fall between two recorded moments" in ran.stderr
    assert "1 unknown" in ran.stdout
