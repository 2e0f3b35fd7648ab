"""swapd as a user runs it: a command in a small cgroup on a served area, refusals, kills.

Needs root, FUSE, loop devices and memory cgroups; a skipped test says what is missing.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from groups import HANGS_AFTER_S, MIB, Group, entering
from guards import guard_of
from waiting import line_of, running

import pagewise as pw
from pagewise.advice import served
from pagewise.advice.stock_linux import Place

pytestmark = pytest.mark.skipif(
    refusal("fuse-loop", "memory-cgroup") is not None,
    reason=str(refusal("fuse-loop", "memory-cgroup")),
)
# The lowest priority, and only alone: no page of other programs comes into these areas.
IS_ALONE = len(Path("/proc/swaps").read_text().splitlines()) <= 1
alone = pytest.mark.skipif(not IS_ALONE, reason="this machine has another swap area")

LOGS = Path("/run/pagewise")
POLICIES = (
    *("flash", "priority", "hierarchical", "hybrid-clock", "hybrid", "nvm-cache"),
    "adaptive",
)
ALWAYS = ("adaptive",)
"""Policies that `make test` tries; `make test-all` tries all of them."""
# Fills memory with a number per page, reads all of it twice in another order, and exits with 7 if
# all is right.
WORK = """
import sys
pages = int(sys.argv[1]) // 4096
memory = bytearray(pages * 4096)
for page in range(pages):
    memory[page * 4096 : page * 4096 + 8] = page.to_bytes(8, "little")
for step in (7, 11):
    for turn in range(pages):
        page = turn * step % pages
        if memory[page * 4096 : page * 4096 + 8] != page.to_bytes(8, "little"):
            sys.exit(1)
sys.exit(7)
"""


# The same with pages that are compressed well, badly and not at all; some repeat one word.
MIXED = """
import mmap
import random
import sys
pages = int(sys.argv[1]) // 4096
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def content(page):
    if page % 5 == 0:
        return page.to_bytes(4, "little") * 1024
    noise = (0, 700, 2000, 3000, 4084)[page % 5]
    text = page.to_bytes(8, "little") + random.Random(page).randbytes(noise)
    return text + b"swap" * ((4096 - len(text)) // 4)
for page in range(pages):
    memory[page * 4096 : page * 4096 + 4096] = content(page)
for turn in range(pages):
    page = turn * 7 % pages
    if memory[page * 4096 : page * 4096 + 4096] != content(page):
        sys.exit(1)
sys.exit(7)
"""


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(48 * MIB) as group:
        yield group


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a disk: pytest's own may lie in memory."""
    made = subprocess.run(
        ["mktemp", "-d", "-p", "/var/tmp"], capture_output=True, text=True, check=True, timeout=60
    )
    path = Path(made.stdout.strip())
    yield path
    for name in path.iterdir():
        name.unlink()
    path.rmdir()


def words(folder: Path, *more: str) -> list[str]:
    sizes = ["--size", "256MiB", "--fast", "16MiB", "--slow", str(folder / "slow")]
    policy = [] if "--policy" in more else ["--policy", "hierarchical"]
    priority = [] if "--priority" in more else ["--priority", "0"]
    return [str(AGENT), "swapd", *sizes, *policy, *priority, "--only-swap", *more]


def areas() -> list[str]:
    """The served areas in use."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    return [line.split()[0] for line in lines if line.startswith("/dev/loop")]


def logs() -> set[str]:
    return {path.name for path in LOGS.glob("swapd-*.undo")}


@alone
@pytest.mark.parametrize("place", ["file", pytest.param("device", marks=pytest.mark.long)])
def test_a_command_finds_its_pages_and_gives_its_status(
    group: Group, folder: Path, place: str
) -> None:
    before = logs()
    work = [*entering(group.folder), sys.executable, "-c", WORK, str(120 * MIB)]
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(loop_device(folder, 257)) if place == "device" else None
        command = words(folder, "--json", "--verify", "--", *work)
        command[command.index("--slow") + 1] = device or str(folder / "slow")
        answer = subprocess.run(command, capture_output=True, text=True, timeout=2 * HANGS_AFTER_S)
    assert answer.returncode == 7, answer.stderr
    result = json.loads(answer.stdout)
    assert (result["schema"], result["through"]) == ("pagewise.swapd/1", "fuse")
    assert result["size_bytes"] == 256 * MIB and result["fast_bytes"] == 16 * MIB
    assert result["fast"]["writes"] > 0 and result["slow"]["reads"] > 0 and result["demotions"] > 0
    assert result["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    if device:
        (folder / "disk").unlink()
    assert logs() == before and list(folder.iterdir()) == []


@alone
@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.long) for name in POLICIES],
)
def test_the_desk_decides_the_moves_of_every_policy_again(
    group: Group, folder: Path, policy: str
) -> None:
    recording, moves = folder / "swapd.pgr", folder / "moves.csv"
    files = ["--record", str(recording), "--moves", str(moves), "--policy", policy]
    work = [*entering(group.folder), sys.executable, "-c", WORK, str(96 * MIB)]
    answer = subprocess.run(
        words(folder, "--json", "--verify", *files, "--", *work),
        capture_output=True,
        text=True,
        timeout=2 * HANGS_AFTER_S,
    )
    assert answer.returncode == 7, answer.stderr
    result = json.loads(answer.stdout)
    assert result["policy"] == policy and result["slow"]["writes"] > 0
    assert (result["fast"]["writes"] > 0) == (policy != "flash")
    again = pw.simulate_as_recorded(recording, moves=folder / "again.csv")
    assert again["identical"] and again["differing_moves"] == 0
    assert (folder / "again.csv").read_bytes() == moves.read_bytes() != b"event,slot,move\n"


@alone
@pytest.mark.parametrize("algorithm", ["lz4", "zstd"])
def test_a_compressed_tier_holds_more_than_its_memory_and_its_moves_are_decided_again(
    group: Group, folder: Path, algorithm: str
) -> None:
    before = logs()
    recording, moves, path = (folder / name for name in ("swapd.pgr", "moves.csv", "sock"))
    files = ["--record", str(recording), "--moves", str(moves), "--socket", str(path)]
    server = subprocess.Popen(
        words(folder, "--json", "--verify", "--compress", algorithm, *files),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not path.exists() and server.poll() is None:
            time.sleep(0.01)
        work = [*entering(group.folder), sys.executable, "-c", MIXED, str(112 * MIB)]
        program = subprocess.Popen(work)
        seen = [result_of(path)]
        while program.poll() is None:
            time.sleep(0.1)
            seen.append(result_of(path))
        assert program.wait(HANGS_AFTER_S) == 7
    finally:
        server.terminate()
        output, _ = server.communicate(timeout=HANGS_AFTER_S)
    result = json.loads(output)
    assert (result["compress"], result["fast_bytes"]) == (algorithm, 16 * MIB)
    assert result["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    assert result["fast"]["reads"] > 0 and result["slow"]["reads"] > 0 and result["demotions"] > 0
    # At the end the pages of the program are gone.
    fullest = max(seen, key=lambda each: each["compressed_pages"]["stored"])
    pages = fullest["compressed_pages"]
    assert pages["filled"] > 0 and pages["raw"] > 0
    assert 0 < fullest["compressed_bytes"] <= 16 * MIB < 4096 * pages["stored"]
    again = pw.simulate_as_recorded(recording, moves=folder / "again.csv")
    assert again["identical"] and again["fast_bytes"] == 16 * MIB
    assert (folder / "again.csv").read_bytes() == moves.read_bytes()
    assert logs() == before


def result_of(path: Path) -> dict[str, Any]:
    """What the socket at a path answers."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"\n")
        answer: dict[str, Any] = json.loads(client.makefile().read())
    return answer


@contextlib.contextmanager
def loop_device(folder: Path, mebibytes: int) -> Iterator[str]:
    """A loop device over a file."""
    path = folder / "disk"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, mebibytes * MIB)
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if made.returncode:
        pytest.skip(f"losetup: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True, timeout=60)


@alone
@pytest.mark.long
@pytest.mark.parametrize("place", ["file", "device"])
def test_a_fast_tier_on_a_disk_holds_pages_that_it_encrypts(
    group: Group, folder: Path, place: str
) -> None:
    before = logs()
    work = [*entering(group.folder), sys.executable, "-c", WORK, str(120 * MIB)]
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(loop_device(folder, 17)) if place == "device" else None
        on = ["--fast-on", device or str(folder / "fast"), "--verify", "--encrypt", "--json"]
        answer = subprocess.run(
            words(folder, *on, "--policy", "adaptive", "--", *work),
            capture_output=True,
            text=True,
            timeout=2 * HANGS_AFTER_S,
        )
        held = Path(device).read_bytes() if device else b""
    assert answer.returncode == 7, answer.stderr
    result = json.loads(answer.stdout)
    assert result["fast_on"] == on[1] and result["fast_bytes"] == 16 * MIB
    assert result["fast"]["writes"] > 0 and result["fast"]["reads"] > 0
    assert 0 < result["fast_requests"]["writes"] <= result["fast"]["writes"]
    assert result["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    if device:
        # A page of the program is a number and zeros.
        assert len(set(held[: 4096 * 4])) > 200 and bytes(1024) not in held[: 16 * MIB]
        (folder / "disk").unlink()
    assert logs() == before and list(folder.iterdir()) == []


def test_tiers_need_disks_of_their_own(folder: Path) -> None:
    before = logs()
    slow = str(folder / "slow")
    answer = started("16MiB", "1MiB", slow, "--only-swap", "--fast-on", f"{folder}/./slow")
    assert answer.returncode == 2 and "a device or file each" in answer.stderr
    answer = started("16MiB", "1MiB", slow, "--only-swap", "--fast-on", "/dev/shm/pagewise-fast")
    assert answer.returncode == 3 and "the fast tier must be on a disk" in answer.stderr
    with loop_device(folder, 1) as device:
        answer = started("16MiB", "1MiB", slow, "--only-swap", "--fast-on", device)
        assert answer.returncode == 3 and "of the fast tier; lower --fast" in answer.stderr
        with open(os.open(device, os.O_RDWR | os.O_EXCL), "rb"):
            answer = started("16MiB", "512KiB", slow, "--only-swap", "--fast-on", device)
        assert answer.returncode == 3 and "end that use, or name another device" in answer.stderr
    assert [path.name for path in folder.iterdir()] == ["disk"] and logs() == before


def pasted(text: str) -> None:
    """Runs lines as a user who pastes them, with the agent on the path."""
    path = f"{AGENT.parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", text], env={**os.environ, "PATH": path}, check=True, timeout=HANGS_AFTER_S
    )


@alone
@pytest.mark.long
@pytest.mark.parametrize("policy", ["adaptive", "nvm-cache"])
def test_advised_settings_serve_an_area_and_their_undo_removes_it(
    group: Group, folder: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    before, swaps = logs(), Path("/proc/swaps").read_text()
    monkeypatch.setattr(served, "SLOW", str(folder / "slow"))
    monkeypatch.setattr(served, "LOG", str(folder / "log"))
    with loop_device(folder, 17) as device:
        monkeypatch.setattr(served, "FAST", device)
        options = {"victims_in_memory": "write", "slot_on_swapin": "keep", "on_hit": "keep"}
        known = {"adaptive": ["victims_in_memory"], "nvm-cache": ["on_hit"]}[policy]
        chosen = {name: options[name] for name in known}
        _, by_hand = served.settings(policy, 16 * MIB, chosen, Place(swap_bytes=200 * MIB))
        pasted(by_hand.apply)
        try:
            late = time.monotonic() + HANGS_AFTER_S
            while not areas() and time.monotonic() < late:
                time.sleep(0.05)
            work = [*entering(group.folder), sys.executable, "-c", WORK, str(120 * MIB)]
            answer = subprocess.run(work, timeout=2 * HANGS_AFTER_S)
            assert (answer.returncode, len(areas())) == (7, 1), (folder / "log").read_text()
        finally:
            pasted(by_hand.undo)
        log = (folder / "log").read_text()
        assert f"16 MiB at {device}" in log and re.search(r"fast tier: \d+ reads, [1-9]", log), log
    assert Path("/proc/swaps").read_text() == swaps and logs() == before
    assert not Path("/swapfile.pagewise").exists() and not (folder / "slow").exists()


@alone
def test_a_signal_ends_it_and_leaves_nothing(folder: Path) -> None:
    before = logs()
    server = subprocess.Popen(words(folder), stdout=subprocess.PIPE, text=True)
    assert server.stdout
    device = line_of(server.stdout).split(" at ")[1].split()[0]
    assert device in areas() and list(folder.iterdir()) == []
    server.send_signal(signal.SIGTERM)
    rest, _ = server.communicate(timeout=HANGS_AFTER_S)
    assert server.returncode == 0 and "promotions" in rest
    assert device not in areas() and logs() == before


@alone
def test_its_sockets_answer_while_it_serves(folder: Path) -> None:
    paths = [folder / "json.sock", folder / "metrics.sock"]
    named = ["--socket", str(paths[0]), "--metrics", str(paths[1])]
    server = subprocess.Popen(words(folder, *named), stdout=subprocess.PIPE, text=True)
    assert server.stdout
    line_of(server.stdout)
    answers = []
    for path in paths:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"\n")
            answers.append(client.makefile().read())
    again = subprocess.run(
        words(folder, *named[:2]), capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=HANGS_AFTER_S)
    assert json.loads(answers[0])["schema"] == "pagewise.swapd/1"
    assert "\npagewise_swapd_fast_reads_total " in answers[1] and answers[1].endswith("# EOF\n")
    assert again.returncode == 3 and "another program answers there" in again.stderr
    assert list(folder.iterdir()) == []


@contextlib.contextmanager
def ended_after(seconds: float, process: int) -> Iterator[None]:
    """Ends a process of another's if the block takes too long, so that reading from it ends."""
    timer = threading.Timer(seconds, os.kill, (process, signal.SIGTERM))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def used(device: str) -> int:
    """Bytes of an area that are in use."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    return sum(int(line.split()[3]) * 1024 for line in lines if line.split()[0] == device)


@alone
@pytest.mark.parametrize(
    ("policy", "on", "program_text"),
    [
        pytest.param("hierarchical", [], WORK, marks=pytest.mark.long),
        ("adaptive", [], WORK),
        pytest.param(
            *("adaptive", ["--encrypt", "--fast-on", "FOLDER/fast"], WORK), marks=pytest.mark.long
        ),
        pytest.param("hierarchical", ["--compress", "lz4"], MIXED, marks=pytest.mark.long),
        pytest.param("adaptive", ["--compress", "zstd"], MIXED, marks=pytest.mark.long),
    ],
)
def test_programs_keep_their_pages_when_servers_are_killed(
    group: Group, folder: Path, policy: str, on: list[str], program_text: str
) -> None:
    before = logs()
    fast = [word.replace("FOLDER", str(folder)) for word in on]
    server = subprocess.Popen(
        words(folder, "--verify", "--policy", policy, *fast),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout and server.stderr
    device = line_of(server.stdout).split(" at ")[1].split()[0]
    work = [*entering(group.folder), sys.executable, "-c", program_text, str(120 * MIB)]
    program = subprocess.Popen(work)
    late = time.monotonic() + HANGS_AFTER_S
    while used(device) < 40 * MIB and time.monotonic() < late:
        time.sleep(0.01)
    killed, kills = server.pid, 0
    while program.poll() is None and kills < 5:
        successor = guard_of(killed)
        os.kill(killed, signal.SIGKILL)
        line = next(line for line in server.stderr if "was killed" in line)
        assert f"process {successor} serves {device}" in line
        killed, kills = successor, kills + 1
        time.sleep(0.2)
    try:
        assert program.wait(2 * HANGS_AFTER_S) == 7 and kills > 0
        assert device in areas()
    finally:
        os.kill(killed, signal.SIGTERM)
    # The last server closes them, too.
    with ended_after(HANGS_AFTER_S, killed):
        server.communicate(timeout=2 * HANGS_AFTER_S)
    assert device not in areas() and logs() == before


@alone
def test_the_guard_keeps_the_fast_tier_in_memory(folder: Path) -> None:
    """The lock of a killed server ends with it; pages written to their own area would be lost."""
    with running(words(folder), stdout=subprocess.PIPE, text=True) as server:
        line_of(server.stdout)
        guard = guard_of(server.pid)

        # swapd enables its area only once the guard has locked the frames.
        text = Path(f"/proc/{guard}/smaps").read_text()
        frames = re.search(r"memfd:pagewise-swapd.*?VmFlags:[^\n]*", text, re.S)
        sizes = dict(re.findall(r"^(\w+): +(\d+) kB", frames[0] if frames else "", re.M))
        # `Locked` is the share of this process.
        assert frames and sizes["Rss"] == sizes["Size"] and " lo" in frames[0]
        server.terminate()
        assert server.wait(HANGS_AFTER_S) == 0


@alone
def test_a_full_output_leaves_no_area_and_no_guard(folder: Path) -> None:
    before = logs()
    with open("/dev/full", "w") as full:
        server = subprocess.Popen(words(folder), stdout=full, stderr=subprocess.PIPE, text=True)
    # Ends only when the guard has closed it, too.
    _, errors = server.communicate(timeout=30)
    assert server.returncode == 3 and "standard output: cannot be written" in errors
    assert not areas() and logs() == before and list(folder.iterdir()) == []


@alone
def test_a_command_of_a_killed_server_is_served_to_its_end(folder: Path) -> None:
    before = logs()
    server = subprocess.Popen(
        words(folder, "--", "sleep", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout and server.stderr
    device = line_of(server.stdout).split(" at ")[1].split()[0]
    successor = guard_of(server.pid)
    server.kill()
    with ended_after(HANGS_AFTER_S, successor):
        assert "was killed" in next(line for line in server.stderr if "refuses" not in line)
        assert device in areas()
        # The successor prints its counts when the command has ended.
        assert "promotions" in server.stdout.read()
    server.communicate(timeout=HANGS_AFTER_S)
    assert device not in areas() and logs() == before


@alone
def test_what_a_kill_of_server_and_guard_leaves_is_undone(folder: Path) -> None:
    before = logs()
    server = subprocess.Popen(words(folder), stdout=subprocess.PIPE, text=True)
    assert server.stdout
    device = line_of(server.stdout).split(" at ")[1].split()[0]
    os.kill(guard_of(server.pid), signal.SIGKILL)
    server.kill()
    server.wait(HANGS_AFTER_S)
    server.stdout.close()
    assert device in areas()
    answer = subprocess.run(
        [AGENT, "swapd", "--undo"], capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert device not in areas() and logs() == before


def test_the_options_of_the_shipped_service_are_known() -> None:
    text = (Path(__file__).parents[2] / "packaging" / "swapd.conf").read_text()
    (options,) = re.findall(r"(?m)^OPTIONS=(.*)$", text)
    # With a wrong policy it starts nothing, and every other option has been read before.
    given = options.replace("--policy adaptive", "--policy magic").split()
    answer = subprocess.run(
        [AGENT, "swapd", *given], capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert answer.returncode == 2 and "no architecture 'magic'" in answer.stderr


@pytest.mark.parametrize(
    ("more", "status", "reason"),
    [
        (["--policy", "magic"], 2, "magic"),
        (["--policy", "clairvoyant"], 2, "must know the future"),
        (["--option", "none=1"], 2, "none"),
        (["--option", "none"], 2, "expected NAME=VALUE"),
        (["--through", "wire"], 2, "wire"),
        (["--through", "zram"], 2, "zram cannot do fill_on_read_miss=yes"),
        (["--through", "zram", "--policy", "adaptive"], 2, "zram cannot do adaptive"),
        (["--through", "zram", "--policy", "flash"], 2, "slot_on_swapin=keep"),
        (["--through", "zram", "--verify", "--encrypt"], 2, "zram cannot do --verify, --encrypt"),
        (["--priority", "40000"], 2, "32767"),
        (["--compress", "gzip"], 2, "lz4 or zstd"),
        (["--compress", "lz4", "--fast-on", "/dev/none"], 2, "--compress: a fast tier on a disk"),
    ],
)
def test_a_wrong_argument_changes_nothing(
    folder: Path, more: list[str], status: int, reason: str
) -> None:
    before = logs()
    answer = subprocess.run(words(folder, *more), capture_output=True, text=True, timeout=300)
    assert answer.returncode == status and reason in answer.stderr, answer.stderr
    assert logs() == before and list(folder.iterdir()) == []


@pytest.mark.skipif(refusal("zram-writeback") is None, reason="zram can write pages back here")
def test_zram_that_cannot_write_pages_back_is_refused(folder: Path) -> None:
    before = (logs(), sorted(os.listdir("/sys/block")), Path("/proc/swaps").read_text())
    zram = ["--through", "zram", "--option", "fill_on_read_miss=no"]
    answer = subprocess.run(words(folder, *zram), capture_output=True, text=True, timeout=300)
    assert answer.returncode == 3, answer.stderr
    assert re.search("CONFIG_ZRAM_WRITEBACK|modprobe zram", answer.stderr), answer.stderr
    after = (logs(), sorted(os.listdir("/sys/block")), Path("/proc/swaps").read_text())
    assert after == before and list(folder.iterdir()) == []


def started(size: str, fast: str, slow: str, *more: str) -> "subprocess.CompletedProcess[str]":
    sizes = ["--size", size, "--fast", fast, "--slow", slow, "--policy", "hierarchical", *more]
    return subprocess.run([AGENT, "swapd", *sizes], capture_output=True, text=True, timeout=300)


def test_sizes_and_paths_are_checked(folder: Path) -> None:
    before = logs()
    slow = str(folder / "slow")
    (folder / "used").write_text("data")
    for size, fast, path, status, reason in [
        ("1000001B", "1MiB", slow, 2, "multiple of 4096"),
        ("64KiB", "4KiB", slow, 2, "at least 1MiB"),
        ("16MiB", "32MiB", slow, 2, "at most the size of the area"),
        ("16MiB", "1000001B", slow, 2, "multiple of 4096"),
        ("16MiB", "1MiB", str(folder / "used"), 3, "exists"),
        ("16MiB", "1MiB", "/dev/shm/pagewise-swapd-test", 3, "memory"),
        ("16MiB", "1MiB", str(folder / "no" / "slow"), 3, "No such file"),
        ("8192GiB", "1MiB", slow, 3, "free"),
        ("8192GiB", "4096GiB", slow, 3, "do not fit"),
    ]:
        answer = started(size, fast, path, "--only-swap")
        assert answer.returncode == status and reason in answer.stderr, (size, answer.stderr)
    assert (folder / "used").read_text() == "data"
    assert [path.name for path in folder.iterdir()] == ["used"] and logs() == before


@alone
def test_a_device_quicker_than_the_way_to_swapd_is_not_emulated(folder: Path) -> None:
    # Memory takes a microsecond; no answer comes through FUSE within three.
    before, areas_before = logs(), areas()
    answer = subprocess.run(
        words(folder, "--emulate", "fast=3/3us"),
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    refused = "cannot emulate a read of 3.0 us: the way from a program to swapd and back takes "
    assert answer.returncode == 3 and refused in answer.stderr, answer.stderr
    assert (logs(), areas(), list(folder.iterdir())) == (before, areas_before, [])


@alone
@pytest.mark.long
def test_reads_of_an_emulated_tier_take_its_time_with_the_way_to_swapd(
    group: Group, folder: Path
) -> None:
    work = [*entering(group.folder), sys.executable, "-c", WORK, str(64 * MIB)]
    answer = subprocess.run(
        words(folder, "--json", "--emulate", "slow=500/400us", "--", *work),
        capture_output=True,
        text=True,
        timeout=2 * HANGS_AFTER_S,
    )
    assert answer.returncode == 7, answer.stderr
    result = json.loads(answer.stdout)
    slow = {"device": "500/400us", "p50": 500, "p99": 500, "p999": 500}
    assert result["emulated"] == {"slow": slow}
    # The server ends a read so much earlier as the way to the program takes.
    assert result["slow"]["reads"] > 0 and result["carrier_us"] > 0
    assert result["wait_us"]["slow"]["p50"] + result["carrier_us"] >= 500 * 15 / 16


def test_it_does_not_become_the_only_area_by_itself(folder: Path) -> None:
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("this machine has another swap area")
    answer = started("16MiB", "1MiB", str(folder / "slow"))
    assert answer.returncode == 3 and "--only-swap" in answer.stderr
