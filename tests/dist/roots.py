"""Bare Debian roots for tests of what users install, kept in build/roots once they are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DIST = REPOSITORY / "dist"
ROOTS = REPOSITORY / "build/roots"
WHEELS = REPOSITORY / "build/wheels"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
"""The Python of the Debian suites that the packages are for: 12 and 13."""
GLIBC = ("2_34", "2_28", "2_27", "2_17")
"""The versions of glibc that the wheels of other processors name."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSING = (
    *("proc", "dev", "tmp", "wheels", "root/.cache"),
    *("var/cache", "var/log", "var/lib/dpkg", "var/lib/apt"),
)
"""The folders of a root that the system and the tests write to in passing."""
MERGED = "/usr/share/mmdebstrap/hooks/merged-usr"
"""The hooks of mmdebstrap that make /bin and /lib links, as the installer of Debian does."""
HUNG_S = 800
ENTERED = """\
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
    exec chroot "$1" /usr/bin/env -i "$3" HOME=/root LANG=C.UTF-8 \\
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_ROOT_USER_ACTION=ignore sh -c "$2"
"""


def built(pattern: str) -> Path:
    """The file in dist that fits; skips the test if it is not built."""
    found = sorted(DIST.glob(pattern))
    if not found:
        pytest.skip(f"dist/{pattern} is not built: make dist")
    return found[-1]


def refusal() -> str | None:
    """Why no root can be made here; None if it can."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("mmdebstrap") is None:
        return "mmdebstrap is not installed: tools/dist_setup.sh"
    return None


def archive_of(suite: str, packages: tuple[str, ...], architecture: str | None) -> Path:
    """The archive of a root, made once.

    Nothing runs in the root of another processor. It has the files of the packages, and the
    packages themselves in /var/cache/apt/archives, for a guest to install.
    """
    names = "-".join(filter(None, (suite, architecture, *packages)))
    archive = ROOTS / f"{names}.tar"
    if not archive.exists():
        ROOTS.mkdir(parents=True, exist_ok=True)
        part = archive.with_name(f"part-{os.getpid()}.tar")
        kind = ["--variant=minbase"]
        if architecture is not None:
            kind = ["--variant=extract", f"--architectures={architecture}"]
            kind += ["--skip=check/qemu", "--skip=cleanup/apt/cache", f"--hook-dir={MERGED}"]
        named = [f"--include={package}" for package in packages]
        sources = [str(SOURCES)] if SOURCES.exists() and suite == "bookworm" else []
        command = ["mmdebstrap", "--mode=root", *kind, *named, suite, str(part), *sources]
        # Python's variables would reach the packages, which compile their modules in the root.
        clean = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        made = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=HUNG_S)
        if made.returncode != 0:
            part.unlink(missing_ok=True)
            pytest.skip(f"Debian's archive gives no {suite}: {made.stderr.splitlines()[-3:]}")
        part.rename(archive)
    return archive


@contextmanager
def bare(
    suite: str, packages: tuple[str, ...], folder: Path, architecture: str | None = None
) -> Iterator[Path]:
    """A fresh root of Debian with only the essential packages and those named.

    With the ``architecture`` of another processor, only those named and what they depend on.
    """
    archive = archive_of(suite, packages, architecture)
    root = folder / "root"
    root.mkdir()
    try:
        subprocess.run(["tar", "-xf", archive, "-C", root], check=True, timeout=HUNG_S)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def inside(root: Path, line: str, *, status: int = 0) -> str:
    """The standard output of a line of shell in the root; the line must end with ``status``."""
    command = ["unshare", "--mount", "sh", "-c", ENTERED, "sh", str(root), line, f"PATH={PATH}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)
    assert done.returncode == status, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def with_wheels(
    root: Path, wheel: Path, suite: str = "bookworm", machine: str | None = None
) -> None:
    """Puts the wheel and all that it depends on into /wheels: the root installs without network.

    ``machine``: the processor of the root, if it is another.
    """
    kept = WHEELS / "-".join(filter(None, (PYTHONS[suite], machine)))
    done = kept / ".done"
    if not done.exists() or done.stat().st_mtime < wheel.stat().st_mtime:
        kept.mkdir(parents=True, exist_ok=True)
        own = ["pip", "setuptools", "wheel"]  # pipx keeps them for all environments
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(kept)]
        versions = [*built_for(machine), "--python-version", PYTHONS[suite], "--only-binary=:all:"]
        command = [*download, *versions, str(wheel), *own]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)
        if ran.returncode != 0:
            pytest.skip(f"the registry gives no dependencies: {ran.stderr.splitlines()[-3:]}")
        done.touch()
    shutil.copytree(kept, root / "wheels", ignore=shutil.ignore_patterns("pagewise*", ".done"))
    shutil.copy(wheel, root / "wheels")


def built_for(machine: str | None) -> list[str]:
    """The options with which pip takes wheels for another processor."""
    return [f"--platform=manylinux_{version}_{machine}" for version in GLIBC if machine]


def files(root: Path) -> set[str]:
    """Every path in the root, except those in PASSING."""
    found = set()
    for folder, names, leaves in os.walk(root):
        inner = os.path.relpath(folder, root)
        names[:] = [name for name in names if os.path.normpath(f"{inner}/{name}") not in PASSING]
        found |= {os.path.normpath(f"{inner}/{name}") for name in (*names, *leaves)}
    return found
