"""The balloon as a user runs it: it takes memory, ends when memory is short, and leaves nothing.

Needs root and memory cgroups; a skipped test says what is missing.
"""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import HANGS_AFTER_S, MIB, Group
from waiting import line_of

pytestmark = pytest.mark.skipif(
    refusal("memory-cgroup") is not None, reason=str(refusal("memory-cgroup"))
)


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(300 * MIB) as group:
        yield group


def started(group: Group, *arguments: str) -> "subprocess.Popen[str]":
    command = [AGENT, "balloon", *arguments, "--within", group.folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def used(folder: Path) -> int:
    names = ("memory.usage_in_bytes", "memory.current")
    return next(int((folder / name).read_text()) for name in names if (folder / name).exists())


def wait_until_gone(folder: Path) -> None:
    late = time.monotonic() + HANGS_AFTER_S
    while folder.exists():
        assert time.monotonic() < late, f"{folder} is left"
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["anon", "file", "dirty", "shared"])
def test_the_balloon_takes_its_target_and_frees_all_of_it(group: Group, kind: str) -> None:
    balloon = started(group, "64MiB", "--kind", kind, "--threads", "2", "--for", "60s")
    try:
        event = re.fullmatch(r'event=filled bytes=(\d+) cgroup="(.*)"\n', line_of(balloon.stdout))
        assert event is not None
        folder = Path(event[2])
        assert folder.parent == group.folder
        assert used(folder) >= 60 * MIB
        (holder,) = map(int, (folder / "cgroup.procs").read_text().split())
        assert Path(f"/proc/{holder}/oom_score_adj").read_text() == "1000\n"
        assert Path(f"/proc/{holder}/comm").read_text() == "balloon\n"
        balloon.send_signal(signal.SIGTERM)
        rest, _ = balloon.communicate(timeout=HANGS_AFTER_S)
        assert (rest, balloon.returncode) == ('event=end why="a signal or --for ended it"\n', 0)
        assert not folder.exists()
    finally:
        balloon.kill()
        balloon.wait(timeout=HANGS_AFTER_S)


def test_a_killed_balloon_leaves_no_process_and_no_group(group: Group) -> None:
    balloon = started(group, "32MiB", "--for", "60s")
    try:
        event = re.search(r'cgroup="(.*)"', line_of(balloon.stdout))
        assert event is not None
        holder = int((Path(event[1]) / "cgroup.procs").read_text())
    finally:
        balloon.kill()
        balloon.wait(timeout=HANGS_AFTER_S)
    wait_until_gone(Path(event[1]))
    wait_until_gone(Path(f"/proc/{holder}"))


def test_the_balloon_never_exceeds_its_limit(group: Group) -> None:
    arguments = ["100MiB", "--limit", "32MiB", "--for", "60s"]
    balloon = started(group, *arguments)
    try:
        output, _ = balloon.communicate(timeout=HANGS_AFTER_S)
    finally:
        balloon.kill()
        balloon.wait(timeout=HANGS_AFTER_S)
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("needs a machine without swap, which would take the memory")
    why = "the kernel killed it: its cgroup or a parent reached its limit"
    assert output.endswith(f'event=end why="{why}"\n')
    assert balloon.returncode == 1


def test_the_balloon_ends_when_available_memory_is_below_the_floor(group: Group) -> None:
    balloon = started(group, "32MiB", "--floor", "4000GiB", "--for", "60s")
    try:
        output, _ = balloon.communicate(timeout=HANGS_AFTER_S)
    finally:
        balloon.kill()
        balloon.wait(timeout=HANGS_AFTER_S)
    assert output.endswith('event=end why="less memory was available than --floor"\n')
    assert not any(path.is_dir() for path in group.folder.iterdir())


def test_a_target_of_available_memory_leaves_that_memory_available(group: Group) -> None:
    balloon = started(group, "available:100MiB", "--for", "60s")
    try:
        event = re.search(r"bytes=(\d+)", line_of(balloon.stdout))
        assert event is not None
        assert 150 * MIB <= int(event[1]) <= 200 * MIB
    finally:
        balloon.terminate()
        balloon.communicate(timeout=HANGS_AFTER_S)


@pytest.mark.parametrize("target", ["0%", "0MiB", "300", "pressure:20", "x"])
def test_an_invalid_target_is_refused(target: str) -> None:
    command = [AGENT, "balloon", target]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == 2
    assert "available:200MiB" in answer.stderr


def test_more_threads_than_pieces_reach_the_target(group: Group) -> None:
    balloon = started(group, "10MiB", "--threads", "64", "--for", "60s")
    try:
        assert "event=filled bytes=10485760 " in line_of(balloon.stdout)
    finally:
        balloon.kill()
        balloon.wait(timeout=HANGS_AFTER_S)


def test_a_target_of_pressure_is_refused_if_the_kernel_reports_no_stalls(group: Group) -> None:
    if (group.folder / "memory.pressure").exists():
        pytest.skip("needs a cgroup of version 1, which reports no stalls")
    command = [AGENT, "balloon", "pressure:5%", "--within", group.folder, "--for", "60s"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == 3
    assert "reports no memory stalls of this cgroup" in answer.stderr


def test_a_rate_of_zero_is_refused() -> None:
    command = [AGENT, "balloon", "5MiB", "--rate", "0B"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == 2
    assert "expected a rate above 0" in answer.stderr


def test_a_missing_folder_is_named(group: Group) -> None:
    command = [AGENT, "balloon", "5MiB", "--kind", "dirty", "--folder", "/no/such", "--for", "60s"]
    command += ["--within", group.folder]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == 3
    assert "cannot make a file in /no/such" in answer.stderr
