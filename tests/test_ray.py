"""The same grid on a Ray cluster gives the same bytes, even if a worker dies in the middle."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pagewise.grids.run import sweep

ray = pytest.importorskip("ray", reason="ray is not installed; it comes with the extra 'ray'")
pytestmark = pytest.mark.slow

WORKERS = 2


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this machine alone, for this module."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80 * 2**20,
    )
    yield ray
    ray.shutdown()


def workers() -> list[int]:
    """Processes of Ray workers that run a task of ours just now."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                name = (process / "cmdline").read_bytes().split(b"\0")[0]
            except OSError:
                continue
            if name.startswith(b"ray::run_remotely"):
                found.append(int(process.name))
    return found


def kill_one_in_the_middle(journal: Path, killed: list[int], until: float) -> None:
    """Waits for the first finished cells, then kills a worker that is at work."""
    while time.monotonic() < until:
        if journal.exists() and journal.stat().st_size and (running := workers()):
            os.kill(running[0], signal.SIGKILL)
            killed.append(running[0])
            return
        time.sleep(0.005)


def test_same_bytes_as_local_though_a_worker_dies(cluster, tmp_path: Path):
    spec = {
        "scenario": [{"name": "long", "apps": 10, "memory_mib": 200, "rounds": 4}],
        "seeds": [0, 1, 2, 3],
        "sizes": [f"{size}MiB" for size in (1, 2, 4, 8, 16, 32)],
        "device": [{"fast": "4/5us", "slow": "90/40us"}],
        "architecture": [
            {"name": "hierarchical", "options": {"eviction": ["lru", "clock"]}},
            {"name": "hybrid", "options": {"entry_bit": [0, 1]}},
        ],
    }
    local = tmp_path / "local.parquet"
    sweep(spec, local)

    remote = tmp_path / "remote.parquet"
    killed: list[int] = []
    until = time.monotonic() + 120
    killer = threading.Thread(
        target=kill_one_in_the_middle, args=(Path(f"{remote}.journal"), killed, until)
    )
    killer.start()
    report = sweep(spec, f"file://{remote}", engine="ray")
    killer.join(150)
    assert killed, "no worker was at work when the killer looked"
    assert report["failed"] == []
    assert remote.read_bytes() == local.read_bytes()
