"""`pagewise remote` against a local ssh server, and against a stand-in for adb."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import within

SSHD = Path("/usr/sbin/sshd")
PAGEWISE = Path(sys.executable).with_name("pagewise")
AGENT = Path(sys.executable).with_name("pagewise-agent")
HUNG_S = 600
# `push` and `pull` copy, `shell` runs the line here, and the words of each call go to a log.
ADB = """\
#!/bin/sh
echo "$*" >> "$ADB_LOG"
[ "$1" = -s ] && shift 2
case "$1" in
push) mkdir -p "$ADB_ROOT$(dirname "$3")" && cp "$2" "$3" && echo "$2: 1 file pushed" ;;
pull) cp "$2" "$3" && echo "$2: 1 file pulled" ;;
shell) exec sh -c "$2" ;;
*) echo "adb: unknown command $1" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An ssh server on a free port of this machine, which `ssh board` reaches with its own key."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not SSHD.exists() or shutil.which("ssh") is None:
        pytest.skip("openssh is not installed: tools/dist_setup.sh")
    if not AGENT.exists():
        pytest.skip("no pagewise-agent beside this Python: make build")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name],
            check=True,
            timeout=HUNG_S,
        )
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path("/run/sshd").mkdir(exist_ok=True)
    (tmp_path / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\n"
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    (tmp_path / "ssh.conf").write_text(
        f"Host board\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
        f"  IdentityFile {tmp_path}/user\n"
        f"  UserKnownHostsFile {tmp_path}/known\n  StrictHostKeyChecking accept-new\n"
    )
    # `remote` runs plain `ssh`; this one reads the configuration of the test.
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/ssh.conf "$@"\n'
    )
    (programs / "ssh").chmod(0o755)
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", tmp_path / "sshd.conf"], stderr=subprocess.DEVNULL
    )
    try:
        assert within(60, lambda: answers(port)), "sshd does not listen"
        yield {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    finally:
        server.kill()
        server.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def remote(environment: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [PAGEWISE, "remote", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HUNG_S)


def test_a_recording_comes_back(environment: dict[str, str], tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "work.pgr"
    options = ("--folder", there, "--agent", AGENT, "board")
    done = remote(
        environment,
        *options,
        "record",
        "-o",
        here,
        "--launches",
        "--backend",
        "tracefs",
        "--",
        "true",
    )
    assert done.returncode == 0, done.stderr
    assert f"copying pagewise-agent to board: {AGENT.stat().st_size >> 10:,} KiB" in done.stderr
    info = subprocess.run(
        [PAGEWISE, "info", here, "--json"], capture_output=True, text=True, timeout=HUNG_S
    )
    assert json.loads(info.stdout)["sources"], info.stderr
    assert [path.name for path in there.iterdir()] == [
        path.name for path in there.glob("pagewise-agent-*")
    ]
    # The second time nothing is copied, and the command's status comes back.
    again = remote(
        environment,
        *options,
        "record",
        "-o",
        tmp_path / "b.pgr",
        "--launches",
        "--",
        "sh",
        "-c",
        "exit 7",
    )
    assert again.returncode == 7 and "copying" not in again.stderr, again.stderr


def test_sampled_pages_come_back_as_a_file_that_advise_zram_reads(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = remote(
        environment,
        *("--folder", tmp_path / "there", "--agent", AGENT, "board"),
        *("pages", "--pid", str(os.getpid()), "--algorithms", "lz4", "--by", "library", "--json"),
    )
    assert done.returncode == 0, done.stderr
    sample = tmp_path / "pages.json"
    sample.write_text(done.stdout)
    advice = subprocess.run(
        [PAGEWISE, "advise", "zram", sample, "--json"],
        capture_output=True,
        text=True,
        timeout=HUNG_S,
    )
    assert advice.returncode in (0, 1), advice.stderr
    found = json.loads(advice.stdout)
    assert found["evidence"]["pages_sampled"] > 1000
    assert [each["algorithm"] for each in found["candidates"]] == ["lz4"]


def test_an_interrupt_brings_the_recording_back(
    environment: dict[str, str], tmp_path: Path
) -> None:
    there, here = tmp_path / "there", tmp_path / "work.pgr"
    words = [
        "--folder",
        there,
        "--agent",
        AGENT,
        "board",
        "record",
        "-o",
        here,
        "--launches",
        "--for",
        "10m",
    ]
    with subprocess.Popen(
        [PAGEWISE, "remote", *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert within(HUNG_S / 2, lambda: bool(list(there.glob("recording-*")))), (
                "nothing is recorded"
            )
            running.send_signal(signal.SIGINT)
            assert running.wait(HUNG_S) == 130
        finally:
            running.kill()
    assert here.stat().st_size > 0 and not list(there.glob("recording-*"))


def test_what_cannot_work_is_refused_before_anything_is_copied(
    environment: dict[str, str], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    (tmp_path / "old.pgr").touch()
    for words, part in (
        (["nowhere.invalid", "doctor"], "nowhere.invalid"),
        (["board"], "missing: a command"),
        (["board", "record"], "missing: -o FILE"),
        (["board", "record", "-o", tmp_path / "old.pgr"], "old.pgr exists"),
        (["board", "doctor", "-o", "x"], "doctor cannot write"),
        (["--agent", "/nonexistent", "board", "doctor"], "no such file"),
        (["-oProxyCommand=true", "doctor"], "not a host"),
    ):
        done = remote(environment, "--folder", there, *words)
        assert done.returncode in (2, 3) and part in done.stderr, (words, done.stderr)
        assert "--force" not in done.stderr
    assert not list(there.glob("pagewise-agent*"))


def test_adb_pushes_runs_and_pulls(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not AGENT.exists():
        pytest.skip("no pagewise-agent beside this Python: make build")
    (tmp_path / "adb").write_text(ADB)
    (tmp_path / "adb").chmod(0o755)
    log, here, there = tmp_path / "log", tmp_path / "phone.pgr", tmp_path / "there"
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ADB_LOG": str(log), "ADB_ROOT": ""}
    options = ("--folder", there, "--agent", AGENT, "adb:0123")
    words = ("record", "-o", here, "--launches", "--backend", "tracefs", "--", "true")
    done = remote(environment, *options, *words)
    assert done.returncode == 0, done.stderr
    assert here.stat().st_size > 0 and not list(there.glob("recording-*"))
    calls = log.read_text().splitlines()
    # The lines of shell that run the agent and its guard are one argument each.
    assert [call for call in calls if not call.startswith("-s 0123 ")] == []
    verbs = [call.split()[2] for call in calls]
    assert verbs.count("push") == 1 and verbs.count("pull") == 1
    assert calls[0] == f"-s 0123 shell mkdir -p {there}"
