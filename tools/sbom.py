#!/usr/bin/env python3
"""Writes a list of the parts of each program, in the format of CycloneDX 1.5.

    .venv/bin/python tools/sbom.py FOLDER

FOLDER gets pagewise.cdx.json and pagewise-agent.cdx.json: name, version, licences, package URL and
sha256 of each crate, from Cargo.lock and `cargo metadata`; the script in the report and the Python
libraries that pagewise needs; Debian's libraries in the static agent, without a version, since each
processor has its own. The files have no time and no random number, so the same sources give the
same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from dependencies import PROGRAMS, ROOT, Package, shipped
from licenses import IN_THE_REPORT, LINKED, VENDORED, chosen

OWN_LICENCE = "Apache-2.0"
VENDORED_PYTHON = ROOT / "packaging/debian/vendored.txt"
NUMERIC = {"numpy": "BSD-3-Clause", "scipy": "BSD-3-Clause"}
"""What pagewise needs and no package of ours contains: pip or Debian brings some version of it."""


def main() -> None:
    """Writes both files."""
    if len(sys.argv) != 2:
        sys.exit("usage: tools/sbom.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        path = folder / f"{program}.cdx.json"
        path.write_text(json.dumps(bill_of(program), indent=1) + "\n")
        print(path)


def bill_of(program: str) -> dict[str, Any]:
    """The document of a program."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": program,
                "version": own_version(),
                "licenses": [{"license": {"id": OWN_LICENCE}}],
            }
        },
        "components": [
            *(part for package in shipped(program) for part in components_of(package)),
            *(linked() if program == "pagewise-agent" else [script(), *python_libraries()]),
        ],
    }


def own_version() -> str:
    """The version of pagewise."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    return str(manifest["workspace"]["package"]["version"])


def components_of(package: Package) -> list[dict[str, Any]]:
    """A crate, and the libraries in C that are inside it."""
    name, version = package["name"], package["version"]
    url = f"pkg:cargo/{name}@{version.replace('+', '%2B')}"
    crate: dict[str, Any] = {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "licenses": licences(chosen(package)),
        "purl": url,
    }
    if checksum := checksums().get((name, version)):
        crate["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    inner = [
        {
            "type": "library",
            "bom-ref": f"{url}#{path}",
            "name": library,
            "licenses": licences([licence]),
        }
        for library, licence, path in VENDORED.get(name, ())
    ]
    return [crate, *inner]


def linked() -> list[dict[str, Any]]:
    """The libraries of Debian in the static agent, by their source packages."""
    urls = {part: f"pkg:deb/debian/{part.source.split('/')[-2]}?arch=source" for part in LINKED}
    return [component(part.name, None, part.licence, urls[part]) for part in LINKED]


def script() -> dict[str, Any]:
    """The script that each report contains."""
    name, _, version = IN_THE_REPORT[0].partition(" ")
    return component(name, version, IN_THE_REPORT[1], f"pkg:npm/{name.lower()}@{version}")


def python_libraries() -> list[dict[str, Any]]:
    """The Python libraries: those in the Debian package, which pip installs with the wheel, too."""
    row = re.compile(r"(?m)^([\w-]+)==(\S+) +# (\S+)$")
    pinned = [
        component(name, version, licence, f"pkg:pypi/{name.lower()}@{version}")
        for name, version, licence in row.findall(VENDORED_PYTHON.read_text())
    ]
    return pinned + [component(name, None, NUMERIC[name], f"pkg:pypi/{name}") for name in NUMERIC]


def component(name: str, version: str | None, licence: str, url: str) -> dict[str, Any]:
    """A part that is no crate; without a version if that depends on the installation."""
    named = {"name": name} if version is None else {"name": name, "version": version}
    return {
        "type": "library",
        "bom-ref": url,
        **named,
        "licenses": licences([licence]),
        "purl": url,
    }


def licences(names: list[str]) -> list[dict[str, Any]]:
    """Licences as CycloneDX has them: identifiers, or an expression if there is an exception."""
    if any(" " in name for name in names):
        return [{"expression": " AND ".join(names)}]
    return [{"license": {"id": name}} for name in names]


@cache
def checksums() -> dict[tuple[str, str], str]:
    """The sha256 of each crate of Cargo.lock, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {
        (package["name"], package["version"]): package["checksum"]
        for package in lock["package"]
        if "checksum" in package
    }


if __name__ == "__main__":
    main()
