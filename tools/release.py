#!/usr/bin/env python3
"""Prepares a release: checks, versions, notes, lists of parts, artifacts, a commit and a tag.

    make release VERSION=0.2.0           # or: .venv/bin/python tools/release.py 0.2.0 [--dry-run]

The tree must be clean, and CHANGELOG.md must have a section `## VERSION - unreleased`. --dry-run
checks everything that needs no tests, writes notes and lists of parts to build/release, and changes
nothing else. Nothing is published: the last lines say which commands do that.

The version is in two files. Cargo.toml has it for both programs, the wheel and the Debian packages;
studies/pyproject.toml repeats it, since flit, which builds the studies, does not read Cargo.toml.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONED = ("Cargo.toml", "studies/pyproject.toml")
"""The files with the version; a test keeps them equal, and this program sets both."""
VERSION_LINE = re.compile(r'(?m)^version = "([^"]+)"$')
AUDITS = {
    "cargo-deny": ["cargo", "deny", "check", "advisories", "bans", "sources"],
    "pip-audit": ["pip-audit", "--strict", "--progress-spinner", "off", "."],
}
"""Programs that look up known vulnerabilities, if they are installed; they need a network."""
NO_DATA = "could not be audited"
"""What pip-audit prints about a dependency if its source of vulnerabilities does not know it."""
FOUND = "known vulnerabilit"
"""What pip-audit prints about a dependency with vulnerabilities, also beside `NO_DATA`."""
AUDIT_HUNG_S = 1800


class Refused(Exception):
    """A reason why there can be no release now."""


def main() -> int:
    """Prepares the release, and returns the exit status."""
    parser = argparse.ArgumentParser(description="Prepare a release.")
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="check, and change nothing")
    arguments = parser.parse_args()
    try:
        release(arguments.version, is_dry=arguments.dry_run)
    except Refused as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


def release(version: str, *, is_dry: bool) -> None:
    """Does all steps in order; raises Refused at the first that fails."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"{version} is not MAJOR.MINOR.PATCH")
    if (changed := output_of("git", "status", "--porcelain")).strip():
        raise Refused(f"the tree is not clean:\n{changed.rstrip()}")
    refuse_older(version)
    # Without a name and an address, git would refuse the commit after all tests.
    output_of("git", "var", "GIT_COMMITTER_IDENT")
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(), version)
    if not (ROOT / "tests/compat" / version / "interface.json").exists():
        print(f"note: tests/compat/{version} is missing; tools/compat.py writes it")
        if not is_dry:
            raise Refused(f"tests/compat/{version} is missing: see CONTRIBUTING.md, `A release`")
    folder = ROOT / ("build/release" if is_dry else "dist")
    folder.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "tools/licenses.py", "--check")
    for line in audited():
        print(line)
    if is_dry:
        run(sys.executable, "tools/sbom.py", str(folder))
        (folder / "NOTES.md").write_text(notes)
        print(f"would run make dist-setup and make test-all, set version {version} in")
        print(f"{', '.join(VERSIONED)}, date CHANGELOG.md, commit,")
        print(f"run make dist and make test-dist, and tag v{version}")
        return
    # Installs the compilers and tools of `make dist`, or ends here and names them.
    run("make", "dist-setup")
    run("make", "test-all")
    set_version(version)
    run("make", "build")
    run(sys.executable, "tools/sbom.py", str(folder))
    (folder / "NOTES.md").write_text(notes)
    # Wheels and Debian packages carry the time of the last commit, which must be that of the tag.
    run("git", "commit", "--quiet", "-am", f"Release {version}")
    try:
        run("make", "dist")
        run("make", "test-dist")
        run("git", "tag", "-a", f"v{version}", "-m", f"pagewise {version}")
    except Refused as error:
        raise Refused(f"{error}; to undo the commit: git reset --keep HEAD~1") from error
    print(f"dist has the artifacts. To publish: git push origin HEAD v{version},")
    print("then upload dist with dist/NOTES.md as the text of the release.")


def refuse_older(version: str) -> None:
    """Raises Refused unless the version is that of the tree or a later one, and has no tag yet."""
    current = current_version()
    if numbers(version) < numbers(current):
        raise Refused(f"{version} is older than {current}, the version in {VERSIONED[0]}")
    if output_of("git", "tag", "--list", f"v{version}").strip():
        raise Refused(f"v{version} is tagged already")


def current_version() -> str:
    """The version of the tree."""
    found = VERSION_LINE.search((ROOT / VERSIONED[0]).read_text())
    assert found, f"{VERSIONED[0]} has a version"
    return found[1]


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, which compare as versions do."""
    return tuple(map(int, version.split(".")))


def notes_of(changelog: str, version: str) -> str:
    """The section of a version, without its heading; raises Refused if it is absent or empty."""
    heading = re.search(rf"(?m)^## {re.escape(version)} - unreleased\n", changelog)
    if not heading:
        raise Refused(f"CHANGELOG.md has no section `## {version} - unreleased`")
    section = re.split(r"(?m)^## ", changelog[heading.end() :])[0].strip()
    if not section:
        raise Refused(f"the section {version} of CHANGELOG.md is empty")
    return f"{section}\n"


def with_version(text: str, version: str) -> str:
    """A manifest with another version; only its first line with a version changes."""
    return VERSION_LINE.sub(f'version = "{version}"', text, count=1)


def dated(changelog: str, version: str, day: datetime.date) -> str:
    """The changelog with the day of the release in place of `unreleased`."""
    return changelog.replace(f"## {version} - unreleased\n", f"## {version} - {day}\n", 1)


def set_version(version: str) -> None:
    """Writes the version into the manifests and Cargo.lock, and the day into the changelog."""
    for name in VERSIONED:
        path = ROOT / name
        path.write_text(with_version(path.read_text(), version))
    run("cargo", "update", "--quiet", "--workspace", "--offline")
    path = ROOT / "CHANGELOG.md"
    today = datetime.datetime.now(datetime.UTC).date()
    path.write_text(dated(path.read_text(), version, today))


def audited() -> Iterator[str]:
    """Runs each audit, and says which cannot run; raises Refused if one finds something."""
    for name, command in AUDITS.items():
        if shutil.which(name) is None:
            yield f"{name}: not installed, so known vulnerabilities were not looked up"
            continue
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=AUDIT_HUNG_S
            )
        except subprocess.TimeoutExpired as error:
            raise Refused(f"{' '.join(command)} did not end in {AUDIT_HUNG_S} s") from error
        shown = f"{done.stdout}{done.stderr}".strip()
        if done.returncode == 0:
            yield f"{name}: nothing found"
        elif NO_DATA in shown and FOUND not in shown:
            yield f"{name}: no data available here, so known vulnerabilities were not looked up"
        else:
            raise Refused(f"{' '.join(command)} failed:\n{shown}")


def run(*command: str) -> None:
    """Runs a command in the repository; raises Refused if it fails."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise Refused(f"{' '.join(command)} failed")


def output_of(*command: str) -> str:
    """What a command prints; raises Refused if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode != 0:
        raise Refused(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
