"""swapd when the machine fails or lacks something: refusals change nothing, and programs wait.

Needs root, FUSE, loop devices and memory cgroups; a skipped test says what is missing.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, device_of, findings, refusal
from groups import HANGS_AFTER_S, MIB, Group, entering
from guards import guard_of
from killd import Killer, settings
from test_swapd import (
    WORK,
    alone,
    ended_after,
    folder,
    group,
    logs,
    loop_device,
    result_of,
    used,
    words,
)
from waiting import line_of

import pagewise as pw

__all__ = ["folder", "group"]

pytestmark = pytest.mark.skipif(
    refusal("fuse-loop", "memory-cgroup") is not None,
    reason=str(refusal("fuse-loop", "memory-cgroup")),
)

SIZES = ["--size", "2MiB", "--fast", "1MiB", "--policy", "hierarchical", "--priority", "0"]
# With a command, a server that starts although it should refuse ends by itself.
ENDS = ["--", "true"]
NO_ERRORS = {"fast": 0, "slow": 0, "checksum": 0}
# WORK, which prints a line when its memory is full, and then reads it until its input ends.
FILLED = WORK.replace(
    "for step in (7, 11):",
    "import itertools, select\nprint('filled', flush=True)\nfor step in itertools.cycle((7, 11)):\n"
    "    if select.select([sys.stdin], [], [], 0)[0]:\n        break",
)


def run(words: list[str], timeout: float = HANGS_AFTER_S) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout)


def state(folder: Path) -> tuple[object, ...]:
    """What a refusal may not change: swap areas, undo logs, loop devices, files."""
    areas = [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    loops = sorted(str(path) for path in Path("/sys/block").glob("loop*/loop"))
    files = {path.name: path.lstat().st_size for path in folder.iterdir()}
    return [[*area[:3], area[4]] for area in areas], logs(), loops, files


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    before = state(folder)
    yield
    assert state(folder) == before


@contextlib.contextmanager
def serving(words: list[str]) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server and its device; afterwards it has ended with status 0 and left nothing."""
    before = logs()
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield server, device_of(server)
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGCONT)
            server.terminate()
        server.communicate(timeout=HANGS_AFTER_S)
    assert server.returncode == 0 and logs() == before


# Stops a server, or a file system that it writes to, for some seconds. Prints what a program did
# meanwhile: its state after a second and at the end, and the ticks that it ran between them. The
# memory of this process is locked: no page of it may lie in an area whose server stands still.
STOPS = """
import ctypes
import fcntl
import os
import signal
import sys
import time
target, program, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if target.isdigit():
    stop, go = (lambda wish=wish: os.kill(int(target), wish) for wish in (19, 18))
else:
    folder = os.open(target, os.O_RDONLY)
    # FIFREEZE and FITHAW
    stop, go = (lambda wish=wish: fcntl.ioctl(folder, wish, 0) for wish in (0xC0045877, 0xC0045878))
def uptime():
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])
def stat():
    with open(f"/proc/{program}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], int(fields[11]) + int(fields[12])
stat(), uptime(), time.sleep(0.01)
assert ctypes.CDLL(None, use_errno=True).mlockall(3) == 0, os.strerror(ctypes.get_errno())
stop()
try:
    begun = uptime()
    seen, since = stat(), begun
    # Until it has waited for a second: at first it still finds pages.
    while uptime() < since + 1 and uptime() < begun + 0.6 * seconds:
        time.sleep(0.05)
        if stat() != seen or seen[0] != "D":
            seen, since = stat(), uptime()
    state, ticks = seen
    while uptime() < begun + seconds:
        time.sleep(0.1)
    print(state, stat()[0], stat()[1] - ticks)
finally:
    go()
"""


def wait_through(group: Group, target: str, seconds: float, path: Path) -> None:
    """Runs a program that waits while a server, or its file system, stands still."""
    work = [*entering(group.folder), sys.executable, "-c", FILLED, str(120 * MIB)]
    pipe = subprocess.PIPE
    program = subprocess.Popen(work, stdin=pipe, stdout=pipe, text=True)
    try:
        assert program.stdin and program.stdout and line_of(program.stdout) == "filled\n"
        reads = result_of(path)
        words = [sys.executable, "-c", STOPS, target, str(program.pid), str(seconds)]
        stopped = run(words)
        # It waited for a page all the time, and ran no instruction.
        assert stopped.stdout == "D D 0\n", (stopped.stdout, stopped.stderr)
        program.stdin.write("end\n")
        program.stdin.flush()
        assert program.wait(HANGS_AFTER_S) == 7
    finally:
        # Refused unless the process above was killed.
        if not target.isdigit():
            run(["fsfreeze", "--unfreeze", target])
        program.kill()
        program.communicate(timeout=HANGS_AFTER_S)
    result = result_of(path)
    # The guard did not take the stop for an end.
    assert result["takeovers"] == 0 and result["errors"] == NO_ERRORS
    for tier in ("fast", "slow"):
        assert result[tier]["reads"] > reads[tier]["reads"], tier


@pytest.mark.long
@alone
def test_programs_wait_for_a_stopped_server(group: Group, folder: Path) -> None:
    path = folder / "socket"
    with serving(words(folder, "--verify", "--socket", str(path))) as (server, device):
        wait_through(group, str(server.pid), 6, path)
        assert device in Path("/proc/swaps").read_text()


@contextlib.contextmanager
def file_system(folder: Path) -> Iterator[Path]:
    """A file system on a loop device, which can be frozen."""
    point = folder / "mounted"
    with loop_device(folder, 320) as device:
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True, timeout=HANGS_AFTER_S)
        point.mkdir()
        subprocess.run(["mount", device, point], check=True, timeout=HANGS_AFTER_S)
        try:
            yield point
        finally:
            subprocess.run(["umount", point], check=True, timeout=HANGS_AFTER_S)
            point.rmdir()


@alone
@pytest.mark.long
@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="mkfs.ext4 is missing")
def test_programs_wait_for_a_slow_tier_that_stalls(group: Group, folder: Path) -> None:
    """A frozen file system ends no write."""
    path = folder / "socket"
    with file_system(folder) as point:
        served = words(folder, "--verify", "--socket", str(path))
        served[served.index("--slow") + 1] = str(point / "slow")
        with serving(served):
            wait_through(group, str(point), 10, path)


# Runs a command where /dev has only /dev/null.
WITHOUT_DEVICES = 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"'


@pytest.mark.parametrize("through", ["any", "fuse"])
def test_without_a_carrier_nothing_is_changed(folder: Path, through: str) -> None:
    if findings()["nbd"]["is_granted"] or findings()["ublk"]["is_granted"]:
        pytest.skip("this kernel grants a carrier that needs nothing in /dev")
    apart = ["unshare", "-m", "sh", "-c", WITHOUT_DEVICES, "sh"]
    with unchanged(folder):
        answer = run([*apart, *words(folder, "--through", through, *ENDS)])
    assert (answer.returncode, answer.stdout) == (3, ""), answer.stderr
    assert "no carrier for a swap area: " in answer.stderr
    assert "fuse: /dev/fuse: cannot open it" in answer.stderr
    assert "`modprobe -a fuse loop`" in answer.stderr
    for name, module in (("ublk", "ublk_drv"), ("nbd", "nbd")):
        assert (f"`modprobe {module}`" in answer.stderr) == (through == "any"), name


@pytest.mark.parametrize(("through", "module"), [("ublk", "ublk_drv"), ("nbd", "nbd")])
def test_a_carrier_that_the_kernel_lacks_is_refused(
    folder: Path, through: str, module: str
) -> None:
    if findings()[through]["is_granted"]:
        pytest.skip(f"this kernel grants {through}")
    with unchanged(folder):
        answer = run(words(folder, "--through", through, *ENDS))
    assert (answer.returncode, answer.stdout) == (3, "")
    assert f"{through}: " in answer.stderr and f"`modprobe {module}`" in answer.stderr


def test_without_root_nothing_is_changed(folder: Path) -> None:
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if run([*other, str(AGENT), "--version"]).returncode != 0:
        pytest.skip("another user cannot run the agent here")
    with unchanged(folder):
        answer = run([*other, *words(folder, *ENDS)])
    assert (answer.returncode, answer.stdout) == (3, ""), answer.stderr
    assert "swapd needs root" in answer.stderr


# Runs a command with a folder on a ramfs, which has no O_DIRECT, and prints what it leaves there.
ON_RAMFS = 'mount -t ramfs none "$0" && "$@"; status=$?; ls -A "$0"; exit $status'


@pytest.mark.parametrize("tier", ["slow", "fast"])
def test_a_file_system_without_direct_io_is_refused(folder: Path, tier: str) -> None:
    apart = ["unshare", "-m", "sh", "-c", ON_RAMFS, str(folder)]
    path, other = f"{folder}/tier", Path(f"/var/tmp/pagewise-test-{os.getpid()}")
    places = {"slow": ["--slow", path], "fast": ["--slow", str(other), "--fast-on", path]}[tier]
    with unchanged(folder):
        answer = run([*apart, str(AGENT), "swapd", *SIZES, *places, "--only-swap", *ENDS])
    assert answer.returncode == 3, answer.stderr
    assert f"{path}: its file system has no direct I/O (O_DIRECT); choose" in answer.stderr
    # The kernel makes the file before it refuses O_DIRECT.
    assert answer.stdout == "" and not other.exists()


def test_a_file_that_is_served_needs_direct_io(folder: Path) -> None:
    apart = ["unshare", "-m", "sh", "-c", ON_RAMFS, str(folder)]
    path = f"{folder}/content"
    served = f'head -c {MIB} /dev/zero >{path} && "$@"; status=$?; rm {path}; exit $status'
    command = ["sh", "-c", served, "sh", str(AGENT), "swapd", "--serve", path, "--fast", "1MiB"]
    with unchanged(folder):
        answer = run([*apart, *command, *ENDS])
    assert (answer.returncode, answer.stdout) == (3, ""), answer.stderr
    assert f"{path}: its file system has no direct I/O (O_DIRECT); move it" in answer.stderr


@contextlib.contextmanager
def swap_file(folder: Path) -> Iterator[Path]:
    """A swap file in use, of the lowest priority."""
    path = folder / "swapped"
    with path.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(bytes(8 * MIB))
    subprocess.run(["mkswap", "-q", path], check=True, timeout=HANGS_AFTER_S)
    subprocess.run(["swapon", "-p", "0", path], check=True, timeout=HANGS_AFTER_S)
    try:
        yield path
    finally:
        subprocess.run(["swapoff", path], check=True, timeout=HANGS_AFTER_S)


@contextlib.contextmanager
def swap_device(folder: Path) -> Iterator[Path]:
    """A swap area in use on a loop device, of the lowest priority."""
    with loop_device(folder, 8) as device:
        subprocess.run(["mkswap", "-q", device], check=True, timeout=HANGS_AFTER_S)
        subprocess.run(["swapon", "-p", "0", device], check=True, timeout=HANGS_AFTER_S)
        try:
            yield Path(device)
        finally:
            subprocess.run(["swapoff", device], check=True, timeout=HANGS_AFTER_S)


@contextlib.contextmanager
def swap_below_device(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A swap file in use, of the lowest priority, and a loop device whose file it is."""
    area = folder / "disk"
    with loop_device(folder, 8) as device:
        area.chmod(0o600)
        subprocess.run(["mkswap", "-q", area], check=True, timeout=HANGS_AFTER_S)
        subprocess.run(["swapon", "-p", "0", area], check=True, timeout=HANGS_AFTER_S)
        try:
            yield area, Path(device)
        finally:
            subprocess.run(["swapoff", area], check=True, timeout=HANGS_AFTER_S)


def header(path: Path) -> bytes:
    """The first page of a swap area, without which it cannot be enabled again."""
    return path.read_bytes()[:4096]


@alone
@pytest.mark.parametrize("role", ["slow", "fast", "content"])
@pytest.mark.parametrize(
    "place", ["file", "link", "device", "file of a device", "device of a file"]
)
def test_a_swap_area_in_use_is_no_tier(folder: Path, place: str, role: str) -> None:
    other = str(folder / "other")
    with contextlib.ExitStack() as stack:
        if place in ("file", "link"):
            area = stack.enter_context(swap_file(folder))
            path, reason = area, "exists" if role != "content" else "is used as swap"
        elif place == "device of a file":
            area, path = stack.enter_context(swap_below_device(folder))
            reason = f"is used as swap; swapoff {area}"
        else:
            area = stack.enter_context(swap_device(folder))
            path, reason = area, "is mounted, swapped on, or used by another device"
        if place == "link":
            path = folder / "link"
            path.symlink_to(area.name)
        elif place == "file of a device":
            path = folder / "disk"
            reason = "exists" if role != "content" else "is the file of a loop device"
        command = {
            "slow": [*SIZES, "--slow", str(path)],
            "fast": [*SIZES, "--slow", other, "--fast-on", str(path)],
            "content": ["--serve", str(path), "--fast", "1MiB"],
        }[role]
        before, text = header(area), Path("/proc/swaps").read_text()
        with unchanged(folder):
            answer = run([str(AGENT), "swapd", *command, *ENDS])
        assert answer.returncode == 3 and reason in answer.stderr, (answer.stderr, text)
        assert header(area) == before
    for name in ("swapped", "link", "disk"):
        (folder / name).unlink(missing_ok=True)


# Runs a command that reads a file in the place of /proc/meminfo.
WITH_MEMINFO = 'mount --bind "$0" /proc/meminfo && exec "$@"'


def write_meminfo(path: Path, available_bytes: int | None) -> None:
    """Writes the machine's figures, with another one for available memory."""
    text = Path("/proc/meminfo").read_text()
    if available_bytes is not None:
        for name in ("MemFree", "MemAvailable"):
            text = re.sub(rf"(?m)^{name}:.*", f"{name}: {available_bytes >> 10} kB", text)
    # At once, so that swapd reads the old figures or the new ones.
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(text.encode().ljust(8192))


# WORK, which waits for a line of input before each time that it reads its memory.
ASKED = WORK.replace(
    "    for turn in", "    print('ready', flush=True)\n    input()\n    for turn in"
)


@pytest.mark.long
@alone
def test_swapd_serves_on_while_memory_has_no_room_for_the_pages(group: Group, folder: Path) -> None:
    """Memory is short only in a file that swapd reads: the machine has enough."""
    path, meminfo = folder / "socket", folder / "meminfo"
    write_meminfo(meminfo, None)
    apart = ["unshare", "-m", "sh", "-c", WITH_MEMINFO, str(meminfo)]
    served = [*apart, *words(folder, "--verify", "--socket", str(path))]
    with serving(served) as (server, device):
        assert server.stderr
        work = [*entering(group.folder), sys.executable, "-c", ASKED, str(120 * MIB)]
        pipe = subprocess.PIPE
        program = subprocess.Popen(work, stdin=pipe, stdout=pipe, text=True)
        try:
            assert program.stdout and program.stdin
            assert line_of(program.stdout) == "ready\n"
            write_meminfo(meminfo, 16 * MIB)
            held = used(device)
            server.terminate()
            with ended_after(HANGS_AFTER_S, server.pid):
                line = next((line for line in server.stderr if "no room" in line), "it ended")
            assert "memory has no room for the pages in the swap area" in line
            (missing,) = re.findall(r": (\d+) MiB are missing; swapd goes on serving", line)
            # Of the memory that is there, 32 MiB stay free.
            assert held > 40 * MIB
            assert abs(int(missing) * MIB - (held + 32 * MIB - 16 * MIB)) < 16 * MIB, line
            # It serves the program, although it tries to end every second.
            program.stdin.write("read\n")
            program.stdin.flush()
            assert line_of(program.stdout) == "ready\n"
            time.sleep(2)
            assert server.poll() is None and device in Path("/proc/swaps").read_text()
            assert result_of(path)["errors"] == NO_ERRORS
            # Its pages come back, and would not fit into its group.
            (group.folder / group.limit).write_text(str(400 * MIB))
            write_meminfo(meminfo, None)
            output, errors = server.communicate(timeout=HANGS_AFTER_S)
            assert server.returncode == 0 and "promotions" in output
            assert device not in Path("/proc/swaps").read_text()
            # It says once what is missing.
            assert "are missing" not in errors
            program.stdin.write("read\n")
            program.stdin.flush()
            assert program.wait(HANGS_AFTER_S) == 7
        finally:
            write_meminfo(meminfo, None)
            program.kill()
            program.communicate(timeout=HANGS_AFTER_S)


def may_be_spared() -> bool:
    """Whether root may lower an `oom_score_adj` here, which a container refuses."""
    lower = "echo -1000 >/proc/self/oom_score_adj"
    return run(["sh", "-c", lower]).returncode == 0


# The largest process of the group would die at once, whatever memory is available.
SEARCHES = """\
policy = "largest"
dry_run = true
[options]
memory_percent = 99
swap_percent = 100
"""


@alone
@pytest.mark.skipif(
    not may_be_spared(), reason="oom_score_adj -1000 is refused: CAP_SYS_RESOURCE is missing"
)
def test_killd_never_names_a_server_or_its_guard(folder: Path, tmp_path: Path) -> None:
    # tests/vm/test_swapd_protected.py has this in a guest, and their successors, too.
    with Group(400 * MIB) as wide, serving(words(folder)) as (server, _):
        processes = {server.pid, guard_of(server.pid)}
        for process in processes:
            adj = Path(f"/proc/{process}/oom_score_adj").read_text()
            assert adj == "-1000\n", process
            (wide.folder / "cgroup.procs").write_text(str(process))
        other = wide.hold(50 * MIB, adj=0)
        found = named_by_killd(wide.folder, tmp_path)
        assert other in found and not found & processes
        # Not overlooked: without its adj, killd finds each of them.
        for process in processes:
            Path(f"/proc/{process}/oom_score_adj").write_text("0")
        assert processes < named_by_killd(wide.folder, tmp_path)


def named_by_killd(group: Path, folder: Path) -> set[int]:
    """The processes that killd would kill, and the first of its ranking."""
    with Killer(group, settings(folder, SEARCHES)) as killer:
        killer.until(lambda: killer.events("would-kill"))
        lines = [event["line"] for event in killer.events("would-kill")]
    return {
        int(process)
        for line in lines
        for process in re.findall(r'(?:process=|first="|,)(\d+)(?=[: ])', line)
    }


def latencies_of(recording: Path) -> dict[str, int]:
    """The latencies that the policy of a recorded server weighed, in nanoseconds."""
    found = pw.simulate_as_recorded(recording, force=True)["latencies"]
    return {name: int(str(latency)) for name, latency in found.items()}


@alone
@pytest.mark.parametrize(
    ("fast", "slow"), [("pcm", "emmc-5.1"), ("7/9us", "ufs-3.1"), ("optane-ssd", "400/600us")]
)
def test_the_latencies_of_named_devices_reach_the_policy(
    folder: Path, fast: str, slow: str
) -> None:
    known = {device["name"]: device for device in pw.devices()}
    wanted: dict[str, int] = {}
    for tier, name in (("fast", fast), ("slow", slow)):
        if name in known:
            device = known[name]
            times = [device["read_ns"]["typical"], device["write_ns"]["typical"]]
        else:
            times = [1000 * int(time) for time in name.removesuffix("us").split("/")]
        wanted |= {f"{tier}_read_ns": times[0], f"{tier}_write_ns": times[1]}
    recording = folder / "swapd.pgr"
    more = ["--devices", f"fast={fast},slow={slow}", "--record", str(recording)]
    answer = run(words(folder, "--policy", "adaptive", *more, *ENDS))
    assert answer.returncode == 0, answer.stderr
    assert latencies_of(recording) == wanted


@alone
def test_devices_replace_the_latencies_of_emulated_ones(folder: Path) -> None:
    recording = folder / "swapd.pgr"
    more = ["--emulate", "slow=sd-a2", "--devices", "fast=3/4us", "--record", str(recording)]
    answer = run(words(folder, "--policy", "adaptive", *more, *ENDS))
    assert answer.returncode == 0, answer.stderr
    found = latencies_of(recording)
    (card,) = (device for device in pw.devices() if device["name"] == "sd-a2")
    assert (found["fast_read_ns"], found["fast_write_ns"]) == (3000, 4000)
    assert found["slow_read_ns"] == card["read_ns"]["typical"]
    assert found["slow_write_ns"] == card["write_ns"]["typical"]


@alone
def test_two_devices_without_a_tier_are_fast_and_slow(folder: Path) -> None:
    recording = folder / "swapd.pgr"
    more = ["--devices", "3/4us,90/40us", "--record", str(recording)]
    answer = run(words(folder, "--policy", "adaptive", *more, *ENDS))
    assert answer.returncode == 0, answer.stderr
    found = latencies_of(recording)
    assert (found["fast_read_ns"], found["fast_write_ns"]) == (3000, 4000)
    assert (found["slow_read_ns"], found["slow_write_ns"]) == (90_000, 40_000)


@pytest.mark.parametrize("option", ["--devices", "--emulate"])
@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("slow=ufs-3", "no device is called 'ufs-3'; known are "),
        ("fast=dram,slow=90us", "no device is called '90us'; known are "),
        ("middle=dram", "expected fast=DEVICE or slow=DEVICE"),
        ("dram", "or two devices, that of the fast tier first"),
        ("dram,slow=pcm", "or two devices, that of the fast tier first"),
        ("dram,pcm,dram", "or two devices, that of the fast tier first"),
        ("slow=dram,slow=pcm", "a tier has two devices: name one for each"),
    ],
)
def test_a_wrong_device_is_refused_with_the_names_of_all(
    folder: Path, option: str, named: str, reason: str
) -> None:
    with unchanged(folder):
        answer = run(words(folder, option, named, *ENDS))
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    assert reason in answer.stderr, answer.stderr
    if "known are" in reason:
        listed = answer.stderr.split("known are ")[1].split(";")[0].split(", ")
        assert listed == [device["name"] for device in pw.devices()]
        assert "READ/WRITE such as 90/40us" in answer.stderr


TIMES = r"a read took ([\d.]+) us \(median\), ([\d.]+) us \(99 %\)"
THROUGH = r", with ([\d.]+) us through the carrier"
WANTED = r"; sd-a2 takes ([\d.]+) us \(median\), ([\d.]+) us \(99 %\)"


@alone
def test_times_of_an_emulated_tier_stand_beside_those_of_the_device(
    group: Group, folder: Path
) -> None:
    path = folder / "socket"
    more = ["--emulate", "slow=sd-a2", "--socket", str(path)]
    server = subprocess.Popen(words(folder, *more), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout and line_of(server.stdout)
        # It reads its memory once: the tier is slow.
        text = WORK.replace("(7, 11)", "(7,)")
        program = run([*entering(group.folder), sys.executable, "-c", text, str(60 * MIB)])
        result = result_of(path)
    finally:
        server.terminate()
        output, _ = server.communicate(timeout=HANGS_AFTER_S)
    assert (program.returncode, server.returncode) == (7, 0)
    fast, slow, *_ = output.splitlines()
    # Only the slow tier is emulated.
    assert fast.startswith("fast tier: ") and "takes" not in fast and "carrier" not in fast
    line = rf"slow tier: (\d+) reads, (\d+) writes; {TIMES}{THROUGH}{WANTED}"
    found = re.fullmatch(line, slow)
    assert found, output
    (card,) = (device for device in pw.devices() if device["name"] == "sd-a2")
    read = card["read_ns"]
    low, typical, high = (time / 1e3 for time in (read["low"], read["typical"], read["high"]))
    reads, writes, half, most, carrier, wanted_half, wanted_most = map(float, found.groups())
    assert list(result["emulated"]) == ["slow"]
    wanted = result["emulated"]["slow"]
    assert wanted["device"] == "sd-a2" and wanted["p50"] == pytest.approx(typical, rel=0.001)
    assert 0.98 * high < wanted["p99"] < wanted["p999"] < high
    assert (wanted_half, wanted_most) == (round(wanted["p50"], 1), round(wanted["p99"], 1))
    # The counts of this run. Pages of other programs may come back when the area is disabled.
    assert reads >= result["slow"]["reads"] > 1000 and writes >= result["slow"]["writes"] > 1000
    waits = result["wait_us"]["slow"]
    assert carrier == round(result["carrier_us"], 1) > 0
    assert half == pytest.approx(waits["p50"] + carrier, rel=0.1)
    assert most == pytest.approx(waits["p99"] + carrier, rel=0.3)
    # No read ends earlier than on the device, and the median waits for few others.
    assert low < half < 3 * high and half < most
