"""`killtrace` on this machine: phases add up, memory falls to zero, and no trace instance is left.

Needs root, tracefs, which it mounts privately, and a C compiler.
"""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from waiting import line_of, running, within

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
DEADLINE_S = 120
WITH_TRACEFS = """
test -d /sys/kernel/tracing/events || mount -t tracefs nodev /sys/kernel/tracing || exit 99
exec "$@"
"""


def in_namespace(*command: object) -> list[str]:
    """The words that run a command with tracefs in a new mount namespace."""
    return ["unshare", "-m", "sh", "-c", WITH_TRACEFS, "sh", *map(str, command)]


def why_not() -> str | None:
    """Why this machine cannot run these tests."""
    if reason := refusal():
        return reason
    ran = subprocess.run(
        in_namespace(AGENT, "doctor", "--json"), capture_output=True, text=True, timeout=DEADLINE_S
    )
    if ran.returncode != 0:
        return f"tracefs: {ran.stderr.strip()}"
    findings = {finding["name"]: finding for finding in json.loads(ran.stdout)["findings"]}
    found = findings["killtrace"]
    return None if found["is_granted"] else f"killtrace: {found['detail']}"


REFUSAL = why_not()
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


@pytest.fixture(autouse=True)
def no_instance_stays() -> Iterator[None]:
    before = instances()
    yield
    assert within(DEADLINE_S, lambda: not orphans(before)), orphans(before)


def orphans(before: set[str]) -> set[str]:
    """Instances created since then whose recorder has ended."""
    created = instances() - before
    return {name for name in created if not Path("/proc", name.rpartition("-")[2]).exists()}


def instances() -> set[str]:
    """Names of the trace instances of this machine."""
    command = in_namespace("ls", "/sys/kernel/tracing/instances")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    return set(ran.stdout.split())


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("victim") / "victim"
    source = ROOT / "tools" / "victim.c"
    command = ["cc", "-std=gnu17", "-O2", "-pthread", "-o", program, source]
    subprocess.run(command, check=True, timeout=60)
    return program


@contextlib.contextmanager
def saying(command: list[str], first: str, stream: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed ``first``; it is terminated afterwards."""
    pipe = subprocess.PIPE
    with running(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            printed = line_of(getattr(process, stream))
            assert printed.startswith(first), printed
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=DEADLINE_S)


@contextlib.contextmanager
def living(victim: Path, threads: int, mib: int) -> Iterator[subprocess.Popen[str]]:
    with saying([str(victim), str(threads), str(mib)], "ready", "stdout") as process:
        yield process


@contextlib.contextmanager
def tracing(*options: object) -> Iterator[subprocess.Popen[str]]:
    # It ends by itself even if these tests are killed.
    command = in_namespace(AGENT, "killtrace", "--json", "--for", "10m", *options)
    with saying(command, "waiting for kills", "stderr") as process:
        yield process


def report_of(tracer: subprocess.Popen[str]) -> dict[str, Any]:
    """The report that the recorder prints at its end."""
    out, errors = tracer.communicate(timeout=DEADLINE_S)
    assert out, errors
    report: dict[str, Any] = json.loads(out)
    assert report["schema"] == "pagewise.kills/1"
    return report


def check(kill: dict[str, Any], threads: int, mib: int) -> None:
    """Checks that phases are reported and add up, and that the memory is the touched memory."""
    assert kill["threads"] == threads
    phases = kill["signal_us"] + kill["threads_us"] + kill["reclaim_us"]
    assert phases == pytest.approx(kill["total_us"], rel=0.01)
    inside = kill["unmap_us"] + kill["pagetables_us"]
    assert inside == pytest.approx(kill["reclaim_us"], rel=0.01)
    assert min(kill[name] for name in ("signal_us", "threads_us", "unmap_us")) > 0
    assert mib * MIB <= kill["rss_bytes"] + 2 * MIB <= (mib + 6) * MIB
    fallen = [size for _, size in kill["rss_curve"]]
    assert fallen == sorted(fallen, reverse=True) and fallen[-1] == 0


def test_the_recording_ends_with_the_process_of_pid(victim: Path, tmp_path: Path) -> None:
    recording, trace = tmp_path / "kills.pgk", tmp_path / "trace.json"
    with living(victim, 13, 40) as dying, tracing("--pid", dying.pid, "-o", recording) as tracer:
        dying.kill()
        report = report_of(tracer)
        assert tracer.returncode == 0
    (kill,) = report["kills"]
    check(kill, 13, 40)
    assert (kill["pid"], kill["comm"], kill["trigger"]) == (dying.pid, "victim", "user")
    assert kill["killer"]["pid"] == os.getpid()
    command = [AGENT, "killtrace", "--read", recording, "--json", "--chrome", trace]
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert json.loads(again.stdout)["kills"] == report["kills"]
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"unmaps", "frees page tables"} <= {event["name"] for event in events}


def test_simultaneous_kills_are_reported_separately_until_ctrl_c(victim: Path) -> None:
    with contextlib.ExitStack() as stack:
        victims = [stack.enter_context(living(victim, 3, 10 + number)) for number in range(4)]
        tracer = stack.enter_context(tracing("--all"))
        for process in victims:
            process.kill()
        for process in victims:
            process.wait(timeout=DEADLINE_S)
        # The recorder may be 40 ms behind the kernel; at its end it reads all events.
        os.killpg(tracer.pid, signal.SIGINT)
        kills = {kill["pid"]: kill for kill in report_of(tracer)["kills"]}
    for number, process in enumerate(victims):
        check(kills[process.pid], 3, 10 + number)


def test_both_backends_report_the_same_kill(victim: Path) -> None:
    refused = bpf_refusal()
    if refused:
        pytest.skip(refused)
    with (
        living(victim, 13, 40) as dying,
        tracing("--pid", dying.pid) as pages,
        tracing("--pid", dying.pid, "--backend", "btf") as programs,
    ):
        dying.kill()
        (by_pages,), (by_programs,) = report_of(pages)["kills"], report_of(programs)["kills"]
    for name in ("pid", "comm", "threads", "trigger", "killer"):
        assert by_programs[name] == by_pages[name], name
    # The backends read the clock separately, so times may differ, but steps and threads do not.
    assert steps(by_programs) == steps(by_pages)
    for name in ("signal_us", "threads_us", "unmap_us", "pagetables_us", "total_us"):
        assert by_programs[name] > 0 and by_pages[name] > 0, name
    # Each processor holds back up to 31 pages of a kind, which only the tracepoints count.
    assert by_programs["rss_bytes"] == pytest.approx(by_pages["rss_bytes"], abs=2 * MIB)


def steps(kill: dict[str, Any]) -> list[tuple[str, int]]:
    """The steps and their threads, in a fixed order."""
    return sorted((step["name"], step["thread"]) for step in kill["steps"])


def bpf_refusal() -> str | None:
    """Why BPF programs cannot be used; None if they can."""
    command = [AGENT, "killtrace", "--all", "--backend", "btf", "--for", "100ms"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    refused = ran.returncode == 3 and "BPF" in ran.stderr
    assert refused or ran.returncode == 0, ran.stderr
    return ran.stderr.strip() if refused else None


def test_a_process_that_ends_by_sigterm_is_no_kill() -> None:
    sleeping = ["sh", "-c", "echo ready; exec sleep 600"]
    with saying(sleeping, "ready", "stdout") as process, tracing("--pid", process.pid) as tracer:
        process.terminate()
        process.wait(timeout=DEADLINE_S)
        assert report_of(tracer)["kills"] == []


def test_a_killed_recorder_leaves_no_instance() -> None:
    with tracing("--all") as tracer:
        name = f"pagewise-{tracer.pid}"
        assert name in instances()
        tracer.kill()
        tracer.wait(timeout=DEADLINE_S)
        until = time.monotonic() + DEADLINE_S
        while name in instances():
            assert time.monotonic() < until, "the trace instance is still there"
            time.sleep(0.1)


@contextlib.contextmanager
def disk_of(folder: Path, kibibytes: int) -> Iterator[Path]:
    """A tmpfs of this size."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs"]
    subprocess.run(["mount", *options, folder], check=True, timeout=DEADLINE_S)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=DEADLINE_S)


@pytest.mark.parametrize("kibibytes", [4, 8, 12, 16, 24])
def test_a_full_disk_leaves_a_readable_file_or_none(
    victim: Path, tmp_path: Path, kibibytes: int
) -> None:
    with disk_of(tmp_path / "small", kibibytes) as disk:
        recording = disk / "kills.pgk"
        with contextlib.ExitStack() as stack:
            victims = [stack.enter_context(living(victim, 9, 20)) for _ in range(6)]
            tracer = stack.enter_context(tracing("--all", "-o", recording))
            for process in victims:
                process.kill()
                process.wait(timeout=DEADLINE_S)
            os.killpg(tracer.pid, signal.SIGINT)
            report = report_of(tracer)
            assert tracer.returncode == 3
        # The results are printed although the file is incomplete.
        assert {process.pid for process in victims} <= {kill["pid"] for kill in report["kills"]}
        # The header, which describes the events, takes more than a page.
        assert recording.exists() or kibibytes < 24
        assert not recording.exists() or kibibytes > 4
        if recording.exists():
            command = [AGENT, "killtrace", "--read", recording, "--json"]
            read = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
            assert read.returncode == 0, read.stderr
            assert json.loads(read.stdout)["is_cut"]


def test_a_disk_that_is_full_from_the_start_leaves_no_file(tmp_path: Path) -> None:
    with disk_of(tmp_path / "small", 4) as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(4096))
        command = in_namespace(AGENT, "killtrace", "--all", "--for", "1s", "-o", disk / "kills.pgk")
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 3 and "a disk with more room" in done.stderr
        assert list(disk.iterdir()) == [filler]


def test_a_trace_for_a_viewer_is_complete_or_absent(victim: Path, tmp_path: Path) -> None:
    recording = tmp_path / "kills.pgk"
    with living(victim, 9, 20) as process, tracing("--pid", process.pid, "-o", recording) as tracer:
        process.kill()
        report = report_of(tracer)
    with disk_of(tmp_path / "small", 4) as disk:
        trace = disk / "trace.json"
        command = [AGENT, "killtrace", "--read", recording, "--json", "--chrome", trace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 3 and "trace.json: cannot be written" in done.stderr
        assert json.loads(done.stdout)["kills"] == report["kills"]
        assert not trace.exists()


def test_invalid_arguments_and_files_are_refused(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.pgk"
    hostile.write_bytes(b"pgwkil\x00\x01" + b"\xff" * 400)
    other = tmp_path / "other"
    other.write_text("{}")
    for options, status, message in (
        (["--pid", "4194305"], 2, "no such process"),
        (["--read", str(hostile)], 3, "expected a block of at most"),
        (["--read", str(other)], 3, "is no recording of kills"),
        (["--cgroup", "/no/such/group"], 3, "no/such/group"),
        ([], 2, "--pid"),
    ):
        command = [AGENT, "killtrace", *options]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert (ran.returncode, message in ran.stderr) == (status, True), ran.stderr


def test_the_runner_of_the_study_records_every_kill(tmp_path: Path) -> None:
    if not any(Path(mount, "cgroup.procs").exists() for mount in groups()):
        pytest.skip("no memory cgroup")
    command = [
        sys.executable,
        ROOT / "tools" / "kill_anatomy.py",
        tmp_path,
        "--small",
        "--busy",
        "--rounds=2",
        "--repeats=1",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=5 * DEADLINE_S)
    assert finished.returncode == 0, finished.stderr
    result = tmp_path / "kills-1.json.gz"
    runs = json.loads(gzip.decompress(result.read_bytes()))
    rows = {row["experiment"]: row for row in runs["rows"]}
    assert rows.keys() == {"paper", "together", "overrun"}
    assert all(row["kill"] for row in runs["rows"])
    assert {row["round"] for row in runs["rows"]} == {0, 1}
    assert len(runs["load_other"]) == 2 and all(0 <= load <= 1 for load in runs["load_other"])
    assert rows["paper"]["kill"]["rss_curve"] and rows["paper"]["kill"]["steps"]
    assert not rows["together"]["kill"]["rss_curve"]
    assert rows["overrun"]["kill"]["trigger"] == "memcg-oom"
    assert not [path for mount in groups() for path in Path(mount).glob("pagewise-kills-*")]
    made = result.read_bytes()
    again = subprocess.run(command, capture_output=True, text=True, timeout=5 * DEADLINE_S)
    assert again.stdout == f"{result}: kept\n", again.stderr
    assert result.read_bytes() == made


def groups() -> tuple[str, str]:
    """The possible mount points of memory cgroups."""
    return ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
