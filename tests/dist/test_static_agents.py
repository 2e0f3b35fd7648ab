"""The static agents, each in a root with busybox only; those of other processors under QEMU."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from roots import built

MACHINES = {"x86_64": None, "aarch64": "qemu-aarch64-static", "armv7": "qemu-arm-static"}
BUSYBOX = Path("/bin/busybox")
HUNG_S = 300


@pytest.fixture(params=MACHINES)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The words that run an agent in a root that has only busybox: no /etc, no libc, no Python."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed: tools/dist_setup.sh")
    program = built(f"pagewise-agent-{request.param}")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    shutil.copy(BUSYBOX, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    shutil.copy(program, root / "bin/pagewise-agent")
    words = ["/bin/pagewise-agent"]
    if emulator := MACHINES[request.param]:
        found = shutil.which(emulator)
        if found is None:
            pytest.skip(f"{emulator} is not installed: tools/dist_setup.sh")
        shutil.copy(found, root / "bin" / emulator)
        words = [f"/bin/{emulator}", *words]
    for name in ("proc", "sys"):
        (root / name).mkdir()
    mounts = " && ".join(f'mount --rbind /{name} "{root}/{name}"' for name in ("proc", "sys"))
    entered = f'{mounts} && exec chroot "{root}" "$@"'
    yield ["unshare", "--mount", "sh", "-c", entered, "sh", *words]


def output_of(words: list[str], status: int = 0) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=HUNG_S)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_help_names_the_commands(agent: list[str]) -> None:
    assert "killd" in output_of([*agent, "--help"])


def test_doctor_answers_without_etc(agent: list[str]) -> None:
    done = subprocess.run(
        [*agent, "doctor", "--json"], capture_output=True, text=True, timeout=HUNG_S
    )
    names = {finding["name"] for finding in json.loads(done.stdout)["findings"]}
    assert {"btf", "tracefs"} <= names, done.stderr


def test_manual_writes_pages(agent: list[str]) -> None:
    output_of([*agent, "manual", "/tmp/man"])
    root = Path(agent[4].rpartition("chroot ")[2].split('"')[1])
    assert (root / "tmp/man/pagewise-agent-record.1").stat().st_size > 1000


@pytest.mark.parametrize("machine", MACHINES)
def test_a_static_agent_is_one_small_file(machine: str) -> None:
    program = built(f"pagewise-agent-{machine}")
    assert program.stat().st_size < 8_000_000
    headers = subprocess.run(
        ["readelf", "-ld", program], capture_output=True, text=True, timeout=HUNG_S
    ).stdout
    assert "INTERP" not in headers and "NEEDED" not in headers
    content = program.read_bytes()
    if machine != "armv7":
        assert b"record_swap" in content or b"recorder_bpf" in content, "no BPF programs in it"
    assert str(Path(__file__).parents[2]).encode() not in content
