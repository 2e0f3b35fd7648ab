"""``record --ring`` keeps what happened before a kill, and stays within its bounds.

Needs root, BPF and a memory cgroup.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from groups import MIB, Group, entering
from waiting import running, within

import pagewise as pw

REFUSAL = refusal("record --kills")
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))

# A program of this name waits for a while, and then grows until the kernel kills it.
GROWS = """
import sys, time
open("/proc/self/comm", "w").write("grows")
time.sleep(float(sys.argv[1]))
held = []
while True:
    held.append(bytearray(b"x" * (1 << 20)))
    time.sleep(0.002)
"""


class Ring:
    """A running recorder, its folder, and the file of its messages."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, messages: Path) -> None:
        self.process = process
        self.folder = folder
        self.messages = messages

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.pgr"))

    def says(self, text: str, times: int = 1) -> None:
        """Waits until the recorder has printed a text this number of times; fails if it ends."""

        def has_message() -> bool:
            return self.messages.read_text().count(text) >= times or self.process.poll() is not None

        assert within(60, has_message), self.messages.read_text()
        assert self.process.poll() is None, self.messages.read_text()

    def ask(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    def end(self) -> dict[str, Any]:
        """Ends the recorder; returns its report."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 130, self.messages.read_text()
        report: dict[str, Any] = json.loads(out)
        return report


@contextmanager
def ring(folder: Path, *options: str | Path) -> Iterator[Ring]:
    """A recorder with a ring, from its first event on."""
    folder.mkdir(exist_ok=True)
    words = [AGENT, "record", "--json", "-o", folder, *options]
    messages = folder.parent / "messages"
    with messages.open("w") as errors:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors}
        with running(words, text=True, **streams) as process:
            recorder = Ring(process, folder, messages)
            recorder.says("recording into memory")
            yield recorder


def info(path: Path) -> dict[str, Any]:
    """What `pagewise info` finds in a file."""
    words = [AGENT.with_name("pagewise"), "info", "--json", path]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_kill_in_a_group_is_kept_with_what_came_before(tmp_path: Path) -> None:
    with Group(64 * MIB) as group:
        command = [*entering(group.folder), sys.executable, "-c", GROWS, "3"]
        options = ("--ring", "60s", "--after", "1s", "--cgroup", group.folder)
        with ring(tmp_path / "kept", *options) as recorder:
            # The program begins before the kept part could, and its name comes from a snapshot.
            with running(command) as grows:
                assert within(60, lambda: len(recorder.files()) == 1)
                assert within(60, lambda: grows.poll() is not None)
            assert grows.returncode == -signal.SIGKILL
            recorder.says("before and")
            report = recorder.end()
    (kept,) = report["kept"]
    assert (kept["trigger"], kept["process"]) == ("oom-kill", grows.pid)
    assert (kept["lost"], kept["failure"], report["not_kept"]) == (0, None, 0)
    assert 2 <= kept["before_s"] <= 60
    assert 0.9 <= kept["after_s"] <= 3
    (path,) = recorder.files()
    assert str(path) == kept["path"] and path.stat().st_size == kept["bytes"]
    assert path.name.endswith("-oom-kill.pgr")

    result = pw.replay_kills(path, policy="largest")
    recorded = {kill["process"]: kill for kill in result["recorded"]}
    assert recorded[grows.pid]["has_moment"]
    # The program is alive in moments before the kill, so the file has what led to it.
    assert kept["before_s"] * 5 <= result["moments"] * 2
    found = info(path)
    assert found["events"]["oom_kill"] == 1
    shown = subprocess.run(
        [AGENT.with_name("pagewise"), "info", path], capture_output=True, text=True, timeout=120
    )
    assert f"oom-kill of process {grows.pid}" in shown.stdout
    about = found["header"]["recorder"]
    assert about["kept"]["process"] == grows.pid
    assert about["kept"]["trigger"] == "oom-kill"
    before_ns = about["kept"]["trigger_ns"] - about["kept"]["begins_ns"]
    assert before_ns / 1e9 == pytest.approx(kept["before_s"])


def test_the_ring_keeps_only_the_last_seconds(tmp_path: Path) -> None:
    with ring(tmp_path / "kept", "--ring", "2s", "--keep-on", "signal") as recorder:
        time.sleep(6)
        recorder.ask()
        assert within(60, lambda: len(recorder.files()) == 1)
        # A second request joins the file.
        recorder.ask()
        report = recorder.end()
    (kept,) = report["kept"]
    assert kept["trigger"] == "signal" and kept["process"] is None
    # A segment is a sixteenth of the ring; the recorder looks up to 20 times a second.
    assert 1.9 <= kept["before_s"] <= 2.6


def test_processes_that_run_before_the_kept_part_have_names(tmp_path: Path) -> None:
    with Group(64 * MIB) as group, running([*entering(group.folder), "sleep", "1000"]) as sleeper:
        options = ("--ring", "1s", "--cgroup", group.folder)
        with ring(tmp_path / "kept", *options) as recorder:
            time.sleep(3)
            sleeper.kill()
            assert within(60, lambda: len(recorder.files()) == 1)
            assert sleeper.wait(60) == -signal.SIGKILL
            report = recorder.end()
    assert report["kept"][0]["process"] == sleeper.pid
    moments = pw.replay_kills(recorder.files()[0], policy="largest")["recorded"]
    names = {kill["process"]: kill["name"] for kill in moments}
    assert names[sleeper.pid] == "sleep"


def test_only_the_last_files_stay_and_others_are_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    foreign = folder / "20200101T000000Z-kill.pgr"
    foreign.write_text("not ours")
    options = ("--ring", "20s", "--after", "100ms", "--keep", "2")
    # Other programs of the machine may be killed too.
    with Group(64 * MIB) as group, ring(folder, *options, "--cgroup", group.folder) as recorder:
        for number in range(1, 5):
            with running([*entering(group.folder), "sleep", "1000"]) as victim:
                assert within(60, lambda victim=victim: victim.pid in group.processes())
                victim.kill()
                # Once it is reaped, the end of the block kills nothing.
                assert victim.wait(60) == -signal.SIGKILL
                # The next kill comes after the end of this file.
                recorder.says("before and", number)
        report = recorder.end()
    assert recorder.messages.read_text().count("removed, as the oldest file") == 2
    assert len(report["kept"]) == 2
    assert {Path(kept["path"]) for kept in report["kept"]} | {foreign} == set(recorder.files())
    assert foreign.read_text() == "not ours"
    # No event is in two files: each begins where the one before it ends.
    first, second = (Path(kept["path"]) for kept in report["kept"])
    assert ends_ns(first) <= begins_ns(second)


def begins_ns(path: Path) -> int:
    begins: int = info(path)["header"]["recorder"]["kept"]["begins_ns"]
    return begins


def ends_ns(path: Path) -> int:
    """When the last event of the file happened, by the clock of the kernel."""
    found = info(path)
    return begins_ns(path) + int(found["duration_s"] * 1e9)


def test_a_folder_that_is_absent_is_refused_at_once(tmp_path: Path) -> None:
    words = [AGENT, "record", "--ring", "10s", "-o", tmp_path / "absent"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert f"mkdir -p {tmp_path / 'absent'}" in ran.stderr


def test_a_folder_that_is_removed_later_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with ring(folder, "--ring", "10s", "--after", "100ms", "--keep-on", "signal") as recorder:
        folder.rmdir()
        recorder.ask()
        recorder.says("not kept")
        assert "not kept: SIGUSR1: No such file" in recorder.messages.read_text()
        folder.mkdir()
        recorder.ask()
        assert within(60, lambda: len(recorder.files()) == 1)
        report = recorder.end()
    assert (report["not_kept"], len(report["kept"])) == (1, 1)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "pagewise-test", folder],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True, timeout=60)


def test_a_disk_without_room_gets_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    options = ("--ring", "10s", "--keep-on", "signal", "--after", "100ms")
    with small_disk(folder, "8m"), ring(folder, *options) as recorder:
        recorder.ask()
        recorder.says("not kept")
        assert "lower --leave-free" in recorder.messages.read_text()
        report = recorder.end()
        assert recorder.files() == []
    assert (report["not_kept"], report["kept"]) == (1, [])


def test_a_disk_that_fills_up_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    options = ("--ring", "60s", "--after", "50s", "--leave-free", "0B", "--keep-on", "signal")
    with small_disk(folder, "4m"), ring(folder, *options, "--kills") as recorder:
        recorder.ask()
        assert within(60, lambda: len(recorder.files()) == 1)
        (folder / "filler").write_bytes(b"")
        with (folder / "filler").open("wb") as filler:
            while True:
                try:
                    os.write(filler.fileno(), bytes(4096))
                except OSError:
                    break
        recorder.says("ended early: No space left")
        report = recorder.end()
        (path,) = recorder.files()
        assert pw.replay_kills(path, policy="largest")["moments"] > 0
    assert "No space left" in report["kept"][0]["failure"]


def test_the_end_of_the_command_keeps_its_last_kill(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    with Group(64 * MIB) as group:
        command = [*entering(group.folder), "sh", "-c", "sleep 1; kill -9 $$"]
        options = ["--json", "--ring", "10s", "--cgroup", group.folder, "-o", folder]
        ran = subprocess.run(
            [AGENT, "record", *options, "--", *command], capture_output=True, text=True, timeout=120
        )
    assert ran.returncode == 137, ran.stderr
    report = json.loads(ran.stdout)
    assert report["exit_status"] == 137
    (kept,) = report["kept"]
    assert kept["trigger"] == "kill"
    # The command is not spared by the OOM killer as its recorder is.
    adj = Path("/proc/self/oom_score_adj").read_text()
    script = f"cat /proc/$$/oom_score_adj > {folder}/adj"
    words = [AGENT, "record", "--ring", "10s", "-o", folder, "--", "sh", "-c", script]
    subprocess.run(words, capture_output=True, check=True, timeout=120)
    assert (folder / "adj").read_text() == adj


def stalled_percent(group: Group) -> float:
    """The share of the last ten seconds in which some task stalled for memory, in percent."""
    of_group = group.folder / "memory.pressure"
    path = of_group if of_group.exists() else Path("/proc/pressure/memory")
    return float(path.read_text().split("avg10=")[1].split()[0])


@contextmanager
def thrashing(group: Group, file: Path) -> Iterator[None]:
    """Programs in the group that read a file four times as large as its memory, again and again."""
    with file.open("wb") as sparse:
        # Without blocks on the disk: reading it fills the page cache, and the disk stays idle.
        sparse.truncate(4 * group.limit_bytes)
    script = 'while :; do cat "$1" > /dev/null; done'
    command = [*entering(group.folder), "sh", "-c", script, "sh", file]
    with ExitStack() as readers:
        for _ in range(4):
            readers.enter_context(running(command))
        yield


def test_stalls_for_memory_are_kept_once_while_they_last(tmp_path: Path) -> None:
    percent = 5
    if not Path("/proc/pressure/memory").exists():
        pytest.skip("the kernel reports no stalls for memory: boot it with psi=1")
    with Group(64 * MIB) as group:
        # With cgroups of version 1, other programs of the machine count too.
        if not within(120, lambda: stalled_percent(group) < percent / 2):
            pytest.skip("other programs of the machine stall for memory")
        is_of_group = (group.folder / "memory.pressure").exists()
        options = ("--ring", "60s", "--after", "1s", "--keep-on", f"psi=some:{percent}%")
        with ring(tmp_path / "kept", *options, "--cgroup", group.folder) as recorder:
            assert recorder.files() == []
            with thrashing(group, tmp_path / "file"):
                assert within(60, lambda: len(recorder.files()) == 1), stalled_percent(group)
                recorder.says("before and")
                # The share is still high, so it triggers no second time.
                assert stalled_percent(group) >= percent
                report = recorder.end()
    (kept,) = report["kept"]
    (path,) = recorder.files()
    assert (kept["trigger"], kept["process"], kept["path"]) == ("psi", None, str(path))
    assert (kept["failure"], report["not_kept"]) == (None, 0)
    assert path.name.endswith("-psi.pgr")
    # The kernel averages every two seconds, and 5 % of ten seconds take half a second.
    assert 0.5 <= kept["before_s"] <= 64 and 0.9 <= kept["after_s"] <= 3
    found = info(path)
    assert found["header"]["recorder"]["kept"]["trigger"] == "psi"
    # The readers began before the trigger.
    assert found["events"]["exec"] >= 4
    absent = {each["what"]: each["why"] for each in report["absent"]}
    assert ("stalls of the cgroup" in absent) != is_of_group
    if not is_of_group:
        assert "those of the machine" in absent["stalls of the cgroup"]
        assert "psi= looks at those of the machine" in recorder.messages.read_text()


@pytest.mark.long
def test_a_full_ring_keeps_the_last_part_in_bounded_memory(tmp_path: Path) -> None:
    options = ("--ring", "10min", "--ring-bytes", "1MiB", "--buffer", "64KiB", "--kills")
    with ring(tmp_path / "kept", *options, "--keep-on", "signal", "--after", "1s") as recorder:
        begun = time.monotonic()
        storm = "for i in $(seq 300); do sleep 1000 & done; wait"
        with running(["sh", "-c", storm]):
            # 300 processes in each moment: a fifth of a second takes some kilobytes.
            time.sleep(20)
            recorder.ask()
            assert within(60, lambda: len(recorder.files()) == 1)
        time.sleep(2)
        lasted = time.monotonic() - begun
        report = recorder.end()
    (kept,) = report["kept"]
    assert kept["before_s"] < lasted - 5
    assert kept["bytes"] < 2 * MIB
    # The recorder's other memory is that of any recording.
    assert report["peak_bytes"] < 64 * MIB
