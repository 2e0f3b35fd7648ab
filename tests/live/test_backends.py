"""`record` and `killtrace` on a kernel without mounted tracefs, or that refuses BPF or tracefs.

Needs root, seccomp and a mount namespace, in which tracefs is unmounted.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT, refusal
from waiting import line_of, running, within

PAGEWISE = AGENT.parent / "pagewise"
HANGS_AFTER_S = 120
CALLS = {
    "x86_64": {"bpf": 321, "fsopen": 430},
    "aarch64": {"bpf": 280, "fsopen": 430},
}.get(platform.machine(), {})

WITHOUT_TRACEFS = """
umount -l /sys/kernel/debug/tracing /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
test ! -e /sys/kernel/tracing/instances || exit 99
exec "$@"
"""
WITH_TRACEFS = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing || exit 99
exec "$@"
"""
# Installs a seccomp filter that refuses system calls, and executes a command.
DENYING = """
import ctypes, os, struct, sys
calls = [int(word) for word in sys.argv[1].split(",")]
code = [(0x20, 0, 0, 0)]
code += [(0x15, len(calls) - place, 0, call) for place, call in enumerate(calls)]
code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
program = b"".join(struct.pack("HBBI", *step) for step in code)
text = ctypes.create_string_buffer(program)
filter = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, filter, 0, 0) != 0:
    sys.exit(99)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def in_namespace(script: str, *command: object, denied: tuple[str, ...] = ()) -> list[str]:
    """The words that run a command after the script in a new mount namespace, with denied calls."""
    words = ["unshare", "-m", "sh", "-c", script, "sh"]
    if denied:
        numbers = ",".join(str(CALLS[name]) for name in denied)
        words += [sys.executable, "-c", DENYING, numbers]
    return [*words, *map(str, command)]


def run(*command: object, denied: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a command where tracefs is not mounted."""
    words = in_namespace(WITHOUT_TRACEFS, *command, denied=denied)
    return subprocess.run(words, capture_output=True, text=True, timeout=HANGS_AFTER_S)


def instances() -> set[str]:
    """The trace instances of recorders on this machine."""
    words = in_namespace(WITH_TRACEFS, "ls", "/sys/kernel/tracing/instances")
    ran = subprocess.run(words, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    return {name for name in ran.stdout.split() if name.startswith("pagewise-")}


def why_not() -> str | None:
    """Why this machine cannot run these tests."""
    if reason := refusal("record --launches"):
        return reason
    if not CALLS:
        return f"needs the numbers of system calls of {platform.machine()}"
    for command in (
        in_namespace(WITH_TRACEFS, "true"),
        in_namespace(WITHOUT_TRACEFS, "true", denied=("bpf",)),
    ):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        if ran.returncode != 0:
            return f"needs mount namespaces, tracefs and seccomp: {ran.stderr.strip()}"
    return None


REFUSAL = why_not()
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


@pytest.fixture(autouse=True)
def no_instance_stays() -> Iterator[None]:
    before = instances()
    yield
    assert within(HANGS_AFTER_S, lambda: instances() <= before), instances() - before


def info_of(recording: Path) -> dict[str, Any]:
    answer = subprocess.check_output([PAGEWISE, "info", recording, "--json"], timeout=HANGS_AFTER_S)
    info: dict[str, Any] = json.loads(answer)
    return info


def test_unmounted_tracefs_is_mounted_only_for_the_recorder(tmp_path: Path) -> None:
    recording = tmp_path / "own.pgr"
    mounts = "cat /proc/self/mounts /proc/$PPID/mounts; ls /sys/kernel/tracing"
    command = ("record", "--backend", "tracefs", "--launches", "-o", recording, "--")
    finished = run(AGENT, *command, "sh", "-c", mounts)
    assert finished.returncode == 0, finished.stderr
    # The mount is in the mount list neither of the command nor of the recorder.
    assert finished.stdout and "tracefs" not in finished.stdout
    assert info_of(recording)["events"]["exec"] > 0


def test_a_killed_recorder_with_its_own_mount_leaves_no_instance(tmp_path: Path) -> None:
    recording = tmp_path / "killed.pgr"
    before = instances()
    command = ["record", "--backend", "tracefs", "-o", recording, "--for", "600s"]
    with running(in_namespace(WITHOUT_TRACEFS, AGENT, *command)) as recorder:
        assert within(HANGS_AFTER_S, lambda: recording.exists() and recording.stat().st_size > 0)
        assert instances() - before == {f"pagewise-{recorder.pid}"}
        os.kill(recorder.pid, 9)
        assert within(HANGS_AFTER_S, lambda: not instances() - before)


def test_record_falls_back_to_tracefs_if_bpf_is_refused(tmp_path: Path) -> None:
    recording = tmp_path / "text.pgr"
    command = ("record", "--swap", "--launches", "-o", recording, "--", "true")
    finished = run(AGENT, *command, denied=("bpf",))
    assert finished.returncode == 0, finished.stderr
    # The message does not advise root to run it as root.
    refused = "not recorded: BPF: the kernel refuses it although this process has the capabilities"
    assert refused in finished.stderr
    info = info_of(recording)
    assert info["header"]["recorder"]["backend"] == "tracefs"
    absent = {what.partition(":")[0] for what in info["absent"]}
    assert {"BPF", "owners of swapped pages"} <= absent
    if "swpout_zero" in Path("/proc/vmstat").read_text():
        assert "pages of zeros" in absent


def test_without_bpf_and_tracefs_the_error_names_both(tmp_path: Path) -> None:
    recording = tmp_path / "none.pgr"
    finished = run(AGENT, "record", "-o", recording, "--", "true", denied=("bpf", "fsopen"))
    assert finished.returncode != 0 and not recording.exists()
    assert "BPF: " in finished.stderr and "tracefs is not mounted" in finished.stderr


@pytest.mark.parametrize(
    ("denied", "backend"), [((), "tracepoints"), (("bpf",), "tracepoints"), (("fsopen",), "btf")]
)
def test_killtrace_uses_the_backend_that_is_granted(denied: tuple[str, ...], backend: str) -> None:
    with running(["sleep", "600"]) as victim:
        command = in_namespace(
            WITHOUT_TRACEFS, AGENT, "killtrace", "--json", "--pid", victim.pid, denied=denied
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with running(command, **pipes) as killtrace:
            assert f"({backend})" in line_of(killtrace.stderr)
            victim.kill()
            output, errors = killtrace.communicate(timeout=HANGS_AFTER_S)
    assert killtrace.returncode == 0, errors
    report = json.loads(output)
    assert report["backend"] == backend
    assert [kill["pid"] for kill in report["kills"]] == [victim.pid]
    reasons = [missing["why"] for missing in report["absent"] if missing["what"] == "tracefs"]
    assert len(reasons) == (backend == "btf")
    assert all("not mounted" in why for why in reasons)


def test_doctor_gives_each_reason_once() -> None:
    printed = run(AGENT, "doctor", denied=("bpf", "fsopen")).stdout
    report = json.loads(run(AGENT, "doctor", "--json", denied=("bpf", "fsopen")).stdout)
    findings = {finding["name"]: finding for finding in report["findings"]}
    tracefs, swap = findings["tracefs"]["detail"], findings["record --swap"]["detail"]
    assert "not mounted" in tracefs and "refuses it" in swap
    assert findings["killtrace"]["detail"] == f"{tracefs}; and {swap}"
    assert [printed.count(reason) for reason in (tracefs, swap)] == [1, 1]
    assert "see tracefs and fentry" in printed


def test_doctor_reports_that_recorders_mount_tracefs() -> None:
    report = json.loads(run(AGENT, "doctor", "--json").stdout)
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert "recorders mount it privately" in findings["tracefs"]["detail"]
    for name in ("tracefs", "record --backend tracefs", "killtrace"):
        assert findings[name]["is_granted"], findings[name]
