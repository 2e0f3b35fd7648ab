"""Builds a kernel module of ours for the kernel of a guest, from Debian's headers of that kernel.

The headers are unpacked into the folder of fetched packages; nothing is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import guest

from pagewise.errors import Missing
from pagewise.guests import debian

LOWMEM = Path(__file__).parents[2] / "lab" / "lowmem"
"""The source of the low-memory killer as a shrinker."""
FILLER = Path(__file__).with_name("filler.c")
"""The program that launches and is cached beside it."""


def release(machine: guest.Machine) -> str:
    """The release of the guest's kernel, such as ``6.1.0-56-cloud-amd64``."""
    return guest.image(machine).name.removeprefix("vmlinuz-")


def headers(machine: guest.Machine) -> Path:
    """The folder in which ``make`` builds modules for the guest's kernel.

    Raises Missing if apt has no headers of this kernel, or if make or its compiler is missing.
    """
    name = release(machine)
    found = re.fullmatch(r"((\d+\.\d+)\.\d+-\d+)-(.+)", name)
    if found is None:
        raise Missing(f"{name} is not the release of a kernel of Debian's stable suites")
    abi, version, _ = found.groups()
    root = debian.CACHE / machine.architecture / f"headers-{name}"
    build = root / "usr" / "src" / f"linux-headers-{name}"
    if not root.exists():
        packages = (
            guest.package(package, machine.architecture, machine.suite)
            for package in (
                f"linux-headers-{name}",
                f"linux-headers-{abi}-common",
                f"linux-kbuild-{version}",
            )
        )
        aside = root.with_name(f"{root.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        for package in packages:
            shutil.copytree(package, aside, symlinks=True, dirs_exist_ok=True)
        # The package's only absolute path.
        makefile = aside / build.relative_to(root) / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src/", "$(CURDIR)/../"))
        aside.rename(root)
    compiler = re.search(r"gcc-\d+", (build / ".kernelvariables").read_text())
    for tool in ("make", compiler.group() if compiler else "gcc"):
        if shutil.which(tool) is None:
            raise Missing(
                f"{tool}, which builds modules for {name}, is not installed",
                hint=f"apt-get install -y {tool}",
            )
    return build


def built(machine: guest.Machine, source: Path, folder: Path) -> Path:
    """Builds the only module of a source folder in a copy of it, for the guest's kernel.

    Raises RuntimeError with the compiler's messages if the source has errors or warnings.
    """
    copy = folder / source.name
    shutil.copytree(source, copy)
    ran = subprocess.run(
        ["make", "-C", headers(machine), f"M={copy}", "KCFLAGS=-Werror", "modules"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr[-2000:])
    return next(copy.glob("*.ko"))


def refusal(machine: guest.Machine) -> str | None:
    """Why no module can be built for the guest, as the reason of a skipped test; None if it can."""
    try:
        headers(machine)
    except Missing as error:
        return f"{error}: {error.hint or 'tools/prerequisites.sh test'}"
    return None
