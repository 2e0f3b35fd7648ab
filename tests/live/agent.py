"""The agent beside this Python, and the features that this machine permits."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

AGENT = Path(sys.executable).parent / "pagewise-agent"
LOCK = Path("/run/pagewise/launch.lock")


def refusal(*checks: str) -> str | None:
    """Why tests that need these checks of ``doctor`` cannot run here; None if they can."""
    if os.geteuid() != 0:
        return "needs root"
    if not AGENT.exists():
        return "no pagewise-agent beside this Python: make build"
    answer = subprocess.run(
        [AGENT, "doctor", "--json"], capture_output=True, text=True, check=True, timeout=300
    )
    findings = {finding["name"]: finding for finding in json.loads(answer.stdout)["findings"]}
    refused = (name for name in checks if not findings[name]["is_granted"])
    return next((f"{name}: {findings[name]['detail']}" for name in refused), None)


def is_free() -> bool:
    """Whether no launch runs on this machine."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
