"""The agent beside this Python, and the features that this machine permits."""

import fcntl
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from waiting import line_of

AGENT = Path(sys.executable).parent / "pagewise-agent"
LOCK = Path("/run/pagewise/launch.lock")


def refusal(*checks: str) -> str | None:
    """Why tests that need these checks of ``doctor`` cannot run here; None if they can."""
    if os.geteuid() != 0:
        return "needs root"
    if not AGENT.exists():
        return "no pagewise-agent beside this Python: make build"
    found = findings()
    refused = (name for name in checks if not found[name]["is_granted"])
    return next((f"{name}: {found[name]['detail']}" for name in refused), None)


@cache
def findings() -> dict[str, dict[str, Any]]:
    """What ``doctor`` finds on this machine, by name of the check. A run of it takes seconds."""
    answer = subprocess.run(
        [AGENT, "doctor", "--json"], capture_output=True, text=True, check=True, timeout=300
    )
    return {finding["name"]: finding for finding in json.loads(answer.stdout)["findings"]}


def is_free() -> bool:
    """Whether no launch runs on this machine."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def device_of(server: "subprocess.Popen[str]") -> str:
    """The device that a swapd names in its first line; fails with its errors if there is none."""
    assert server.stdout and server.stderr
    line = line_of(server.stdout)
    assert line, server.stderr.read()
    return line.split(" at ")[1].split()[0]
