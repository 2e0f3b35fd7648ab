#!/usr/bin/env python3
"""Writes a list of the parts of each program, in the format of CycloneDX 1.5.

    .venv/bin/python tools/sbom.py FOLDER

FOLDER gets pagewise.cdx.json and pagewise-agent.cdx.json: name, version, licences, package URL and
sha256 of each crate, from Cargo.lock and `cargo metadata`. The files have no time and no random
number, so the same sources give the same bytes.
"""

from __future__ import annotations

import json
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from dependencies import PROGRAMS, ROOT, Package, shipped
from licenses import VENDORED, chosen

OWN_LICENCE = "Apache-2.0"


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
        "components": [part for package in shipped(program) for part in components_of(package)],
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
