"""`pagewise-agent pages` on programs of several kinds, beside what a zram swap area makes of them.

Needs root, zram and memory cgroups; a skipped test says what is missing.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, is_free, refusal
from groups import HANGS_AFTER_S, MIB, Group, entering
from waiting import line_of
from zram_area import ZramArea, anonymous_ranges, page_out, zram_area

from pagewise.advice.zram import advise_zram
from pagewise.advice.zram_settings import NUMBER_FILE

CHECKS = ("zram", "memory-cgroup", "process-madvise")
pytestmark = pytest.mark.skipif(refusal(*CHECKS) is not None, reason=str(refusal(*CHECKS)))

PROGRAM = Path(__file__).parents[2] / "bench" / "zram_heap.py"
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
NODE = """
const kept = [];
for (let i = 0; i < 120000; i++)
  kept.push({id: i, name: "user" + i, at: Math.random(), to: [i % 7]});
console.log("ready");
process.stdin.resume();
"""
COMMANDS: dict[str, list[str]] = {
    kind: [sys.executable, str(PROGRAM), kind, "48"] for kind in ("objects", "documents", "noise")
} | {"node": ["node", "-e", NODE]}


def zram_devices() -> set[str]:
    return {path.name for path in Path("/sys/block").glob("zram*")}


@contextlib.contextmanager
def program(kind: str) -> Iterator["subprocess.Popen[str]"]:
    command = COMMANDS[kind]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with Group(1024 * MIB) as group:
        started = subprocess.Popen(
            [*entering(group.folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert line_of(started.stdout).startswith("ready")
            yield started
        finally:
            started.kill()
            started.communicate(timeout=HANGS_AFTER_S)


def pages(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [AGENT, "pages", "--json", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_S,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("by", ["zram", "library"])
def test_the_forecast_is_what_a_zram_swap_area_holds(kind: str, by: str) -> None:
    if not is_free():
        pytest.skip("a launch runs on this machine, and a swap area would change it")
    before = zram_devices()
    algorithm = "lzo-rle" if by == "zram" else "lz4"
    with program(kind) as started:
        wanted = ("--pid", str(started.pid), "--algorithms", algorithm, "--by", by)
        (forecast,) = pages(*wanted)["processes"]
        with zram_area(algorithm, 1024 * MIB) as area:
            page_out(started.pid, anonymous_ranges(started.pid))
            status = Path(f"/proc/{started.pid}/status").read_text()
            counts = area.counts()
            started.kill()
    assert zram_devices() == before
    stored = counts["orig_data_size"] / PAGE_BYTES - counts["same_pages"]
    # The kernel keeps pages of zeros out of the area since Linux 6.12, and does not page out what
    # programs share.
    others = forecast["pages_resident"] * (1 - forecast["same_filled_share"])
    assert stored == pytest.approx(others, rel=0.1), status
    found = forecast["algorithms"][algorithm]
    assert counts["compr_data_size"] == pytest.approx(stored * found["bytes_per_page"], rel=0.05)
    pool = stored * found["pool_bytes_per_page"] + found["pool_bytes_free"]
    assert counts["mem_used_total"] == pytest.approx(pool, rel=0.05)


def test_the_pasted_settings_hold_what_the_advice_says_to_check(tmp_path: Path) -> None:
    if not is_free():
        pytest.skip("a launch runs on this machine, and a swap area would change it")
    if Path(NUMBER_FILE).exists():
        pytest.skip(f"{NUMBER_FILE} is of a device that somebody pasted")
    before = zram_devices()
    sample = tmp_path / "pages.json"
    with program("objects") as started:
        forecast = pages("--pid", str(started.pid))
        sample.write_text(json.dumps(forecast))
        advice = advise_zram(str(sample), memory="1GiB")
        (share,) = re.findall(r"near ([\d.]+) % of DATA", " ".join(advice["notes"]))
        setting = advice["settings"][0]
        subprocess.run(["sh", "-ec", setting["apply"]], check=True, timeout=HANGS_AFTER_S)
        try:
            area = ZramArea(int(Path(NUMBER_FILE).read_text()))
            page_out(started.pid, anonymous_ranges(started.pid))
            counts = area.counts()
            started.kill()
            started.wait(timeout=HANGS_AFTER_S)
        finally:
            subprocess.run(["sh", "-ec", setting["undo"]], check=True, timeout=HANGS_AFTER_S)
    assert zram_devices() == before and not Path(NUMBER_FILE).exists()
    assert counts["mem_limit"] == advice["limit_bytes"]
    assert counts["orig_data_size"] > 30 * MIB
    # Zspages that are not full matter in a small area.
    free = forecast["total"]["algorithms"][advice["algorithm"]]["pool_bytes_free"]
    stored = counts["orig_data_size"] - counts["same_pages"] * PAGE_BYTES
    assert counts["mem_used_total"] == pytest.approx(stored * float(share) / 100 + free, rel=0.08)


def test_a_sample_is_the_same_for_the_same_seed_and_within_its_error_of_another() -> None:
    with program("objects") as started:
        wanted = ("--pid", str(started.pid), "--algorithms", "lz4", "--by", "library")
        first, again, other = (pages(*wanted, "--seed", seed) for seed in ("1", "1", "2"))
    means, errors = [], []
    for found in (first, again, other):
        lz4 = found["total"]["algorithms"]["lz4"]
        means.append(lz4["bytes_per_page"])
        errors.append(lz4["bytes_per_page_error"])
    assert means[0] == means[1]
    assert means[0] != means[2]
    # Five standard errors of a difference: one in a million.
    assert abs(means[0] - means[2]) < 5 * (errors[0] ** 2 + errors[2] ** 2) ** 0.5


def test_pages_in_swap_are_counted_and_not_read() -> None:
    if not is_free():
        pytest.skip("a launch runs on this machine, and a swap area would change it")
    with program("objects") as started, zram_area("lzo-rle", 1024 * MIB) as area:
        page_out(started.pid, anonymous_ranges(started.pid))
        held = area.counts()["orig_data_size"]
        (found,) = pages("--pid", str(started.pid), "--algorithms", "lz4")["processes"]
        assert found["pages_swapped"] > 48 * MIB // PAGE_BYTES
        assert found["pages_resident"] < found["pages_swapped"] / 10
        assert area.counts()["orig_data_size"] == pytest.approx(held, rel=0.01)
        started.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_device_is_left_however_pages_ends(number: signal.Signals) -> None:
    before = zram_devices()
    with program("objects") as started:
        # The device exists once the guard has printed; a large sample lasts long enough.
        command = [AGENT, "pages", "--pid", str(started.pid), "--bytes", "8GiB", "--cpu", "100s"]
        sampler = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )
        try:
            while zram_devices() == before:
                assert sampler.poll() is None
            sampler.send_signal(number)
            sampler.wait(timeout=HANGS_AFTER_S)
        finally:
            sampler.kill()
            sampler.wait(timeout=HANGS_AFTER_S)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 130}.get(number, -number)
    assert sampler.returncode == expected
    wait_until(before)


def wait_until(expected: set[str]) -> None:
    """Waits until the zram devices are these: the guard of a killed sampler removes its own."""
    for _ in range(10_000):
        if zram_devices() == expected:
            return
        subprocess.run(["sleep", "0.01"], check=True, timeout=60)
    raise AssertionError(zram_devices())


def test_a_process_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [AGENT, "pages", "--pid", "4194304"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--pid 4194304: there is no such process" in done.stderr


UNUSED_USER = 3_999_999
"""A user without processes."""


def test_a_user_who_may_read_no_process_is_refused() -> None:
    command = [AGENT, "pages", "--all", "--json"]
    who: dict[str, Any] = {"user": UNUSED_USER, "group": UNUSED_USER, "extra_groups": []}
    try:
        done = subprocess.run(command, **who, capture_output=True, text=True, timeout=300)
    except PermissionError:
        pytest.skip("other users may not run the agent in this folder")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Permission denied" in done.stderr and "root may read all" in done.stderr
