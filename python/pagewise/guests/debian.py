"""Fetches Debian packages with apt and unpacks them, without a change to this machine's packages.

Kernels and busybox of guests come from here, for any architecture that Debian has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pagewise.errors import Missing, UnreadableInput

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pagewise" / "debian"
"""The folder of fetched packages and of apt's lists."""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 300


def package(name: str, architecture: str, suite: str | None = None) -> Path:
    """The unpacked files of a Debian package, or of the kernel that an empty package depends on.

    Raises Missing if apt cannot fetch it.
    """
    apt = Apt(architecture, suite)
    folder = apt.folder / name
    if not folder.exists():
        fetched = apt.folder / "fetched"
        fetched.mkdir(parents=True, exist_ok=True)
        unpack(apt.fetch(apt.newest(name), fetched), folder)
    return folder


def unpacked(archive: Path) -> Path:
    """The unpacked files of a package file. Raises Missing if it is no Debian package."""
    try:
        facts = archive.stat()
    except OSError as error:
        raise UnreadableInput(f"{archive}: {error.strerror}", path=str(archive)) from error
    folder = CACHE / "files" / f"{facts.st_mtime_ns}-{facts.st_size}" / archive.name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpack(archive, folder)
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a package file into a new folder, which appears when it is complete."""
    aside = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        run("dpkg-deb", "-x", str(archive), str(aside))
    except Missing as error:
        raise UnreadableInput(
            f"{archive} cannot be unpacked: {error}",
            path=str(archive),
            hint="give a Debian package that is whole, such as linux-image-*.deb",
        ) from error
    aside.rename(folder)


@dataclass(frozen=True)
class Apt:
    """apt for an architecture, with separate lists, and the machine's or a suite's sources."""

    architecture: str
    suite: str | None

    @property
    def folder(self) -> Path:
        """The folder of its lists and packages."""
        return CACHE / "-".join(filter(None, (self.architecture, self.suite)))

    def newest(self, name: str) -> str:
        """The kernel package on which an empty package depends, or else the name."""
        self.run("apt-get", "-qq", "update")
        depends = self.run("apt-cache", "depends", name)
        kernel = re.search(r"Depends: (linux-image-\d\S+)", depends)
        return kernel.group(1) if kernel else name

    def fetch(self, name: str, folder: Path) -> Path:
        """Downloads a package; apt checks its hash."""
        for old in folder.glob(f"{name}_*.deb"):
            old.unlink()
        self.run("apt-get", "-qq", "download", name, folder=folder)
        return next(folder.glob(f"{name}_*.deb"))

    def run(self, command: str, *arguments: str, folder: Path | None = None) -> str:
        """Runs a command of apt, and returns its output."""
        state = self.folder / "apt"
        (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (state / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        options = [
            f"APT::Architecture={self.architecture}",
            f"APT::Architectures={self.architecture}",
            f"Dir::State={state}",
            f"Dir::State::status={state / 'status'}",
            f"Dir::Cache={state / 'cache'}",
            # The user _apt may not have permission to write here.
            "APT::Sandbox::User=root",
        ]
        if self.suite is not None:
            sources = state / "sources.list"
            sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {self.suite} main\n")
            options += [f"Dir::Etc::SourceList={sources}", "Dir::Etc::SourceParts=/dev/null"]
        words = [command, *(word for option in options for word in ("-o", option)), *arguments]
        return run(*words, folder=folder)


def mirror() -> str:
    """The Debian mirror of this machine. Raises Missing if it has none."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    debian = [each for each in listed.split() if each.rstrip("/").endswith("/debian")]
    if not debian:
        raise Missing(
            "apt has no Debian mirror to fetch a kernel and busybox from",
            hint="add a Debian mirror to its sources, on Ubuntu with a pin that installs nothing "
            "from it",
        )
    return debian[0]


def run(*command: str, folder: Path | None = None) -> str:
    """The output of a tool of Debian. Raises Missing if it is not installed, fails or takes too
    long."""
    try:
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise Missing(
            f"{command[0]} is not installed; guests are made of Debian packages",
            hint="use a machine with Debian or Ubuntu",
        ) from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"{command[0]} failed: {error.stderr.strip()[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{command[0]} took longer than {TIMEOUT_S} s") from error
    return ran.stdout
