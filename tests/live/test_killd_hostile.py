"""Failures around killd: it reports them, continues, and leaves nothing behind.

Needs root and memory cgroups; a skipped test says what is missing.
"""

import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import MIB, Group
from killd import HANGS_AFTER_S, SETTINGS, Killer, asked, settings

pytestmark = pytest.mark.skipif(
    refusal("memory-cgroup") is not None, reason=str(refusal("memory-cgroup"))
)


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(200 * MIB) as group:
        yield group


def refused(group: Group, path: Path, files_max: int = 4096) -> str:
    """The standard error of a killd that refuses to start."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    command = [AGENT, "killd", "--cgroup", group.folder, "--config", path]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_AFTER_S, preexec_fn=limit
    )
    assert answer.returncode in (2, 3), answer
    return answer.stderr


def test_a_pipe_as_settings_is_refused(group: Group, tmp_path: Path) -> None:
    path = settings(tmp_path)
    with Killer(group.folder, path) as killer:
        path.unlink()
        os.mkfifo(path)
        killer.process.send_signal(signal.SIGHUP)
        killer.until(lambda: killer.events("reload-refused"))
        assert "it is not a regular file" in killer.events("reload-refused")[0]["line"]
        group.grow(160 * MIB, adj=0)
        killer.until(lambda: killer.events("back"))


def test_a_slow_hook_delays_neither_new_settings_nor_the_end(group: Group, tmp_path: Path) -> None:
    began = tmp_path / "began"
    hook = f'[hooks]\nafter = ["sh", "-c", "echo > {began}; sleep 1000"]\ntime_max_ms = 60000\n'
    path = settings(tmp_path, SETTINGS + hook)
    with Killer(group.folder, path) as killer:
        group.grow(160 * MIB, adj=0)
        killer.until(began.exists)
        path.write_text('policy = "largest"\n')
        killer.process.send_signal(signal.SIGHUP)
        killer.until(lambda: killer.events("reload"))
        killer.process.terminate()
        # Earlier than the minute that the hook may take.
        assert killer.process.wait(timeout=50) == 0


def test_a_failed_hook_is_logged(group: Group, tmp_path: Path) -> None:
    hook = '[hooks]\nbefore = ["sh", "-c", "echo output; exit 3"]\ntime_max_ms = 60000\n'
    with Killer(group.folder, settings(tmp_path, SETTINGS + hook)) as killer:
        victim = group.grow(160 * MIB, adj=0)
        killer.until(lambda: killer.events("back"))
        assert killer.events("hook-failed")[0]["process"] == str(victim)
    # The hook's output does not go to killd's log.
    assert "output" not in killer.lines


def test_too_few_open_files_are_refused_at_the_start(group: Group, tmp_path: Path) -> None:
    assert "open files are too few" in refused(group, settings(tmp_path), files_max=24)


def test_thresholds_that_kill_every_process_are_refused(group: Group, tmp_path: Path) -> None:
    text = 'policy = "minfree"\n[options]\nminfree_levels = "51200:0"\n'
    assert "minfree would kill every process" in refused(group, settings(tmp_path, text))


def test_a_used_socket_is_refused_but_killd_starts_without_an_impossible_one(
    group: Group, tmp_path: Path
) -> None:
    path = settings(tmp_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "killd.sock"))
        other.listen(0)
        # Its backlog is full now, so that a blocking connect would wait.
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(tmp_path / "killd.sock"))
            assert "another program answers there" in refused(group, path)
    (tmp_path / "killd.sock").unlink()
    path.write_text(path.read_text().replace(f"{tmp_path}/metrics", "/proc/none/metrics"))
    with Killer(group.folder, path) as killer:
        assert any("a socket at /proc/none/metrics" in line for line in killer.lines)
        assert '"kills":0' in asked(tmp_path / "killd.sock")


MINFREE = 'policy = "minfree"\n[options]\nminfree_levels = "51200:0"\n'


def checked(words: list[object], files_max: int) -> tuple[int, str]:
    """The exit status of a killd command, and the last line of its standard error."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    ran = subprocess.run(
        [AGENT, "killd", *words],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        preexec_fn=limit,
    )
    return ran.returncode, ran.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("text", "group_name", "files_max", "expected"),
    [
        (MINFREE, "", 4096, "would kill every"),
        ('policy = "largest"\n', "", 24, "open files are too few"),
        ('policy = "largest"\n', "/missing", 4096, "No such file"),
        ('[sockets]\nmetrics = "{folder}/killd.toml"\n', "", 4096, "a file that is not a socket"),
        ('[sockets]\nmetrics = "{folder}/other.sock"\n', "", 4096, "another program answers"),
        ('policy = "largest"\n[options]\nmemory_percent = 100\n', "", 4096, "memory_percent"),
    ],
)
def test_check_refuses_what_killd_refuses(
    group: Group, tmp_path: Path, text: str, group_name: str, files_max: int, expected: str
) -> None:
    path = settings(tmp_path, text)
    cgroup = f"{group.folder}{group_name}"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other.sock"))
        other.listen(8)
        run = checked(["--cgroup", cgroup, "--config", path], files_max)
        check = checked(["check", "--cgroup", cgroup, path], files_max)
    assert expected in run[1]
    assert run == check and run[0] in (2, 3)


def test_check_accepts_sockets_that_a_running_killd_uses(group: Group, tmp_path: Path) -> None:
    path = settings(tmp_path)
    with Killer(group.folder, path):
        command = [AGENT, "killd", "check", "--cgroup", group.folder, path]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
        assert ran.returncode == 0, ran.stderr
        assert f"a running killd already uses {tmp_path}/killd.sock" in ran.stdout
        assert f"a running killd already uses {tmp_path}/metrics.sock" in ran.stdout
        # A second killd would take over the sockets, so it must refuse.
        assert "another program answers there" in refused(group, path)


def test_check_without_arguments_shows_the_settings_in_force() -> None:
    answer = subprocess.run(
        [AGENT, "killd", "check"], capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert "/etc/pagewise.d" in answer.stdout + answer.stderr
    if not Path("/etc/pagewise.d").exists():
        assert answer.returncode == 0
        assert "so the defaults apply" in answer.stdout
