"""The crates that each program of pagewise contains, by `cargo metadata`; no network is used."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf",
)
PROGRAMS = {"pagewise": ("python",), "pagewise-agent": ("agent", "lazy", "allocations")}
"""The crates of ours that each program is made of; the agent comes with the preload libraries."""

Package = dict[str, Any]
"""A package of `cargo metadata`: name, version, license, manifest_path and so on."""


@cache
def metadata() -> dict[str, Any]:
    """What cargo knows of the workspace and of all that it depends on, on our platforms."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    command += [word for name in PLATFORMS for word in ("--filter-platform", name)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    if run.returncode != 0:
        raise RuntimeError(f"cargo metadata: {run.stderr.strip()}; run `cargo fetch` once")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def shipped(program: str) -> list[Package]:
    """The foreign crates that a program contains, by name and version.

    Crates that only the build runs are left out: build scripts, procedural macros and theirs.
    """
    packages = {package["id"]: package for package in metadata()["packages"]}
    nodes = {node["id"]: node for node in metadata()["resolve"]["nodes"]}
    own = {package["name"]: number for number, package in packages.items() if not package["source"]}
    waiting = [own[crate] for crate in PROGRAMS[program]]
    seen: set[str] = set()
    while waiting:
        number = waiting.pop()
        if number in seen or is_macro(packages[number]):
            continue
        seen.add(number)
        for dependency in nodes[number]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    foreign = (packages[number] for number in seen if packages[number]["source"])
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def is_macro(package: Package) -> bool:
    """Whether a crate runs in the compiler only."""
    return any("proc-macro" in target["kind"] for target in package["targets"])
