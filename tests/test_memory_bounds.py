"""Memory stays within the bounds that docs/sweep.md, docs/advise.md and docs/formats.md promise."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenarios import SMALL

import pagewise as pw
from pagewise import _core
from pagewise.engines.local import LocalEngine
from pagewise.grids import cells, memory
from pagewise.grids.memory import Size, bytes_of, free_bytes, passes
from pagewise.grids.run import sweep
from pagewise.grids.traces import TraceSource
from pagewise.lives import Life, live_all

MB = 10**6
BASE = 300 * MB
GAME = {
    "apps": 12,
    "footprint_mib": 100,
    "memory_mib": 300,
    "rounds": 2,
    "file_events": True,
    "used_percent": 60,
}
"""A phone whose apps have some 300,000 pages together."""
DEVICES = {"fast": "4/5us", "slow": "90/40us"}
PEAK = """
import re
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
"""Makes a child print its peak memory, in KiB, at the end."""
SWEEP = """
import json, sys
from pagewise.grids.run import sweep
assert not sweep(json.loads(sys.argv[1]), sys.argv[2])["failed"]
"""


NVM_CACHE = """
import json, sys
from pathlib import Path
from pagewise.grids.traces import TraceSource
from pagewise_studies import nvm_cache, sensitivity
from pagewise_studies.workloads import Workload
sizes, small, recordings, output = json.loads(sys.argv[1])
def workload(name, scenario):
    return Workload(name, (), (TraceSource(name, scenario=tuple(sorted(scenario.items()))),))
nvm_cache.phone_scenarios = lambda seeds: {
    name: [workload("rotation", {**small, "memory_mib": memory // 25})]
    for name, memory, _ in nvm_cache.checks.GENERATED_PHONES
}
nvm_cache.SIZES_MIB, sensitivity.SIZES_MIB = sizes, sizes[-1:]
Path(output).mkdir()
nvm_cache.study(Path(recordings), Path(output), seeds=1, progress=None)
"""
"""The study of recorded runs, with few sizes and small generated phones."""


def peak_of(script: str, *arguments: object, **options: Any) -> int:
    """Peak bytes of a separate Python process; ru_maxrss would include those of this process."""
    command = [sys.executable, "-c", script + PEAK, *map(str, arguments)]
    options = {"timeout": 300, "check": True, "stdout": subprocess.PIPE} | options
    return int(subprocess.run(command, text=True, **options).stdout.split()[-1]) * 1024


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of many pages."""
    path = tmp_path_factory.mktemp("game") / "game.parquet"
    _core.write_scenario(json.dumps(GAME), str(path))
    assert pw.read(path).header["pages"] > 300_000
    return path


def bound(trace: Path) -> int:
    """Bytes that a process with concurrent cells may take in all."""
    pages = pw.read(trace).header["pages"]
    running = memory.cores() * memory.cells_of_pass(memory.cores())
    return BASE + memory.BYTES_PER_PAGE * pages * running


@pytest.mark.slow
def test_advice_stays_within_its_bound(game: Path) -> None:
    script = "import sys, pagewise; pagewise.advise(sys.argv[1], fast='dram', slow='ufs-3.1')"
    assert peak_of(script, game) <= bound(game)


@pytest.mark.slow
def test_a_sweep_stays_within_its_bound(game: Path, tmp_path: Path) -> None:
    names = ("priority", "hierarchical", "hybrid", "nvm-cache", "adaptive")
    spec = {
        "traces": [str(game)],
        "sizes": ["64MiB", "256MiB", "512MiB", "1GiB"],
        "device": [DEVICES, {"fast": "10/20us", "slow": "90/40us"}],
        "architecture": [{"name": name} for name in names],
    }
    assert peak_of(SWEEP, json.dumps(spec), tmp_path / "results.parquet") <= bound(game)


@pytest.mark.slow
def test_a_sweep_of_policies_stays_within_its_bound(game: Path, tmp_path: Path) -> None:
    names = [row["name"] for row in _core.policies() if row["name"] != "opt"]
    sizes = ["64MiB", "50%", "75%", "100%"]
    policies: list[dict[str, Any]] = [{"name": name, "sizes": sizes} for name in names]
    policies.append({"name": "lru-k", "options": {"k": 4}, "sizes": sizes})
    spec = {"traces": [str(game)], "policy": policies}
    assert peak_of(SWEEP, json.dumps(spec), tmp_path / "results.parquet") <= bound(game)


@pytest.mark.long
def test_the_study_of_nvm_cache_stays_within_its_bound(tmp_path: Path) -> None:
    small = {name: value for name, value in SMALL.items() if name not in ("name", "memory_mib")}
    examples = Path(__file__).parents[1] / "examples"
    output = tmp_path / "study"
    given = json.dumps([[0, 64, 256], {**small, "file_events": True}, str(examples), str(output)])
    peak = peak_of(NVM_CACHE, given)
    traces = list(output.glob("*-swap-*.parquet"))
    assert len(traces) == len(list(examples.glob("s0-*/*/recording.pgr")))
    assert peak <= max(map(bound, traces))


def named_lines(count: int, length: int) -> Iterator[bytes]:
    """A recording of requests, each by a process with a unique name."""
    yield b"proces,device,rw_flag,sector,size,timestamp\n"
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        line = b"%0*d-%d,8388608,R,%d,8,%d.5\n"
        yield b"".join(line % (length, n, n % 30_000, n % 5000 * 8, n) for n in numbers)


@pytest.mark.parametrize(
    ("count", "length"),
    [
        (1_000_000, 10),
        pytest.param(1_000_000, 64, marks=pytest.mark.long),
        pytest.param(150_000, 255, marks=pytest.mark.long),
        (25_000, 4096),
    ],
)
@pytest.mark.slow
def test_import_and_info_of_very_many_process_names(
    tmp_path: Path, count: int, length: int
) -> None:
    trace, script = tmp_path / "trace.parquet", "import sys; from pagewise import cli;"
    recording = tmp_path / "requests.csv.gz"
    with gzip.open(recording, "wb", compresslevel=1) as file:
        file.writelines(named_lines(count, length))
    imported = peak_of(
        f"{script} assert cli.run(['import', sys.argv[1], '-o', sys.argv[2]]) == 0",
        recording,
        trace,
    )
    result = peak_of(f"{script} assert cli.run(['info', sys.argv[1], '--json']) == 0", trace)
    direct = peak_of(f"{script} assert cli.run(['info', sys.argv[1]]) == 0", recording)
    assert max(imported, result, direct) <= BASE
    info = pw.info(trace)
    assert info["processes_all"] == count
    assert len(info["processes"]) == len(info["header"]["processes"]) == min(count, 2**16)
    assert len(info["processes"][0]["name"]) == min(length, 255)
    cut = [loss["count"] for loss in info["header"]["losses"] if "cut" in loss["what"]]
    assert bool(cut) == (length * count > 2**24)


@pytest.mark.slow
def test_import_and_info_of_more_pages_than_the_table_holds(tmp_path: Path) -> None:
    recording, trace = tmp_path / "requests.oracleGeneral", tmp_path / "trace.parquet"
    fields = [("second", "<u4"), ("object", "<u8"), ("bytes", "<u4"), ("next", "<i8")]
    requests = np.zeros(13_000_000, fields)
    requests["object"] = np.arange(len(requests), dtype=np.uint64) * 2_654_435_761
    requests["bytes"], requests["next"] = 4096, -1
    requests.tofile(recording)
    script = "import sys; from pagewise import cli;"
    imported = peak_of(
        f"{script} assert cli.run(['import', sys.argv[1], '-o', sys.argv[2]]) == 0",
        recording,
        trace,
    )
    shown = peak_of(f"{script} assert cli.run(['info', sys.argv[1], '--json']) == 0", trace)
    assert max(imported, shown) <= BASE
    assert pw.info(trace)["header"]["pages"] is None


def test_passes_fill_the_room_and_none_is_empty() -> None:
    def numbers(room: int, cells_max: int) -> list[list[int]]:
        return [list(part) for part in passes([3, 4, 9, 1, 1, 1], cells_max, room, lambda n: n)]

    assert numbers(8, 10) == [[3, 4], [9], [1, 1, 1]]
    assert numbers(100, 2) == [[3, 4], [9, 1], [1, 1]]
    assert numbers(0, 10) == [[3], [4], [9], [1], [1], [1]]
    assert list(passes([], 4, 100, lambda n: n)) == []


def test_a_cell_holds_at_most_64_bytes_a_page() -> None:
    size, beside = Size(pages=1000, events=50_000), memory.BYTES_BESIDE
    assert bytes_of({"architecture": "hybrid", "ranges": "yes"}, size) == beside + 64_000
    assert bytes_of({"architecture": "adaptive"}, size) == beside + 64_000
    assert bytes_of({"architecture": "adaptive", "ranges": "yes"}, size) == 3 * (beside + 64_000)
    assert bytes_of({"architecture": "clairvoyant"}, size) > beside + 64_000 + 50_000


MEMINFO = "MemTotal:       16000000 kB\nMemFree: 100 kB\nMemAvailable:    8000000 kB\n"
MOUNTS = {
    "cgroup2": "30 25 0:26 {inside} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "cgroup": "31 25 0:27 {inside} /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n"
    "32 25 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
}
GROUPS = {"cgroup2": "0::{path}\n", "cgroup": "4:cpu:/other\n3:memory:{path}\n0::/\n"}


def machine(root: Path, version: str, path: str, inside: str, limits: dict[str, int]) -> Path:
    """A kernel's files, with control groups of these limits; each uses 1000 MB, 400 of them
    files."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/self/cgroup").write_text(GROUPS[version].format(path=path))
    (root / "proc/self/mountinfo").write_text(MOUNTS[version].format(inside=inside))
    mount = root / ("sys/fs/cgroup" if version == "cgroup2" else "sys/fs/cgroup/memory")
    names = ("memory.max", "memory.current", "")
    if version == "cgroup":
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    for group, limit in limits.items():
        folder = mount / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n" if limit else "max\n")
        (folder / names[1]).write_text(f"{1000 * MB}\n")
        statistics = f"{names[2]}active_file {100 * MB}\n{names[2]}inactive_file {300 * MB}\n"
        (folder / "memory.stat").write_text(statistics)
    return root


@pytest.mark.parametrize("version", MOUNTS)
def test_free_memory_respects_the_limits_of_groups(tmp_path: Path, version: str) -> None:
    none = machine(tmp_path / "1", version, "/a/b", "/", {"": 0, "a": 0, "a/b": 0})
    assert free_bytes(none) == 8_000_000 * 1024
    own = machine(tmp_path / "2", version, "/a/b", "/", {"": 0, "a": 0, "a/b": 1500 * MB})
    assert free_bytes(own) == 900 * MB
    above = machine(tmp_path / "3", version, "/a/b", "/", {"a": 1200 * MB, "a/b": 1500 * MB})
    assert free_bytes(above) == 600 * MB
    full = machine(tmp_path / "4", version, "/a", "/", {"a": 500 * MB})
    assert free_bytes(full) == 0
    # In a container, the process's own group is the root of the mount.
    inside = machine(tmp_path / "5", version, "/docker/1f", "/docker/1f", {"": 1100 * MB})
    assert free_bytes(inside) == 500 * MB
    named = machine(tmp_path / "6", version, "/docker/1f", "/", {"": 1100 * MB})
    assert free_bytes(named) == 500 * MB


def test_this_machine_has_free_memory() -> None:
    assert 0 < free_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


SPEC = {
    "scenario": [SMALL],
    "sizes": ["0", "1MiB", "2MiB", "4MiB"],
    "device": [DEVICES],
    "architecture": [{"name": name} for name in ("flash", "hybrid", "nvm-cache", "adaptive")],
}


@pytest.mark.parametrize(("room_cells", "at_once"), [(0, 1), (1, 1), (2, 2), (100, 3)])
def test_cells_wait_until_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_cells: int, at_once: int
) -> None:
    plain, bounded = tmp_path / "plain.parquet", tmp_path / "bounded.parquet"
    sweep(SPEC, plain)
    lock, running, most = threading.Lock(), [0], [0]
    run = cells.run

    def counted(task: cells.Task, *arguments: Any) -> list[cells.CellResult]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        try:
            return run(task, *arguments)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(cells, "run", counted)
    monkeypatch.setattr(memory, "CELLS_MAX", 1)
    monkeypatch.setattr(memory, "bytes_of", lambda *_: 1000)
    monkeypatch.setattr(memory, "room_bytes", lambda: 1000 * room_cells)
    sweep(SPEC, bounded, jobs=3)
    assert most[0] <= at_once
    assert bounded.read_bytes() == plain.read_bytes()


def test_at_least_one_task_always_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "room_bytes", lambda: 0)
    engine, task = LocalEngine(4), cells.Task(TraceSource("large"), "", (), held_bytes=10**15)
    assert engine._has_room([], task)
    assert not engine._has_room([task], task)


def test_lives_wait_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    app = {"name": "app", "anonymous_mib": 8, "cold_ms": 100, "warm_ms": 10}
    phone = {"memory_mib": 24, "apps": [app] * 3, "killer": {"rule": {"by": "none"}}}
    lives = [Life({**phone, "visits": [0, 1, 2][:count]}) for count in (3, 1, 2)]
    seen: list[tuple[int, int]] = []
    at_once = live_all(lives)
    monkeypatch.setattr(memory, "room_bytes", lambda: 0)
    assert live_all(lives, progress=lambda *pair: seen.append(pair)) == at_once
    assert seen[-1] == (6, 6)


def test_a_recording_gives_the_bytes_that_its_trace_file_gives(
    recording: Path, trace: Path, tmp_path: Path
) -> None:
    """Foreign recordings are numbered in a copy, which must not change the simulation."""
    outcomes = []
    for name, path in (("foreign", recording), ("ours", trace)):
        output = tmp_path / f"{name}.parquet"
        report = sweep({**SPEC, "scenario": [], "traces": [str(path)]}, output)
        assert report["failed"] == []
        rows = _core.read_table(str(output))["columns"]
        outcomes.append(next(column["values"] for column in rows if column["name"] == "outcome"))
    assert outcomes[0] == outcomes[1]
    result = [pw.advise(path, **DEVICES) for path in (recording, trace)]
    for advice in result:
        del advice["trace"]
    assert result[0] == result[1]
