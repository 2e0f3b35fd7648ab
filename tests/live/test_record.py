"""Recordings agree with the kernel's own counters, on a real swap area.

Needs root, a memory cgroup of version 1, BPF and an agent built with it; a skipped test says what
is missing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from groups import MIB, ROOTS, Group, entering
from recorder_work import is_loaded, programs_of
from touches import TOUCH, counters, swap_file, without_readahead
from waiting import running, within

import pagewise as pw
from pagewise import _core
from pagewise.recording import CLASSES

PAGEWISE = AGENT.with_name("pagewise")

REFUSAL = refusal("swapon", "record --swap", "record --faults")
if REFUSAL is None and not (ROOTS[1] / "memory.limit_in_bytes").exists():
    REFUSAL = "needs a memory cgroup of version 1"
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


# Writes huge pages of zeros, twice as many as the budget holds.
HUGE_ZEROS = """
import mmap
region = mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(mmap.MADV_HUGEPAGE)
for page in range(0, len(region), 4096):
    region[page] = 0
"""


@pytest.fixture
def budget(tmp_path: Path) -> Iterator[Path]:
    """A memory cgroup of 48 MiB with a swap file, both removed afterwards."""
    with swap_file(tmp_path, 256), Group(48 * MIB) as group:
        yield group.folder


@pytest.fixture
def alone(budget: Path) -> Path:
    """The budget, if no other program swaps: the kernel's counters cover the whole machine."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 2:
        pytest.skip("another swap area is in use: the kernel's counters would count its pages")
    return budget


def record(
    output: Path, group: Path, program: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Records a Python program that runs in `group`."""
    command = [*entering(group), sys.executable, "-c", program]
    arguments = [AGENT, "record", "-o", output, "--cgroup", group.name, *options, "--", *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300)


def test_a_recorder_that_is_swapped_out_while_it_starts_records(tmp_path: Path) -> None:
    """The recorder drops no pages that the loader changed: swap may have the only copy."""
    with swap_file(tmp_path, 256), Group(9 * MIB) as group:
        statuses = []
        while statuses.count(0) < 3:
            output = tmp_path / f"{len(statuses)}.pgr"
            ended = subprocess.run(
                [*entering(group.folder), AGENT, "record", "-o", output, "--for", "200ms"],
                capture_output=True,
                text=True,
                timeout=120,
            )
            statuses.append(ended.returncode)
            # While others keep the disk busy, the kernel may kill it when the group is full.
            assert statuses[-1] in (0, -signal.SIGKILL), ended.stderr
            assert statuses.count(-signal.SIGKILL) < 10, "too little memory to try anything"


def wait_until_begun(recorder: subprocess.Popen[Any], recording: Path) -> None:
    """Waits until the recording has begun; fails if the recorder ends."""

    def has_begun() -> bool:
        assert recorder.poll() is None
        return recording.exists() and recording.stat().st_size > 0

    assert within(60, has_begun)


def test_totals_agree_with_the_kernel(alone: Path, tmp_path: Path) -> None:
    recording = tmp_path / "touch.pgr"
    before = counters()
    finished = record(recording, alone, TOUCH.format(mib=80, touches=20_000))
    after = counters()
    assert finished.returncode == 0, finished.stderr
    assert ", 0 lost" in finished.stderr

    answer = subprocess.run(
        [PAGEWISE, "info", recording, "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    events = dict(json.loads(answer.stdout)["kinds"])
    swapped_out = after["pswpout"] - before["pswpout"]
    assert swapped_out > 5_000, "the program must be larger than its budget"
    assert events["swap_out"] == pytest.approx(swapped_out, rel=0.01)
    assert events["device_write"] == pytest.approx(swapped_out, rel=0.01)


def test_unused_parts_of_a_huge_page_are_not_swapped_out(alone: Path, tmp_path: Path) -> None:
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not huge.exists() or "[never]" in huge.read_text():
        pytest.skip("needs transparent huge pages")
    recording = tmp_path / "huge.pgr"
    before = counters()
    finished = record(recording, alone, HUGE_ZEROS)
    grown = {name: count - before[name] for name, count in counters().items()}
    assert finished.returncode == 0, finished.stderr
    # As the kernel splits a huge page that does not fit into swap, it maps zeros to the zero page.
    assert grown["thp_split_page"] > 10
    swapped_out = grown["pswpout"] + grown.get("swpout_zero", 0)
    recorded = dict(info_of(recording)["kinds"]).get("swap_out", 0)
    assert recorded == pytest.approx(swapped_out, rel=0.03, abs=100)


def test_reads_in_faults_are_of_pages_that_their_process_owns(budget: Path, tmp_path: Path) -> None:
    recording = tmp_path / "owners.pgr"
    with without_readahead():
        finished = record(recording, budget, TOUCH.format(mib=80, touches=20_000))
    assert finished.returncode == 0, finished.stderr
    answer = subprocess.run(
        [PAGEWISE, "info", recording, "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    result = json.loads(answer.stdout)
    reads = dict(result["header"]["seen"])["swap_read"]
    # The trace leaves out a read inside the fault of the page that its slot holds. The reads that
    # remain were attributed to other pages.
    of_others = dict(result["kinds"]).get("device_read", 0)
    assert reads > 5_000
    assert of_others <= 0.005 * reads


def test_record_exits_with_the_status_of_the_command(budget: Path, tmp_path: Path) -> None:
    assert record(tmp_path / "status.pgr", budget, "raise SystemExit(7)").returncode == 7


def test_a_time_that_the_clock_cannot_represent_means_no_limit(
    budget: Path, tmp_path: Path
) -> None:
    finished = record(tmp_path / "long.pgr", budget, "pass", "--for", f"{2**63}s")
    assert finished.returncode == 0, finished.stderr


def test_a_killed_recorder_leaves_a_readable_recording(tmp_path: Path) -> None:
    recording = tmp_path / "killed.pgr"
    with running([AGENT, "record", "-o", recording, "--for", "60s"]) as recorder:
        wait_until_begun(recorder, recording)
        # Samples are written every second.
        time.sleep(1.5)
        recorder.kill()
    copy = shutil.copy(recording, tmp_path / "copy.pgr")
    answer = subprocess.run(
        [PAGEWISE, "info", copy, "--json"], capture_output=True, text=True, timeout=300
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("command", [[], ["--", "sleep", "1000"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_only_the_recorder_ends_it(
    tmp_path: Path, number: signal.Signals, command: list[str]
) -> None:
    output = tmp_path / "ended.pgr"
    # Without swap, so that other programs' swapping does not matter.
    words = [AGENT, "record", "--launches", "-o", output, *command]
    with running(words, stderr=subprocess.PIPE) as recorder:
        wait_until_begun(recorder, output)
        recorder.send_signal(number)
        recorder.communicate(timeout=60)
    # Its own status is 130; with a command, it is the command's.
    assert recorder.returncode == (128 + signal.SIGTERM if command else 130)
    assert pw.info(output)["header"]["losses"] == []


def test_a_full_disk_behind_standard_output_is_an_error(tmp_path: Path) -> None:
    for arguments in (
        ["record", "--for", "10ms", "--json", "-o", tmp_path / "full.pgr"],
        ["doctor"],
    ):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [AGENT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300
            )
        assert done.returncode == 3
        assert done.stderr.endswith("No space left on device (os error 28)\n")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--", "/no/such/program"], 127, "cannot run /no/such/program"),
        (["--", "/etc/passwd"], 126, "cannot run /etc/passwd"),
        (["--pid", "4294967290", "--for", "1s"], 2, "there is no such process"),
        (["--cgroup", "no-such-group", "--for", "1s"], 3, "to list its cgroups: find /"),
        (["--buffer", "3MiB", "--for", "1s"], 2, "a power of two"),
        (["--for", "soon"], 2, "such as 60s"),
    ],
)
def test_a_refused_recording_leaves_no_file(
    arguments: list[str], status: int, message: str, tmp_path: Path
) -> None:
    recording = tmp_path / "none.pgr"
    command = [AGENT, "record", "-o", recording, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (finished.returncode, recording.exists()) == (status, False)
    assert message in finished.stderr


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    recording = tmp_path / "old.pgr"
    recording.write_text("precious")
    command = [AGENT, "record", "-o", recording, "--for", "1s"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert finished.returncode == 3 and "exists" in finished.stderr
    assert recording.read_text() == "precious"


def test_file_pages_block_requests_and_kills(budget: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(os.urandom(8 * MIB))
    with data.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    recording = tmp_path / "files.pgr"
    program = f"import os; open({str(data)!r}, 'rb').read(); os.kill(os.getpid(), 9)"
    command = [*entering(budget), sys.executable, "-c", program]
    wanted = ["--files", "--block", "--kills", "--launches", "--cgroup", budget.name]
    finished = subprocess.run(
        [AGENT, "record", "-o", recording, *wanted, "--", *command],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 128 + 9, finished.stderr

    trace = pw.read(recording)
    info = trace.info()
    assert info["sources"] == ["files", "block", "kills", "launches"]
    assert info["events"]["kill"] == 1 and info["lost"] == 0
    assert {"path": str(data), "class": "own_file"} in [
        {key: file[key] for key in ("path", "class")} for file in trace.header["files"]
    ]
    imported = tmp_path / "files.parquet"
    pw.import_trace(recording, imported)
    kinds, flags = pw.read(imported).column("kind"), pw.read(imported).column("flags")
    is_request = kinds == _core.kinds().index("request")
    is_own = (flags >> 4 & 7) == CLASSES.index("own_file")
    assert (is_request & is_own).sum() >= 8 * MIB // 4096
    assert set(pw.analyze(imported)["top_10_percent_classes"]) <= set(CLASSES)

    blocks = tmp_path / "block.parquet"
    report = pw.import_trace(recording, blocks, as_="block")
    assert report["accesses"] - report["writes"] >= 8 * MIB // 4096


def test_info_on_a_recording_of_only_block_requests_names_the_option_that_reads_them(
    tmp_path: Path,
) -> None:
    recording = tmp_path / "block.pgr"
    writing = ["dd", "if=/dev/zero", f"of={tmp_path / 'data'}", "bs=1M", "count=4", "conv=fsync"]
    command = [AGENT, "record", "--block", "-o", recording, "--", *writing]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    hint = f"pagewise info {recording} --as block"
    asked = [sys.executable, "-m", "pagewise", "info", recording]
    unread = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    assert hint in unread.stdout
    asked += ["--as", "block"]
    read = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    assert "To read" not in read.stdout and "imported from recording" in read.stdout


def info_of(recording: Path) -> dict[str, Any]:
    result: dict[str, Any] = pw.read(recording).info()
    return result


def test_losses_are_counted(budget: Path, tmp_path: Path) -> None:
    recording = tmp_path / "lossy.pgr"
    finished = record(recording, budget, TOUCH.format(mib=80, touches=20_000), "--buffer", "4KiB")
    assert finished.returncode == 4, finished.stderr
    assert "give a larger --buffer" in finished.stderr
    assert info_of(recording)["lost"] > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"]
    subprocess.run(["mount", *options, folder], check=True, timeout=300)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=300)


def test_a_full_disk_leaves_complete_blocks(budget: Path, small_disk: Path) -> None:
    recording = small_disk / "full.pgr"
    finished = record(recording, budget, TOUCH.format(mib=80, touches=200_000), "--json")
    assert finished.returncode == 3
    assert "No space left" in finished.stderr
    report = json.loads(finished.stdout)
    assert recording.stat().st_size >= report["bytes"] > 0
    info = info_of(recording)
    assert info["header"]["recorder"]["cgroup"].endswith(budget.name)
    torn = [loss["what"] for loss in info["header"]["losses"] if "cut short" in loss["what"]]
    assert not torn


def test_a_disk_that_is_full_from_the_start_leaves_nothing(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(64 << 10))
    command = [AGENT, "record", "--for", "10ms", "-o", small_disk / "full.pgr"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 3 and "a disk with more room" in finished.stderr
    assert list(small_disk.iterdir()) == [filler]


def test_with_json_the_output_of_the_command_goes_to_standard_error(tmp_path: Path) -> None:
    command = [AGENT, "record", "--json", "-o", tmp_path / "echo.pgr", "--", "echo", "hello"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert json.loads(finished.stdout)["exit_status"] == 0
    # Without a swap area a warning comes first.
    assert "hello" in finished.stderr.splitlines()


def test_a_recording_outlives_its_group(budget: Path, tmp_path: Path) -> None:
    recording = tmp_path / "vanished.pgr"
    command = [AGENT, "record", "-o", recording, "--cgroup", budget.name, "--for", "2s"]
    with running(command, stderr=subprocess.PIPE, text=True) as recorder:
        wait_until_begun(recorder, recording)
        budget.rmdir()
        _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, errors
    assert info_of(recording)["lost"] == 0


def test_the_programs_of_a_killed_recorder_are_unloaded(tmp_path: Path) -> None:
    recording = tmp_path / "killed.pgr"
    with running([AGENT, "record", "-o", recording, "--for", "60s"]) as recorder:
        wait_until_begun(recorder, recording)
        programs = programs_of(recorder.pid)
        recorder.kill()
    assert programs
    for _ in range(100):
        if not any(is_loaded(program) for program in programs):
            return
        time.sleep(0.1)
    pytest.fail("programs are still in the kernel")
