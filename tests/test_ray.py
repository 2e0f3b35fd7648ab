"""One grid gives the same bytes on a Ray cluster, even if a worker dies in the middle."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import waiting
from commands import ran
from scenarios import SMALL

from pagewise import scratch
from pagewise.engines.ray import RayEngine
from pagewise.engines.recordings import runner_named
from pagewise.fleet import Fleet, summary
from pagewise.grids import cells, memory
from pagewise.grids.run import sweep

ray = pytest.importorskip("ray", reason="ray is not installed; it comes with the extra 'ray'")
pytestmark = pytest.mark.slow

WORKERS = 2


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster on this machine, for this module."""
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
    """Processes of Ray workers that are running a task of ours."""
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
    """Waits for the first finished cells, then kills a busy worker."""
    while time.monotonic() < until:
        if journal.exists() and journal.stat().st_size and (running := workers()):
            os.kill(running[0], signal.SIGKILL)
            killed.append(running[0])
            return
        time.sleep(0.005)


SPEC = """
seeds = [0, 1, 2, 3]
sizes = ["1MiB", "2MiB", "4MiB", "8MiB", "16MiB", "32MiB"]
[[scenario]]
name = "long"
apps = 10
memory_mib = 200
rounds = 4
[[device]]
fast = "4/5us"
slow = "90/40us"
[[architecture]]
name = "hierarchical"
options = { eviction = ["lru", "clock"] }
[[architecture]]
name = "hybrid"
options = { entry_bit = [0, 1] }
"""


@pytest.mark.long
def test_same_bytes_as_local_though_a_worker_dies(cluster, tmp_path: Path):
    spec = tomllib.loads(SPEC)
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


@contextmanager
def swept(folder: Path, place: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the grid as a command with its own Ray cluster and temporary files in ``place``."""
    (folder / "grid.toml").write_text(SPEC)
    command = [sys.executable, "-m", "pagewise", "sweep", "grid.toml", "-o", "results.parquet"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "TMPDIR": str(place), "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_TMPDIR", None)
    with waiting.running(
        [*command, "--engine", "ray", "--jobs", str(WORKERS), "--json"],
        cwd=folder,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
    ) as process:
        yield process


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files whose name is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.long
def test_json_is_all_of_standard_output_though_a_worker_dies(tmp_path: Path, place: Path) -> None:
    killed: list[int] = []
    with swept(tmp_path, place) as process:
        journal = tmp_path / "results.parquet.journal"
        kill_one_in_the_middle(journal, killed, time.monotonic() + 120)
        shown, diagnostics = process.communicate(timeout=300)
    assert killed, "no worker was at work when the killer looked"
    assert process.returncode == 0, diagnostics
    assert json.loads(shown)["failed"] == []


@pytest.mark.long
def test_the_next_run_removes_what_a_killed_run_left(tmp_path: Path, place: Path) -> None:
    with swept(tmp_path, place) as process:
        journal = tmp_path / "results.parquet.journal"
        assert waiting.within(120, lambda: journal.exists() and bool(workers()))
        process.kill()
        process.wait(60)
        assert list(place.iterdir()), "the killed run left nothing to remove"
        assert waiting.within(120, lambda: not workers()), "Ray keeps running without its driver"
    with swept(tmp_path, place) as process:
        _, diagnostics = process.communicate(timeout=300)
        assert process.returncode == 0, diagnostics

    def is_clear() -> bool:
        # Workers of the run may still be ending.
        scratch.clear(place)
        return not list(place.iterdir())

    assert waiting.within(60, is_clear), list(place.rglob("*"))


def test_cells_that_no_node_has_memory_for_run_one_at_a_time(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spec = {
        "scenario": [SMALL],
        "sizes": ["1MiB", "4MiB", "16MiB"],
        "device": [{"fast": "4/5us", "slow": "90/40us"}],
        "architecture": [{"name": "hybrid"}, {"name": "nvm-cache"}],
    }
    local, remote = tmp_path / "local.parquet", tmp_path / "remote.parquet"
    sweep(spec, local)
    monkeypatch.setattr(memory, "BYTES_PER_PAGE", 2**40)
    asked = []
    started = RayEngine._started

    def noted(engine: RayEngine, task: cells.Task, run: str):
        asked.append((len(task.cells), task.held_bytes > engine.node_bytes > 0))
        return started(engine, task, run)

    monkeypatch.setattr(RayEngine, "_started", noted)
    assert sweep(spec, remote, engine="ray")["failed"] == []
    assert asked == [(1, True)] * 6
    assert remote.read_bytes() == local.read_bytes()


def traces_in(folder: Path, count: int) -> Path:
    """Recordings of a few accesses, and a file that is none."""
    folder.mkdir()
    for number in range(count):
        rows = (f"{time},{time * (number + 3) % 17}" for time in range(50 + number))
        (folder / f"{number:02}.csv").write_text("\n".join(["time,id", *rows, ""]))
    (folder / "note.bin").write_bytes(bytes(range(256)))
    return folder


def test_a_folder_has_the_same_bytes_on_ray(
    cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = traces_in(tmp_path / "fleet", 40)
    for command in (["analyze"], ["misses", "--policy", "lru,fifo", "--frames", "4"]):
        name, *options = command
        asked = [name, str(folder), *options, "--json"]
        _, expected, _ = ran(*asked, capsys=capsys)
        status, output, diagnostics = ran(*asked, "--engine", "ray", capsys=capsys)
        assert status == 0 and output == expected and "note.bin" in diagnostics
        asked[1] = f"file://{folder}"
        _, output, _ = ran(*asked, "--engine", "ray", capsys=capsys)
        assert output.replace("file://", "") == expected


def test_a_recording_whose_worker_dies_is_read_again(cluster, tmp_path: Path) -> None:
    folder, mark = traces_in(tmp_path / "fleet", 6), tmp_path / "killed"

    def figures_of(path: str) -> dict[str, float]:
        if path.endswith("03.csv") and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if path.endswith("04.csv"):
            raise RuntimeError("a mistake in this program")
        return {"events": float(len(Path(path).read_bytes()))}

    files = sorted(map(str, folder.glob("*.csv")))
    with runner_named("ray", address=None, jobs=None) as run:
        found: Fleet = summary("analyze", files, figures_of, run=run)
    assert mark.exists() and found["traces"] == 5
    (failed,) = found["unreadable"]
    assert failed["trace"] == files[4] and "failed in its worker" in failed["error"]
    assert "a mistake in this program" in failed["error"]
