"""Recordings without BPF agree with the kernel's own counters.

Needs what test_record.py needs, and tracefs, which it mounts privately.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT
from test_record import PAGEWISE, REFUSAL, TOUCH, alone, budget, counters

__all__ = ["alone", "budget"]

INSTANCES = "/sys/kernel/tracing/instances"
# Runs in a new mount namespace, so that the machine's mounts do not change.
WITH_TRACEFS = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 99
"""


def in_namespace(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "-m", "sh", "-c", WITH_TRACEFS + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def refusal() -> str | None:
    """Why this machine cannot run these tests."""
    if REFUSAL is not None:
        return REFUSAL
    answer = in_namespace('"$0" doctor --json', AGENT)
    if answer.returncode != 0:
        return f"tracefs: {answer.stderr.strip()}"
    findings = {finding["name"]: finding for finding in json.loads(answer.stdout)["findings"]}
    text = findings["record --backend tracefs"]
    return None if text["is_granted"] else f"tracefs: {text['detail']}"


TEXT_REFUSAL = refusal()
pytestmark = pytest.mark.skipif(TEXT_REFUSAL is not None, reason=str(TEXT_REFUSAL))


@pytest.fixture(autouse=True)
def no_instance_stays() -> Iterator[None]:
    before = in_namespace(f"ls {INSTANCES}").stdout
    yield
    assert in_namespace(f"ls {INSTANCES}").stdout == before


def test_transfers_agree_with_the_kernel(alone: Path, tmp_path: Path) -> None:
    recording = tmp_path / "text.pgr"
    # The kernel may page out memory of other processes before the recorder has started.
    inside = f'cat /proc/vmstat >{tmp_path}/before; echo $$ >{alone}/cgroup.procs; exec "$@"'
    script = f"""
        "$0" record --backend tracefs --buffer 64MiB -o {recording} -- sh -c '{inside}' sh "$@"
    """
    program = TOUCH.format(mib=80, touches=5_000)
    finished = in_namespace(script, AGENT, sys.executable, "-c", program)
    before, after = counters(tmp_path / "before"), counters()
    assert finished.returncode == 0, finished.stderr
    assert "owners of swapped pages" in finished.stderr
    info = json.loads(subprocess.check_output([PAGEWISE, "info", recording, "--json"], timeout=300))
    assert info["lost"] == 0
    for event, counter in (("swap_write", "pswpout"), ("swap_read", "pswpin")):
        moved = after[counter] - before[counter]
        assert moved > 1_000
        assert info["events"][event] == pytest.approx(moved, rel=0.01), event
    assert info["events"]["swap_in_fault"] > 0
    assert dict(info["kinds"])["swap_out"] == info["events"]["swap_write"]
    assert any(what.startswith("owners of swapped pages") for what in info["absent"])


def test_a_killed_recorder_leaves_no_instance(tmp_path: Path) -> None:
    recording = tmp_path / "killed.pgr"
    script = f"""
        "$0" record --backend tracefs -o {recording} --for 60s &
        while [ ! -s {recording} ]; do sleep 0.1; done
        ls {INSTANCES}
        kill -9 $!
    """
    found = in_namespace(script, AGENT)
    assert "pagewise-" in found.stdout, found.stderr
    assert os.path.getsize(recording) > 0
    for _ in range(50):
        if "pagewise-" not in in_namespace(f"ls {INSTANCES}").stdout:
            return
        time.sleep(0.1)
    pytest.fail("the trace instance is still there")
