"""The header of a recording describes this machine.

Needs root and an agent with BPF; one test also needs swap areas, zram and memory cgroups.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from groups import MIB, Group, entering
from touches import TOUCH, swap_file

import pagewise as pw

PAGEWISE = AGENT.with_name("pagewise")
REFUSAL = refusal("record --swap")
SWAP_REFUSAL = REFUSAL or refusal("swapon", "zram", "memory-cgroup")
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
SYSFS = Path("/sys")


def recorded(
    folder: Path, *options: str, command: Sequence[str] = ("true",)
) -> tuple[Path, dict[str, Any]]:
    """Records a command; returns the trace, and its description of the machine."""
    recording, trace = folder / "work.pgr", folder / "work.parquet"
    words = [AGENT, "record", "-o", recording, *options, "--", *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pw.import_trace(recording, trace)
    header = pw.read(trace).header
    assert pw.read(recording).header["recorder"] == header["recorder"]
    system: dict[str, Any] = header["recorder"]["system"]
    return trace, system


def kernel_memory_bytes() -> int:
    line = Path("/proc/meminfo").read_text().splitlines()[0]
    return int(line.split()[1]) * 1024


def test_a_trace_describes_the_machine(tmp_path: Path) -> None:
    trace, system = recorded(tmp_path)
    recorder = pw.read(trace).header["recorder"]
    assert recorder["kernel"] == platform.release()
    assert recorder["memory_bytes"] == kernel_memory_bytes()
    paths = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    assert [area["path"] for area in system["areas"]] == paths
    features = system["features"]
    assert features["zswap"] == switched_on(SYSFS / "module/zswap/parameters/enabled")
    vmstat = Path("/proc/vmstat").read_text()
    assert features["keeps_zeros_out"] == ("swpout_zero" in vmstat)
    # The modules may be there without their devices, but a device means the feature.
    if all(Path("/dev", name).exists() for name in ("fuse", "loop-control")):
        assert features["has_fuse_loop"] is True
    assert all(isinstance(features[name], bool) for name in ("has_nbd", "has_ublk"))
    if root := system["root"]:
        assert (SYSFS / "block" / root["name"]).exists()
    printed = subprocess.check_output([PAGEWISE, "info", trace], text=True, timeout=300)
    assert f"Linux {platform.release()}" in printed


def switched_on(path: Path) -> bool | None:
    return path.read_text().strip() == "Y" if path.exists() else None


def test_a_recording_of_a_group_has_its_limit(tmp_path: Path) -> None:
    with Group(64 * MIB) as group:
        _, system = recorded(tmp_path, "--cgroup", str(group.folder))
    assert system["limit_bytes"] == 64 * MIB


@contextmanager
def zram(algorithm: str, mib: int) -> Iterator[str]:
    """A zram device of this size, with compressible pages; removed afterwards."""
    control = SYSFS / "class/zram-control"
    name = f"zram{(control / 'hot_add').read_text().strip()}"
    try:
        settings = SYSFS / "block" / name
        if algorithm not in (settings / "comp_algorithm").read_text():
            pytest.skip(f"this kernel's zram has no {algorithm}")
        (settings / "comp_algorithm").write_text(algorithm)
        (settings / "disksize").write_text(str(mib * MIB))
        with open(f"/dev/{name}", "wb") as device:
            for page in range(8 * MIB // 4096):
                device.write((page.to_bytes(4, "big") * 256 + os.urandom(1024)) * 2)
        yield name
    finally:
        (SYSFS / "block" / name / "reset").write_text("1")
        (control / "hot_remove").write_text(name.removeprefix("zram"))


@pytest.mark.skipif(SWAP_REFUSAL is not None, reason=str(SWAP_REFUSAL))
def test_areas_and_zram_are_recorded_and_advice_uses_them(tmp_path: Path) -> None:
    with zram("lz4", 32) as name, swap_file(tmp_path, 96) as file, Group(32 * MIB) as group:
        work = [*entering(group.folder), sys.executable, "-c", TOUCH.format(mib=60, touches=2000)]
        trace, system = recorded(tmp_path, "--cgroup", str(group.folder), command=work)
        counts = (SYSFS / "block" / name / "mm_stat").read_text().split()
    area = next(area for area in system["areas"] if area["path"] == str(file))
    assert (area["kind"], area["priority"]) == ("file", 32000)
    assert area["disk"] is None or (SYSFS / "block" / area["disk"]["name"]).exists()
    device = system["zram"][name]
    assert (device["algorithm"], device["bytes"]) == ("lz4", 32 * MIB)
    assert [device["orig_data_bytes"], device["mem_used_bytes"]] == [int(counts[0]), int(counts[2])]

    command = [PAGEWISE, "advise", "swap", trace, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if area["disk"] is None or area["disk"]["class"] in ("virtual", "unknown"):
        assert answer.returncode == 2 and ": --slow is needed: " in answer.stderr
        command += ["--slow", "ufs-3.1"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    # Status 1: the recording is too short to advise a size.
    assert answer.returncode == 1, answer.stderr
    advice = json.loads(answer.stdout)
    taken = {default["option"]: default["value"] for default in advice["defaults"]}
    assert (taken["--fast"], taken["--memory"]) == ("zram-lz4", 32 * MIB)
    assert taken["--compression"] == round(int(counts[0]) / int(counts[2]), 2) > 1.2
    assert advice["machine"]["areas"] == system["areas"]
