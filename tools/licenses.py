#!/usr/bin/env python3
"""Writes the licences of everything that pagewise ships, or with --check says what is out of date.

    .venv/bin/python tools/licenses.py [--check]

`pagewise --licenses` and `pagewise-agent --licenses` print these texts. They come from Cargo.lock
and the sources of the crates, which a build has fetched. Of several licences the first in ACCEPTED
counts; a crate without any of them ends the program with status 1. Only `pagewise` has the long
texts of GNU, since the static agent must stay below 8 MB; dist/LICENSES.txt has them too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dependencies import PROGRAMS, ROOT, Package, shipped

FILES = {
    "pagewise": ROOT / "python/pagewise/licenses.txt",
    "pagewise-agent": ROOT / "crates/agent/licenses.txt",
}
ACCEPTED = (
    *("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0", "CC0-1.0"),
    "Apache-2.0 WITH LLVM-exception",
)
"""Licences under which pagewise may ship a crate, the preferred ones first."""
VENDORED = {
    "zstd-sys": (("zstd", "BSD-3-Clause", "zstd/LICENSE"),),
    "libbpf-sys": (("libbpf", "BSD-2-Clause", "libbpf/LICENSE.BSD-2-Clause"),),
}
"""Libraries in C inside crates: their names, licences, and the files with the texts."""
IN_THE_REPORT = ("ECharts 6.1.0", "Apache-2.0", "python/pagewise/report/vendor/NOTICE")
"""The script in each report."""


@dataclass(frozen=True)
class Linked:
    """A library of Debian in the static agent: its name, the licence that applies, its source."""

    name: str
    licence: str
    source: str


LINKED = (
    Linked("glibc", "LGPL-2.1-or-later", "https://sources.debian.org/src/glibc/"),
    Linked("libelf", "LGPL-3.0-or-later", "https://sources.debian.org/src/elfutils/"),
    Linked(
        "libgcc",
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "https://sources.debian.org/src/gcc-12/",
    ),
    Linked("zlib", "Zlib", "https://sources.debian.org/src/zlib/"),
)
"""What tools/static_agents.sh links in. libelf is also under GPL-2.0-or-later."""
ABOUT_LINKED = """\
The static pagewise-agent, which packages and downloads have, contains these libraries as Debian 12
builds them. To link it with changed ones, run tools/static_agents.sh of the sources of pagewise.
`pagewise --licenses` prints the licences of GNU, and LICENSES.txt beside the downloads has them;
https://www.gnu.org/licenses/ does, too.
"""
STANDARD_LIBRARY = ("Rust standard library", "Apache-2.0")
BPF_PROGRAMS = ("BPF programs of pagewise-agent", "BSD-2-Clause")
ABOUT_BPF_PROGRAMS = """\
Copyright The pagewise developers. The sources, crates/recorder/bpf, are under GPL-2.0-only or
BSD-2-Clause, whichever you choose. The conditions of BSD-2-Clause are those of libbpf, above."""
SOURCES_OF_C = "libbpf-sys"
"""The crate that has sources of libelf and zlib, which we do not build, with the licences."""
GNU = {
    "GNU Lesser General Public License 2.1": "libbpf/LICENSE.LGPL-2.1",
    "GNU Lesser General Public License 3": "elfutils/COPYING-LGPLV3",
    "GNU General Public License 3": "elfutils/COPYING",
}
"""The texts of GNU, which `pagewise` prints in full, by their files in that crate."""
APACHE = re.compile(r"(?s) *Apache License\n *Version 2\.0,.*?END OF TERMS AND CONDITIONS")
RULE = "-" * 80


def main() -> None:
    """Writes the files, or compares them."""
    is_check = "--check" in sys.argv[1:]
    texts = {FILES[program]: text_of(program) for program in PROGRAMS}
    stale = [path for path, text in texts.items() if not holds(path, text)]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if is_check:
        sys.exit(f"out of date: {names}; run tools/licenses.py" if stale else 0)
    for path in stale:
        path.write_text(texts[path])
    print(f"written: {names or 'nothing, all is up to date'}")


def holds(path: Path, text: str) -> bool:
    """Whether a file has this text."""
    return path.is_file() and path.read_text() == text


def text_of(program: str) -> str:
    """The page of a program: its own licence, a table of all parts, and the texts."""
    parts = list(parts_of(program))
    width = max(len(name) for name, _, _ in parts)
    lines = [
        f"{program} is under the Apache License 2.0. It contains the following software under the",
        "licences named. Their texts follow.",
        "",
        *(f"{name.ljust(width)}  {' and '.join(licences)}" for name, licences, _ in parts),
    ]
    for names, text in grouped([(name, text) for name, _, text in parts if text]):
        lines += ["", RULE, ", ".join(names), RULE, "", text]
    for name, path in GNU.items() if program == "pagewise" else ():
        # Linux's files say first how to name the licence in a source file.
        text = cleaned((folder_of_c() / path).read_text().rpartition("License-Text:\n")[2])
        lines += ["", RULE, name, RULE, "", text]
    lines += ["", RULE, "Apache License 2.0", RULE, "", (ROOT / "LICENSE").read_text().rstrip()]
    return "\n".join(lines) + "\n"


def grouped(texts: list[tuple[str, str]]) -> Iterator[tuple[list[str], str]]:
    """Each text once, with the names of all that have it."""
    names: dict[str, list[str]] = {}
    for name, text in texts:
        names.setdefault(text, []).append(name)
    for text, found in names.items():
        yield found, text


def parts_of(program: str) -> Iterator[tuple[str, list[str], str]]:
    """Name with version, licences and text of each part; no text if only Apache-2.0 applies."""
    if program == "pagewise":
        name, licence, notice = IN_THE_REPORT
        yield name, [licence], cleaned((ROOT / notice).read_text())
    for package in shipped(program):
        licences = chosen(package)
        yield f"{package['name']} {package['version']}", licences, texts_of(package, licences)
        folder = Path(package["manifest_path"]).parent
        for name, licence, path in VENDORED.get(package["name"], ()):
            yield (
                f"{name} in {package['name']} {package['version']}",
                [licence],
                cleaned((folder / path).read_text()),
            )
    yield STANDARD_LIBRARY[0], [STANDARD_LIBRARY[1]], ""
    for part in LINKED:
        if program == "pagewise-agent":
            yield part.name, [part.licence], text_of_linked(part)
        else:
            yield f"{part.name} in pagewise-agent", [part.licence], text_of_linked(part)
    if program == "pagewise-agent":
        yield BPF_PROGRAMS[0], [BPF_PROGRAMS[1]], ABOUT_BPF_PROGRAMS


def text_of_linked(part: Linked) -> str:
    """The text about a library of Debian: the licence of zlib, or where those of GNU are."""
    if part.licence == "Zlib":
        return cleaned((folder_of_c() / "zlib/LICENSE").read_text())
    rows = [row for row in LINKED if row.licence != "Zlib"]
    return "\n".join([ABOUT_LINKED, *(f"{row.name}: {row.licence}, {row.source}" for row in rows)])


def folder_of_c() -> Path:
    """The folder of the crate with the sources of libelf and zlib."""
    packages = (row for row in shipped("pagewise-agent") if row["name"] == SOURCES_OF_C)
    return Path(next(packages)["manifest_path"]).parent


def chosen(package: Package) -> list[str]:
    """The licences of a crate that apply: of each choice, the first that is accepted."""
    expression = package["license"] or ""
    found = []
    for part in re.split(r"\s+AND\s+", expression):
        choices = [word.strip(" ()") for word in re.split(r"\s+OR\s+|\s*/\s*", part)]
        accepted = [licence for licence in ACCEPTED if licence in choices]
        if not accepted:
            sys.exit(f"{package['name']} {package['version']}: {expression or 'no licence'}")
        found.append(accepted[0])
    return list(dict.fromkeys(found))


def texts_of(package: Package, licences: list[str]) -> str:
    """The texts that must go along: notices, and each licence other than Apache-2.0."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file())
    wanted = [path for path in files if path.name.upper().startswith("NOTICE")]
    for licence in licences:
        if licence != "Apache-2.0":
            wanted += [file_of(licence, files)] if file_of(licence, files) else []
    texts = (cleaned(path.read_text(errors="replace")) for path in wanted)
    return "\n\n".join(APACHE.sub("[Apache License 2.0]", text) for text in texts)


def file_of(licence: str, files: list[Path]) -> Path | None:
    """The file of a crate with the text of a licence: named after it, or the only one."""
    named = [path for path in files if re.match(r"(?i)licen[cs]e|copying|unlicense", path.name)]
    word = re.split(r"[-. ]", licence)[0].lower()
    special = [path for path in named if word in path.name.lower()]
    return next(iter([*special, *named]), None)


def cleaned(text: str) -> str:
    """The text without blanks at line ends and around it."""
    return "\n".join(line.rstrip() for line in text.strip("\ufeff \n\r").splitlines())


if __name__ == "__main__":
    main()
