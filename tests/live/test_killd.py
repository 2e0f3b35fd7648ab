"""killd as a user runs it, on a separate memory cgroup, so that no other process can die.

Needs root and memory cgroups; a skipped test says what is missing.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import MIB, Group
from killd import HANGS_AFTER_S, SETTINGS, Killer, asked, settings
from waiting import killed_after, running

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    refusal("memory-cgroup") is not None, reason=str(refusal("memory-cgroup"))
)


@pytest.fixture
def group() -> Iterator[Group]:
    with Group(200 * MIB) as group:
        yield group


def test_the_least_important_process_dies_and_the_log_says_why(
    group: Group, tmp_path: Path
) -> None:
    with Killer(group.folder, settings(tmp_path)) as killer:
        important = group.hold(70 * MIB, adj=0)
        least = group.grow(100 * MIB, adj=900)
        killer.until(lambda: killer.events("back"))
        assert [line["process"] for line in killer.events("kill")] == [str(least)], killer.lines
        assert "little memory is available" in killer.events("kill")[0]["line"]
        # The victim may have died while it still grew.
        back = killer.events("back")[0]
        assert int(back["freed_bytes"]) > 40 * MIB and int(back["gained_bytes"]) > 0
        assert important in group.processes()
        counted = json.loads(asked(tmp_path / "killd.sock"))
        assert (counted["schema"], counted["kills"]) == ("pagewise.killd/1", 1)
        answer = asked(tmp_path / "metrics.sock", b"GET /metrics HTTP/1.1\r\n\r\n")
        assert "pagewise_killd_kills_total 1\n" in answer
    assert killer.process.returncode == 0
    assert not (tmp_path / "killd.sock").exists()


def test_a_frozen_victim_dies_and_its_memory_comes_back(group: Group, tmp_path: Path) -> None:
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists():
        pytest.skip("needs the freezer of version 1: in version 2 a frozen process dies")
    victim = group.hold(90 * MIB, adj=900)
    frozen = freezer / group.folder.name
    frozen.mkdir()
    try:
        (frozen / "cgroup.procs").write_text(str(victim))
        (frozen / "freezer.state").write_text("FROZEN")
        with Killer(group.folder, settings(tmp_path)) as killer:
            group.grow(80 * MIB, adj=0)
            killer.until(lambda: killer.events("back"))
            assert killer.events("kill")[0]["process"] == str(victim)
            killer.until(lambda: victim not in group.processes())
            # The group is frozen again for its other processes.
            killer.until(lambda: (frozen / "freezer.state").read_text() == "FROZEN\n")
    finally:
        (frozen / "freezer.state").write_text("THAWED")
        group.end()
        group.remove(frozen)


def test_a_frozen_victim_dies_with_the_next_killer_and_its_group_is_frozen_again(
    group: Group, tmp_path: Path
) -> None:
    """Kills killd between kill and thaw, at a different time in each round; the next finishes."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists():
        pytest.skip("needs the freezer of version 1: in version 2 a frozen process dies")
    frozen = freezer / group.folder.name
    frozen.mkdir()
    state = frozen / "freezer.state"
    path = settings(tmp_path)
    try:
        # A bystander that must be frozen again.
        bystander = group.hold(MIB, adj=0)
        (frozen / "cgroup.procs").write_text(str(bystander))
        for _ in range(5):
            victim = group.hold(90 * MIB, adj=900)
            (frozen / "cgroup.procs").write_text(str(victim))
            state.write_text("FROZEN")
            with Killer(group.folder, path) as killer:
                other = group.grow(80 * MIB, adj=0)
                killer.until(lambda: killer.events("kill") or killer.process.poll() is not None)
                killer.process.kill()
                killer.process.wait(timeout=HANGS_AFTER_S)
                assert killer.events("kill")[0]["process"] == str(victim)
            with Killer(group.folder, path) as killer:
                killer.until(lambda gone=victim: gone not in group.processes())
                killer.until(lambda: state.read_text() == "FROZEN\n")
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
            state.write_text("THAWED")
            late = time.monotonic() + HANGS_AFTER_S
            while other in group.processes() and time.monotonic() < late:
                time.sleep(0.001)
    finally:
        state.write_text("THAWED")
        group.end()
        group.remove(frozen)


def test_invalid_settings_leave_the_old_ones_in_force(group: Group, tmp_path: Path) -> None:
    path = settings(tmp_path)
    with Killer(group.folder, path) as killer:
        path.write_text("policy = 'largest'\n\nlow = 3\n")
        killer.process.send_signal(signal.SIGHUP)
        killer.until(lambda: killer.events("reload-refused"))
        assert f"{path}:3: unknown field" in killer.events("reload-refused")[0]["line"]
        path.write_text("policy = 'largest'\n[options]\nmemory_percent = 30\n")
        killer.process.send_signal(signal.SIGHUP)
        killer.until(lambda: killer.events("reload"))
        assert killer.events("reload")[0]["policy"] == "largest"
        victim = group.grow(160 * MIB, adj=0)
        killer.until(lambda: killer.events("kill"))
        assert killer.events("kill")[0]["process"] == str(victim)


def test_killd_ends_when_its_group_is_removed(group: Group, tmp_path: Path) -> None:
    inner = group.folder / "inner"
    inner.mkdir()
    try:
        if (hands_down := group.folder / "cgroup.subtree_control").exists():
            hands_down.write_text("+memory")
        with Killer(inner, settings(tmp_path)) as killer:
            inner.rmdir()
            killer.process.wait(timeout=HANGS_AFTER_S)
            killer.reader.join(timeout=HANGS_AFTER_S)
            assert killer.lines[-1] == "event=group-gone"
            assert killer.process.returncode == 0
    finally:
        if inner.exists():
            Group.remove(inner)


def test_killd_starts_after_a_killed_killd_left_its_socket(group: Group, tmp_path: Path) -> None:
    path = settings(tmp_path)
    with Killer(group.folder, path) as killer:
        killer.process.kill()
        killer.process.wait(timeout=HANGS_AFTER_S)
    assert (tmp_path / "killd.sock").exists()
    with Killer(group.folder, path):
        assert json.loads(asked(tmp_path / "killd.sock"))["kills"] == 0


def test_killd_kills_even_if_its_log_cannot_be_written(group: Group, tmp_path: Path) -> None:
    command = [AGENT, "killd", "--cgroup", group.folder, "--config", settings(tmp_path)]
    for output in ("/dev/full", "/dev/null"):
        with open(output, "w") as stdout:
            process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)
        try:
            victim = group.grow(160 * MIB, adj=0)
            late = time.monotonic() + HANGS_AFTER_S
            while victim in group.processes():
                assert process.poll() is None and time.monotonic() < late, output
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait(timeout=HANGS_AFTER_S)


def test_a_hook_runs_before_the_victim_dies(group: Group, tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = f"kill -0 $PAGEWISE_PROCESS && echo $PAGEWISE_PROCESS $PAGEWISE_NAME > {written}"
    hook = f'[hooks]\nbefore = ["sh", "-c", "{script}"]\ntime_max_ms = 60000\n'
    with Killer(group.folder, settings(tmp_path, SETTINGS + hook)) as killer:
        victim = group.grow(160 * MIB, adj=0)
        killer.until(lambda: killer.events("back"))
    assert written.read_text() == f"{victim} tail\n", killer.lines


def test_a_missing_capability_is_named(group: Group, tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set=-sys_resource,-sys_nice"]
    if subprocess.run([*without, "true"], timeout=HANGS_AFTER_S).returncode != 0:
        pytest.skip("setpriv may not drop capabilities here")
    command = [*without, AGENT, "killd", "--cgroup", group.folder, "--config", settings(tmp_path)]
    messages = tmp_path / "messages"
    with (
        messages.open("w") as errors,
        running(command, stdout=subprocess.PIPE, stderr=errors, text=True) as killer,
        killed_after(HANGS_AFTER_S, killer),
    ):
        assert killer.stdout is not None
        assert any(line.startswith("event=start") for line in killer.stdout)
        killer.terminate()
        killer.wait(timeout=HANGS_AFTER_S)
    adj, priority = messages.read_text().splitlines()
    assert "OOM killer may kill killd" in adj and "CAP_SYS_RESOURCE is missing" in adj
    assert "ordinary priority" in priority and "CAP_SYS_NICE is missing" in priority


def test_killd_locks_less_than_2_mib(group: Group, tmp_path: Path) -> None:
    with Killer(group.folder, settings(tmp_path)) as killer:
        rollup = Path(f"/proc/{killer.process.pid}/smaps_rollup").read_text()
        locked = next(line for line in rollup.splitlines() if line.startswith("Locked:"))
        if locked.split()[1] == "0":
            pytest.skip("memory may not be locked here")
        assert int(locked.split()[1]) < 2048, locked


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("policy = 'lmkd'\n[options]\nswap_util_max = 60\n", 0, "  swap_util_max = 60: "),
        (
            "policy = 'lmkd'\n[options]\nswap_util_max = 101\n",
            2,
            "killd.toml:3: lmkd: swap_util_max",
        ),
        ("policy = 'oom'\n", 2, "killd.toml:1: there is no kill policy"),
    ],
)
def test_settings_are_checked(tmp_path: Path, text: str, status: int, expected: str) -> None:
    (tmp_path / "killd.toml").write_text(text)
    command = [AGENT, "killd", "check", tmp_path]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == status
    assert expected in answer.stdout + answer.stderr


def test_an_unknown_policy_is_a_usage_error() -> None:
    command = [AGENT, "killd", "--policy", "oom"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert answer.returncode == 2
    assert "there are minfree, lmkd, largest, pressure, restart-cost" in answer.stderr


def test_the_shipped_example_is_valid() -> None:
    example = ROOT / "packaging" / "killd.toml"
    command = [AGENT, "killd", "check", example]
    subprocess.run(command, check=True, timeout=HANGS_AFTER_S, stdout=subprocess.DEVNULL)
    assert os.path.getsize(example) > 0


def test_install_places_all_files_and_keeps_edited_settings(tmp_path: Path) -> None:
    # The agent counts as built: a test builds nothing.
    command = ["make", "-o", ".venv/.agent", "install", f"DESTDIR={tmp_path}"]
    for _ in range(2):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S
        )
        assert done.returncode == 0, done.stderr
        unit = (tmp_path / "etc/systemd/system/pagewise-killd.service").read_text()
        program = re.findall(r"^ExecStart=(\S+) killd$", unit, re.MULTILINE)
        assert len(program) == 1 and (tmp_path / program[0].lstrip("/")).exists(), unit
        assert (tmp_path / "usr/local/share/man/man1/pagewise-agent-killd.1").exists()
        unit = (tmp_path / "etc/systemd/system/pagewise-relaunchd.service").read_text()
        assert f"ExecStart={program[0]} relaunchd\n" in unit
        assert (tmp_path / "usr/local/share/man/man1/pagewise-agent-relaunchd.1").exists()
        unit = (tmp_path / "etc/systemd/system/pagewise-swapd.service").read_text()
        assert f"ExecStart={program[0]} swapd $OPTIONS\n" in unit
        (tmp_path / "etc/pagewise.d/killd.toml").open("a").write("# mine\n")
    assert (tmp_path / "etc/pagewise.d/killd.toml").read_text().count("# mine") == 2
    subprocess.run(
        ["make", "uninstall", f"DESTDIR={tmp_path}"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=HANGS_AFTER_S,
    )
    left = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    settings = ["killd.toml", "relaunchd/relaunchd.toml", "swapd.conf"]
    assert sorted(left) == [Path("etc/pagewise.d") / name for name in settings]
