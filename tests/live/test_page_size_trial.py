"""Trials of page sizes on real programs: what they save, and that they leave the machine as it was.

Needs root and a kernel with transparent huge pages of 64 KiB.
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

import pytest
from test_schemas import check
from waiting import is_running, within

from pagewise import layouts
from pagewise.advice.page_size import machines, mthp
from pagewise.capture.run import PLUGIN
from pagewise.huge_pages import settings
from pagewise.huge_pages.verify import LAUNCHER, ProgramFailed, measure, verify
from pagewise.signals import ENDING, status_of

SIZE = 65536
PAGEWISE = [sys.executable, "-m", "pagewise", "pagesize"]
# Touches 32 MiB of heap, page by page.
TOUCH = [sys.executable, "-I", "-S", "-c", "bytearray(1) * (32 << 20)"]
HEAP_PAGES = (32 << 20) // 4096
# Reads each page of 32 MiB of new heap, and then writes to each page.
READ_FIRST = [sys.executable, "-I", "-c"]
READ_FIRST.append("""
import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
heap = (ctypes.c_char * (32 << 20)).from_address(malloc(32 << 20))
for byte in range(0, 32 << 20, 4096):
    heap[byte]
for byte in range(0, 32 << 20, 4096):
    heap[byte] = 1
""")
LIMIT_S = 240
"""A command takes seconds; one that takes longer than this hangs."""


def refusal() -> str | None:
    """Why page sizes cannot be tried here; None if they can."""
    if os.geteuid() != 0:
        return "needs root"
    if SIZE not in settings.sizes():
        return "this kernel has no transparent huge pages of 64 KiB (Linux 6.8 has)"
    if not os.access(settings.SWITCHES / settings.GENERAL, os.W_OK):
        return "the switches of transparent huge pages are read-only here"
    return None


REFUSAL = refusal()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL)),
]


@pytest.fixture(autouse=True)
def nothing_stays_changed() -> Iterator[None]:
    before = settings.present()
    yield
    try:
        assert settings.present() == before
        assert not settings.UNDO.exists() or settings.UNDO.read_text() == ""
    finally:
        settings.put_back()


def test_larger_pages_save_faults() -> None:
    result = verify(TOUCH, SIZE, rounds=2)
    check(result, layouts.schema("pagesize-verify"))
    assert result["base"]["minor_faults"]["low"] > HEAP_PAGES
    assert result["chosen"]["minor_faults"]["high"] < HEAP_PAGES / 2
    assert result["saved"]["minor_faults"]["low"] > 0.5
    assert abs(result["saved"]["max_rss_bytes"]["typical"]) < 0.05
    assert result["kernel"]["anon_fault_alloc"] >= (32 << 20) / SIZE


def test_memory_that_is_read_first_keeps_small_pages() -> None:
    result = verify(READ_FIRST, SIZE, rounds=1)
    assert result["base"]["minor_faults"]["low"] > 2 * HEAP_PAGES
    assert result["chosen"]["minor_faults"]["low"] > 2 * HEAP_PAGES


def test_only_programs_that_ask_get_huge_pages() -> None:
    with settings.changed(settings.only_advised(SIZE, settings.present())):
        assert settings.present()[settings.switch(SIZE)] == "madvise"
        assert measure(TOUCH, "base")["minor_faults"] > HEAP_PAGES
        assert measure(TOUCH, "huge")["minor_faults"] < HEAP_PAGES / 2


def test_memory_is_measured_only_of_the_program() -> None:
    ballast = bytearray(1) * (128 << 20)
    assert 32 << 20 < measure(TOUCH, "base")["max_rss_bytes"] < len(ballast) // 2
    assert "max_rss_bytes" not in measure(["true"], "base")


def test_a_program_that_fails_leaves_nothing() -> None:
    with pytest.raises(ProgramFailed, match="status 3"):
        verify(["sh", "-c", "exit 3"], SIZE)
    with pytest.raises(ProgramFailed, match="ended by SIGKILL"):
        verify(["sh", "-c", "kill -9 $$"], SIZE)


def test_a_script_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("true\n")
    script.chmod(0o755)
    with pytest.raises(ProgramFailed, match="cannot be started"):
        verify([str(script)], SIZE)


def started() -> subprocess.Popen[str]:
    """A verification in the middle of its first run."""
    command = [*PAGEWISE, "verify", "--page-size", "64KiB", "--", "sleep", "60"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        is_set = settings.present()[settings.switch(SIZE)] == "madvise"
        if is_set and not all(map(is_keeper, children(running.pid))):
            return running
        time.sleep(0.05)
    running.kill()
    running.wait(60)
    pytest.fail("the verification did not begin")


def children(process: int) -> list[int]:
    """The descendants of this process, the launcher first."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, timeout=60
    )
    direct = [int(word) for word in listed.stdout.split()]
    return direct + [below for child in direct for below in children(child)]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_ends_a_verification_and_restores_the_switches(number: signal.Signals) -> None:
    running = started()
    below = children(running.pid)
    running.send_signal(number)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == status_of(number), errors
    assert str(settings.UNDO) in errors and "pagewise: " in errors
    assert_gone(below)


def test_the_keeper_restores_the_switches_of_a_killed_verification() -> None:
    before = settings.present()
    running = started()
    below = children(running.pid)
    running.kill()
    running.wait(30)
    assert_gone(below)  # its keeper among them
    assert settings.present() == before


def test_undo_restores_the_switches_of_a_verification_killed_with_its_keeper() -> None:
    before = settings.present()
    running = started()
    below = children(running.pid)
    for process in filter(is_keeper, below):
        os.kill(process, signal.SIGKILL)
    running.kill()
    running.wait(30)
    assert_gone(below)
    assert settings.present() != before
    undone = subprocess.run(
        [*PAGEWISE, "undo"], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert f"{settings.switch(SIZE)}: {before[settings.switch(SIZE)]}" in undone.stdout
    again = subprocess.run(
        [*PAGEWISE, "undo"], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert "nothing was left changed" in again.stderr


def is_keeper(process: int) -> bool:
    """Whether the process is a keeper, which restores the switches after a killed verification."""
    try:
        return b"pagewise.huge_pages.keeper" in Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_launcher_starts_nothing_if_its_starter_has_ended(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait(60)
    words = [str(LAUNCHER), str(ended.pid), "1", "base", "touch", str(tmp_path / "started")]
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and run.stderr == "the process that started this one has ended\n"
    assert not run.stdout and not list(tmp_path.iterdir())


def assert_gone(processes: list[int]) -> None:
    """The program under test ends with the verification."""
    assert processes
    assert within(60, lambda: not any(map(is_running, processes)))


def test_the_command_prints_the_saving() -> None:
    command = [*PAGEWISE, "verify", "--rounds", "1", "--json", "--", *TOUCH]
    result = json.loads(subprocess.check_output(command, timeout=LIMIT_S))
    assert result["schema"] == "pagewise.pagesize-verify/1"
    words = [*PAGEWISE, "verify", "--rounds", "1", "--", *TOUCH]
    shown = subprocess.check_output(words, text=True, timeout=LIMIT_S)
    assert "minor faults" in shown and "64 KiB" in shown


def test_invalid_sizes_and_programs_are_refused() -> None:
    for words, status, message in [
        (["--page-size", "8KiB", "--", "true"], 2, "no transparent huge pages of 8 KiB"),
        (["--", "no-such-program"], 2, "no such program"),
        (["--", "false"], 1, "ended with status 1"),
    ]:
        run = subprocess.run(
            [*PAGEWISE, "verify", *words], capture_output=True, text=True, timeout=LIMIT_S
        )
        assert run.returncode == status and message in run.stderr, run.stderr


def pasted(script: str, home: Path) -> None:
    """Runs pasted lines in a shell, with a separate home."""
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run(["sh", "-e", "-c", script], env=environment, check=True, timeout=60)


def test_pasted_settings_set_one_size_and_their_undo_restores_it(tmp_path: Path) -> None:
    before = settings.present()
    for way, word in [(mthp.for_process, "madvise"), (mthp.for_machine, "always")]:
        setting = way(SIZE)
        try:
            for _ in range(2):
                pasted(setting.apply.replace("COMMAND", "true"), tmp_path)
            now = settings.present()
        finally:
            pasted(setting.undo, tmp_path)
        assert now.pop(settings.switch(SIZE)) == word
        assert now.pop(settings.GENERAL) in ("madvise", before[settings.GENERAL])
        assert set(now.values()) == {"never"}
        assert settings.present() == before and not list(tmp_path.iterdir())
    for setting in mthp.whole_thp():
        try:
            pasted(setting.apply.replace("COMMAND", "true"), tmp_path)
            assert settings.present()[settings.GENERAL] in ("madvise", "always")
        finally:
            pasted(setting.undo, tmp_path)
        assert settings.present() == before


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="no systemd-tmpfiles")
def test_systemd_accepts_the_lines(tmp_path: Path) -> None:
    before = settings.present()
    file = tmp_path / "pagewise.conf"
    file.write_text(mthp.tmpfiles(SIZE) + "\n")
    try:
        pasted(f"{mthp.RECORD}\nsystemd-tmpfiles --create {file}", tmp_path)
        now = settings.present()
    finally:
        pasted(mthp.PUT_BACK, tmp_path)
    assert now[settings.switch(SIZE)] == "always"
    assert now[settings.switch(mthp.PMD_BYTES)] == "never"
    assert settings.present() == before


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no qemu-system-x86_64")
def test_qemu_takes_the_huge_pages_set_aside(tmp_path: Path) -> None:
    pool = Path(machines.POOL)
    before = pool.read_text()
    try:
        pasted(machines.RESERVE.replace("4096", "64"), tmp_path)
        if int(pool.read_text()) < int(before) + 32:
            pytest.skip("the kernel cannot set 64 MiB of huge pages aside now")
        qemu = f"qemu-system-x86_64 {machines.qemu_options('64M')} -accel tcg -S -display none"
        quitting = subprocess.run(
            [*qemu.split(), "-monitor", "stdio"],
            input="info memdev\nquit\n",
            text=True,
            capture_output=True,
            timeout=60,
        )
        assert quitting.returncode == 0, quitting.stderr
        assert "size:  67108864" in quitting.stdout and "prealloc: true" in quitting.stdout
    finally:
        pasted(machines.RELEASE, tmp_path)
    assert pool.read_text() == before


# Touches 16 MiB of heap twice, a byte in every 512.
HEAP = """
#include <stdlib.h>
int main(void)
{
    size_t bytes = 16 << 20;
    char *heap = malloc(bytes);
    for (int round = 1; heap && round < 3; round++)
        for (size_t place = 0; place < bytes; place += 512)
            heap[place] = round;
    return !heap || heap[512] != 2;
}
"""


@pytest.mark.skipif(
    not PLUGIN.exists() or not shutil.which("qemu-x86_64") or not shutil.which("cc"),
    reason="needs the capture plugin, qemu-x86_64 and cc",
)
@pytest.mark.parametrize("word", ["madvise", "always"])
def test_the_forecast_agrees_with_the_trial(tmp_path: Path, word: str) -> None:
    (tmp_path / "heap.c").write_text(HEAP)
    subprocess.run(["cc", "-O1", "-o", "heap", "heap.c"], cwd=tmp_path, check=True, timeout=60)
    asked = ["--memory", "100%", "--storage", "optane-ssd", "--verify", "--rounds", "2", "--json"]
    command = [*PAGEWISE[:-1], "advise", "pagesize", *asked, "--", tmp_path / "heap"]
    switch, before = settings.SWITCHES / settings.GENERAL, settings.present()[settings.GENERAL]
    switch.write_text(word)
    try:
        trial = json.loads(subprocess.check_output(command, timeout=LIMIT_S))["verification"]
    finally:
        switch.write_text(before)
    forecast = trial["forecast"]["minor_faults"]
    base, chosen = (trial[name]["minor_faults"]["typical"] for name in ("base", "chosen"))
    assert base == pytest.approx(forecast["base"], rel=0.03)
    assert chosen / base == pytest.approx(forecast["chosen"] / forecast["base"], abs=0.05)
    assert trial["saved"]["minor_faults"]["low"] > 0.7
