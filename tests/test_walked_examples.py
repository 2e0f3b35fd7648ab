"""The Rust code of the pages that walk through an addition compiles, with its tests."""

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "target"
"""The target folder of the repository, so that other crates are compiled once."""


def blocks(page: str) -> list[str]:
    """The indented blocks of a page, without the indentation."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"(?m)(?:^ {4}.*\n(?:\n+(?= {4}))?)+", text)
    return [textwrap.dedent(lines) for lines in found]


def block(page: str, beginning: str) -> str:
    """The block of a page that begins with these words."""
    found = [text for text in blocks(page) if text.startswith(beginning)]
    assert found, f"docs/{page} has no block that begins with {beginning!r}"
    return found.pop(0)


def insert(file: Path, before: str, text: str) -> None:
    """Puts text before the first occurrence of some words."""
    source = file.read_text()
    assert before in source, f"{file} has no {before!r}"
    file.write_text(source.replace(before, f"{text}\n{before}", 1))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what cargo reads of this repository."""
    command = ["git", "ls-files", "crates", "devices", "fuzz", "tests/golden", "Cargo.*", "*.toml"]
    listing = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    for name in listing.stdout.split():
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    return tmp_path


def compile_with_tests(tree: Path, crate: str) -> None:
    """Checks a crate and its tests; what fails is the page."""
    words = ["cargo", "check", "--release", "--offline", "--tests", "-p", crate]
    done = subprocess.run(
        words,
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)},
        capture_output=True,
        text=True,
        timeout=850,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_walked_policy_compiles(tree: Path) -> None:
    page = "writing-a-policy.md"
    policies = tree / "crates/policy/src/eviction"
    heading = "//! Most recently used: the page that was requested last leaves"
    (policies / "mru.rs").write_text(block(page, f"{heading}, which"))
    row = block(page, "mod mru;\n\nRow {").removeprefix("mod mru;\n")
    insert(policies / "mod.rs", "mod arc;", "mod mru;")
    insert(policies / "mod.rs", '    Row {\n        name: "fifo"', row)
    models = tree / "crates/testkit/src/eviction"
    (models / "mru.rs").write_text(block(page, f"{heading}.\n"))
    newest, module, name = re.split(r"\n\n", block(page, "fn newest").strip())
    insert(models / "mod.rs", "mod arc;", module)
    insert(models / "mod.rs", "    fn oldest", newest)
    insert(models / "mod.rs", '        "lru" =>', name)
    compile_with_tests(tree, "policy")


@pytest.mark.slow
def test_the_walked_format_compiles(tree: Path) -> None:
    page = "writing-a-format.md"
    formats = tree / "crates/trace/src/formats"
    (formats / "pagelog.rs").write_text(block(page, "//! `pagelog`:"))
    rows = block(page, "mod pagelog;")
    insert(formats / "mod.rs", "mod arc;", rows.splitlines()[0])
    row = next(line for line in rows.splitlines() if line.strip() == "pagelog::FORMAT,")
    insert(formats / "mod.rs", "    arc::FORMAT,", row)
    compile_with_tests(tree, "trace")
