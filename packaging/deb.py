"""Builds the Debian packages of the desk and of the agent with dpkg-deb, the same bytes every time.

    python packaging/deb.py desk WHEEL VENDORED OUTPUT
    python packaging/deb.py agent AGENT LIBRARIES ARCHITECTURE OUTPUT

WHEEL is the wheel of the machine, VENDORED a folder with the pure Python libraries that it needs;
AGENT the static program, LIBRARIES the folder with the preload libraries, ARCHITECTURE Debian's
word for the processor. What the packages hold beside files is in packaging/debian.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
WHEEL_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "pagewise developers <noreply@pagewise.example>"
COMMON = {
    "Apache License 2.0": "Apache-2.0",
    "GNU Lesser General Public License 2.1": "LGPL-2.1",
    "GNU Lesser General Public License 3": "LGPL-3",
    "GNU General Public License 3": "GPL-3",
}
"""Texts of `--licenses` that each Debian has in /usr/share/common-licenses."""
LICENCE_RULE = f"\n{'-' * 80}\n"
"""The line before and after each heading of `--licenses` (tools/licenses.py)."""
EXPECTED = ("embedded-library", "statically-linked-binary")
"""What lintian calls errors of a program without shared libraries."""
PYTHON = "usr/lib/pagewise/python"
PROGRAM = f"""\
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/{PYTHON}")
from pagewise.__main__ import main

main()
"""
"""`pagewise`. Its package and libraries are in a folder that no other program reads."""


@dataclass(frozen=True)
class Package:
    """What a package holds beside its files; the fields are those of packaging/debian/*.toml."""

    package: str
    section: str
    depends: str
    summary: str
    description: str
    licences: str
    recommends: str = ""
    units: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)


def main() -> None:
    """Builds the package that the first argument names."""
    match sys.argv[1:]:
        case ["desk", wheel, vendored, output]:
            machine = Path(wheel).stem.rpartition("manylinux")[2].split("_", 3)[-1]
            with tempfile.TemporaryDirectory() as folder:
                desk(Path(folder), Path(wheel), Path(vendored))
                about = {"package": project()["name"], **described("desk")}
                built(Path(folder), Package(**about), WHEEL_ARCHITECTURES[machine], Path(output))
        case ["agent", program, libraries, architecture, output]:
            with tempfile.TemporaryDirectory() as folder:
                agent(Path(folder), Path(program), Path(libraries))
                about = described("agent")
                built(Path(folder), Package(**about), architecture, Path(output))
        case _:
            sys.exit(__doc__)


def described(name: str) -> dict:
    """The description of a package."""
    return tomllib.loads((ROOT / f"packaging/debian/{name}.toml").read_text())


def project() -> dict:
    """The project table of pyproject.toml, which names the distribution."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def version() -> str:
    """The version of everything, from Cargo.toml."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def commit_time() -> int:
    """Seconds of the last commit: the age of all files in the packages."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(given or subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


def desk(tree: Path, wheel: Path, vendored: Path) -> None:
    """The files of the package of `pagewise`."""
    python = tree / PYTHON
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(python)
    for data in python.glob("*.data"):
        shutil.rmtree(data)
    shutil.copytree(
        vendored, python, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bin", "*.so")
    )
    placed(tree / "usr/bin/pagewise", PROGRAM.encode(), 0o755)
    pages = [sys.executable, ROOT / "packaging/front_pages.py", tree / "usr"]
    subprocess.run(pages, check=True)


def agent(tree: Path, program: Path, libraries: Path) -> None:
    """The files of the agent's package."""
    # The agent finds the preload libraries beside itself, where no loader looks for libraries.
    own = tree / "usr/lib/pagewise"
    placed(own / "pagewise-agent", program.read_bytes(), 0o755)
    command = tree / "usr/bin/pagewise-agent"
    command.parent.mkdir(parents=True)
    command.symlink_to("../lib/pagewise/pagewise-agent")
    for library in sorted(libraries.glob("libpagewise_*.so")):
        placed(own / library.name, library.read_bytes(), 0o644)
    for unit in sorted((ROOT / "packaging").glob("*.service")):
        placed(tree / "lib/systemd/system" / unit.name, unit.read_bytes(), 0o644)
    # The program also runs where no library is (docs/install.md), so it contains its own.
    overrides = [f"pagewise-agent: {tag} *[usr/lib/pagewise/pagewise-agent]" for tag in EXPECTED]
    text = "\n".join([*overrides, ""])
    placed(tree / "usr/share/lintian/overrides/pagewise-agent", text.encode(), 0o644)
    etc = tree / "etc/pagewise.d"
    for name, target in (
        ("killd.toml", etc / "killd.toml"),
        ("relaunchd.toml", etc / "relaunchd/relaunchd.toml"),
        ("swapd.conf", etc / "swapd.conf"),
    ):
        placed(target, (ROOT / "packaging" / name).read_bytes(), 0o644)
    # The agent of this machine writes them, since they do not depend on the processor.
    here = ROOT / "dist" / f"pagewise-agent-{os.uname().machine}"
    subprocess.run([here, "manual", tree / "usr/share/man/man1"], check=True)
    for shell, path in (
        ("bash", "bash-completion/completions/pagewise-agent"),
        ("zsh", "zsh/vendor-completions/_pagewise-agent"),
        ("fish", "fish/vendor_completions.d/pagewise-agent.fish"),
    ):
        script = subprocess.run([here, "completions", shell], check=True, capture_output=True)
        placed(tree / "usr/share" / path, script.stdout, 0o644)


def placed(path: Path, content: bytes, mode: int) -> None:
    """Writes a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def built(tree: Path, about: Package, architecture: str, output: Path) -> None:
    """Adds what every package has, and writes the archive into the folder ``output``."""
    documents(tree, about)
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    for path in files:
        path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    for path in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        path.chmod(0o755)
    control = tree / "DEBIAN"
    size = sum(path.stat().st_size for path in files) // 1024 + len(files)
    placed(control / "control", "\n".join(fields(about, architecture, size)).encode(), 0o644)
    sums = [
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"
        for path in files
    ]
    placed(control / "md5sums", "".join(sums).encode(), 0o644)
    if about.settings:
        conffiles = "".join(f"{name}\n" for name in about.settings)
        placed(control / "conffiles", conffiles.encode(), 0o644)
    for name, script in scripts(about).items():
        placed(control / name, script.encode(), 0o755)
    output.mkdir(parents=True, exist_ok=True)
    target = output / f"{about.package}_{version()}_{architecture}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(target)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(target)


def fields(about: Package, architecture: str, size_kib: int) -> Iterator[str]:
    """The lines of the control file."""
    yield f"Package: {about.package}"
    yield f"Version: {version()}"
    yield f"Architecture: {architecture}"
    yield f"Maintainer: {MAINTAINER}"
    yield f"Installed-Size: {size_kib}"
    yield f"Depends: {about.depends}"
    if about.recommends:
        yield f"Recommends: {about.recommends}"
    yield f"Section: {about.section}"
    yield "Priority: optional"
    yield f"Description: {about.summary}"
    yield from (f" {line}" for line in wrap(" ".join(about.description.split()), 76))
    yield ""


def documents(tree: Path, about: Package) -> None:
    """Copyright and changelog; manual pages and changelog compressed."""
    folder = tree / "usr/share/doc" / about.package
    text = copyright_text((ROOT / about.licences).read_text(), tree / PYTHON)
    placed(folder / "copyright", text.encode(), 0o644)
    when = formatdate(commit_time(), localtime=False)
    entry = (
        f"{about.package} ({version()}) unstable; urgency=medium\n\n"
        f"  * Release {version()}; CHANGELOG.md of the source lists the changes.\n\n"
        f" -- {MAINTAINER}  {when}\n"
    )
    compressed(folder / "changelog.gz", entry.encode())
    for page in sorted((tree / "usr/share/man").rglob("*.1")):
        compressed(page.with_name(f"{page.name}.gz"), page.read_bytes())
        page.unlink()


def copyright_text(licences: str, python: Path) -> str:
    """What `--licenses` prints, then the licences of the libraries in the folder ``python``.

    Debian has some texts already; its policy asks to name those instead of repeating them.
    """
    head, *rest = licences.split(LICENCE_RULE)
    sections = list(zip(rest[::2], rest[1::2], strict=True))
    libraries = [
        library(info)
        for info in sorted(python.glob("*.dist-info"))
        if not info.name.startswith("pagewise")
    ]
    names = [f"{title}: on Debian, /usr/share/common-licenses/{COMMON[title]}" for title in COMMON]
    shown = "".join(
        f"{LICENCE_RULE}{title}{LICENCE_RULE}{text.rstrip()}\n"
        for title, text in [*sections, *libraries]
        if title not in COMMON
    )
    return "Copyright: The pagewise developers\n\n" + "\n".join([head.rstrip(), "", *names, shown])


def library(info: Path) -> tuple[str, str]:
    """Name and version of a Python library, and the texts of its licence."""
    name, version = info.name.removesuffix(".dist-info").rsplit("-", 1)
    files = [
        path
        for path in sorted(info.rglob("*"))
        if path.is_file() and re.match(r"(?i)licen[cs]e|copying|notice|authors", path.name)
    ]
    if not any(re.match(r"(?i)licen[cs]e|copying", path.name) for path in files):
        sys.exit(f"{info.name} has no text of its licence")
    return (
        f"{name} {version}, in /{PYTHON}",
        "\n" + "\n\n".join(path.read_text().strip("\n") for path in files),
    )


def compressed(path: Path, content: bytes) -> None:
    """Writes a gzip file without a time in it."""
    placed(path, gzip.compress(content, 9, mtime=0), 0o644)


def scripts(about: Package) -> dict[str, str]:
    """The scripts that dpkg runs. A service runs only once the user enables it."""
    units = " ".join(f"{unit}.service" for unit in about.units)
    if not units:
        compile_all = (
            f'if [ "$1" = configure ]; then\n    py3compile -p {about.package} /{PYTHON}\nfi\n'
        )
        clean = f"py3clean -p {about.package} /{PYTHON}\n"
        return {"postinst": shell(compile_all), "prerm": shell(clean)}
    known = f"""\
if [ "$1" = configure ]; then
    # Notes the links that `systemctl enable` makes, so that purge removes them.
    for unit in {units}; do
        deb-systemd-helper update-state "$unit" >/dev/null || true
    done
fi
"""
    restart = """\
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
    # A running swap server goes on: to replace it, stop it first.
    for unit in pagewise-killd.service pagewise-relaunchd.service; do
        [ -z "$2" ] || deb-systemd-invoke try-restart "$unit" >/dev/null || true
    done
fi
"""
    stop = f"""\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop {units} >/dev/null || true
fi
"""
    after = f"""\
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
if [ "$1" = purge ]; then
    if command -v deb-systemd-helper >/dev/null; then
        deb-systemd-helper purge {units} >/dev/null || true
    fi
    rm -rf {" ".join(about.state)}
    rmdir --ignore-fail-on-non-empty /etc/pagewise.d 2>/dev/null || true
fi
"""
    return {"postinst": shell(known + restart), "prerm": shell(stop), "postrm": shell(after)}


def shell(body: str) -> str:
    """A maintainer script."""
    return f"#!/bin/sh\nset -e\n{body}"


if __name__ == "__main__":
    main()
