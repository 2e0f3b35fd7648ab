#!/usr/bin/env python3
"""Writes the licences of everything that pagewise ships, or with --check says what is out of date.

    .venv/bin/python tools/licenses.py [--check]

`pagewise --licenses` and `pagewise-agent --licenses` print these texts. They come from Cargo.lock
and the sources of the crates, which a build has fetched. Of several licences the first in ACCEPTED
counts; a crate without any of them ends the program with status 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
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
        "licences named. Their texts follow; that of the Apache License 2.0 is at the end.",
        "",
        *(f"{name.ljust(width)}  {' and '.join(licences)}" for name, licences, _ in parts),
    ]
    for names, text in grouped([(name, text) for name, _, text in parts if text]):
        lines += ["", RULE, ", ".join(names), RULE, "", text]
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
    return "\n\n".join(cleaned(path.read_text(errors="replace")) for path in wanted)


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
