"""The prerequisites of `make demo`: a single apt line, which includes those of recording."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "prerequisites.sh"
RECORDING = "clang pkg-config libelf-dev zlib1g-dev"


def asked(
    folder: Path,
    user: int,
    *,
    has_compiler: bool = True,
    has_bpf: bool = False,
    cargo: str = "echo cargo 1.99.0",
) -> tuple[int, str, str]:
    """Exit status, arguments of apt-get, and messages, on a machine with these programs."""
    log = folder / "apt.log"
    stubs = {
        "id": f"echo {user}",
        "apt-get": f'echo "$*" >> {log}',
        "cargo": cargo,
        "python3": f'exec {sys.executable} "$@"',
    }
    if has_compiler:
        # A compiler with or without the headers of libelf.
        stubs["cc"] = "cat > /dev/null" if has_bpf else "cat > /dev/null; exit 1"
    if has_bpf:
        stubs |= {"clang": "true", "pkg-config": "true"}
    for name, line in stubs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    for tool in ("sh", "cat", "dirname", "sed", "env"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    run = subprocess.run(
        [SCRIPT, "demo"],
        env={**os.environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return run.returncode, log.read_text() if log.exists() else "", run.stderr


@pytest.mark.parametrize("has_compiler", [True, False])
def test_root_gets_the_packages_for_recording(tmp_path: Path, has_compiler: bool) -> None:
    status, apt, _ = asked(tmp_path, 0, has_compiler=has_compiler)
    assert status == 0
    (install,) = (line for line in apt.splitlines() if line.startswith("install"))
    assert install.endswith(RECORDING) and ("gcc" in install) != has_compiler


def test_other_users_get_a_line_to_paste(tmp_path: Path) -> None:
    status, apt, errors = asked(tmp_path, 1000, has_compiler=False)
    assert (status, apt) == (2, "")
    assert f"sudo apt-get install -y gcc {RECORDING}\n" in errors


def test_the_demo_does_not_require_the_packages_for_recording(tmp_path: Path) -> None:
    assert asked(tmp_path, 1000)[:2] == (0, "")


def test_nothing_is_installed_twice(tmp_path: Path) -> None:
    assert asked(tmp_path, 0, has_bpf=True)[:2] == (0, "")


@pytest.mark.parametrize(
    ("cargo", "wanted"),
    [
        (
            "echo 'error: rustup could not choose a version of cargo to run' >&2; exit 1",
            ("rustup could not choose a version of cargo to run", "run: rustup default stable"),
        ),
        ("exit 1", ("it prints nothing", "rustup default stable")),
        ("echo hello", ("`cargo --version` prints no version: hello",)),
        ("echo cargo 1.87.0", ("this is cargo 1.87.0", "rustup update stable")),
    ],
)
def test_a_cargo_without_a_useful_answer_is_named(
    tmp_path: Path, cargo: str, wanted: tuple[str, ...]
) -> None:
    status, _, errors = asked(tmp_path, 1000, has_bpf=True, cargo=cargo)
    assert status == 2
    for text in wanted:
        assert text in errors
    assert "Illegal" not in errors and "integer" not in errors
