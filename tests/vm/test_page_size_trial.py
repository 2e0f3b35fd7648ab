"""`pagewise pagesize verify --guest` on a program whose faults are known: it touches 8 MiB."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import guest
import pytest
from waiting import running, within

from pagewise.capture.process import below
from pagewise.capture.run import PLUGIN
from pagewise.cli import run
from pagewise.guests import debian, verify

pytestmark = pytest.mark.slow

TOUCHED_MIB = 8
COMPILERS = {"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}
SIZES_KIB = {"amd64": (4, 64), "arm64": (4, 16)}


def compiled(architecture: str, folder: Path) -> Path:
    """The program for a processor; skips the test if guests cannot be booted here."""
    compiler = COMPILERS[architecture]
    if missing := [name for name in (compiler, "qemu-x86_64") if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} missing: tools/prerequisites.sh test")
    if not PLUGIN.exists():
        pytest.skip("no capture plugin: make build")
    name = next(key for key, value in verify.DEBIAN.items() if value == architecture)
    for kernel in verify.KERNELS[name]:
        if reason := guest.refusal(guest.Machine(architecture, verify.SUITE, kernel)):
            pytest.skip(reason)
    program = folder / "touch_memory"
    source = Path(__file__).with_name("touch_memory.c")
    subprocess.run([compiler, "-O1", "-static", "-o", program, source], check=True, timeout=300)
    return program


@pytest.mark.parametrize("architecture", COMPILERS)
def test_first_touches_of_memory_are_forecast_and_measured(architecture, tmp_path, capsys):
    program = compiled(architecture, tmp_path)
    sizes = ",".join(f"{size}KiB" for size in SIZES_KIB[architecture])
    words = ["--guest", "--memory", "16MiB", "--page-size", sizes, "--json"]
    assert run(["pagesize", "verify", *words, "--", str(program), str(TOUCHED_MIB)]) == 0
    small, large = json.loads(capsys.readouterr().out)["sizes"]
    for each, size in zip((small, large), SIZES_KIB[architecture], strict=True):
        touched = TOUCHED_MIB * 1024 // size
        assert touched <= each["faults"]["forecast"] <= touched + 50
        # The kernel counts the start of the program as well.
        assert touched <= each["faults"]["measured"] <= touched + 100
        is_huge = architecture == "amd64" and size > 4
        assert (each["huge_pages"] >= touched) == is_huge
        assert each["instructions"] > TOUCHED_MIB * 256
    assert small["bytes_read"] > program.stat().st_size / 2
    assert large["instructions"] < small["instructions"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_guest_ends_with_the_command(number, tmp_path):
    program = compiled("amd64", tmp_path)
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    cache = tmp_path / "cache" / "pagewise"
    cache.mkdir(parents=True)
    (cache / "debian").symlink_to(debian.CACHE)
    words = ["pagesize", "verify", "--guest", "--memory", "16MiB", "--", program, str(TOUCHED_MIB)]

    def guests(command: int) -> list[int]:
        """The emulators that the command has started and that still run."""
        return [each for each in below(command) if "qemu-system" in name_of(each)]

    with running([sys.executable, "-m", "pagewise", *words], env=environment) as command:
        assert within(120, lambda: bool(guests(command.pid)))
        emulators = guests(command.pid)
        command.send_signal(number)
        status = command.wait(60)
        assert within(60, lambda: not any("qemu-system" in name_of(each) for each in emulators))
    assert status == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert not list(tmp_path.glob("pagewise-*"))


def name_of(process: int) -> str:
    """The name of a running process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""
