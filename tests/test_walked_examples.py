"""The pages that walk through an addition: their code compiles with its tests, and commands print
what the pages show."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from commands import ran

from pagewise import probe
from pagewise.advice import machine

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "walked-examples"
"""Not the target folder of the repository: cargo takes the crates of a copy for those of the
repository, and would compile these again after the test."""


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


def compile_with_tests(tree: Path, crate: str, *, runs: bool = False) -> None:
    """Checks a crate and its tests, or runs these; what fails is the page."""
    kind = ["test"] if runs else ["check", "--tests"]
    words = ["cargo", *kind, "--release", "--offline", "-p", crate]
    done = subprocess.run(
        words,
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)},
        capture_output=True,
        text=True,
        timeout=850,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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


@pytest.mark.long
def test_the_walked_format_compiles(tree: Path) -> None:
    page = "writing-a-format.md"
    formats = tree / "crates/trace/src/formats"
    (formats / "pagelog.rs").write_text(block(page, "//! `pagelog`:"))
    rows = block(page, "mod pagelog;")
    insert(formats / "mod.rs", "mod arc;", rows.splitlines()[0])
    row = next(line for line in rows.splitlines() if line.strip() == "pagelog::FORMAT,")
    insert(formats / "mod.rs", "    arc::FORMAT,", row)
    compile_with_tests(tree, "trace")


DEVICE_PAGE = "writing-a-device.md"
TRACE = ROOT / "examples/phone-1g-long/phone-1g-long.pgr"
"""The recording of the first tutorial."""


def shows(page: str, output: str) -> None:
    """Asserts that an output begins with a block of a page up to the dots, blanks aside."""
    expected, found = (" ".join(text.split()) for text in (page.partition("...")[0], output))
    assert found.startswith(expected), f"docs/{DEVICE_PAGE} shows\n{expected}\nnot\n{found}"


def simulate(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the simulation of the page on the walked device file."""
    line = block(DEVICE_PAGE, "pagewise simulate TRACE").replace("TRACE", str(TRACE))
    command = [sys.executable, "-m", *shlex.split(line)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_probe_prints_and_writes_what_the_page_of_devices_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Times that fio could have measured on the disk of the page: reads and writes, small and large.
    slower, faster = (377 * factor for factor in (0.884, 1 / 0.884))
    moved = (2**18 - 2**12) / slower, (2**18 - 2**12) / faster
    reads, writes = (80.411, 97.9, 119.185), (137.0, 137.0, 137.0)
    large = (reads[0] + moved[0], reads[1] + moved[0], reads[2] + moved[1])
    times = iter([*reads, *large, *writes, *(time + moved[0] for time in writes)])
    monkeypatch.setattr(probe, "mean_us", lambda *_: next(times))
    monkeypatch.setattr(shutil, "which", lambda _: "fio")
    monkeypatch.chdir(tmp_path)
    line, printed = block(DEVICE_PAGE, "pagewise devices probe . ").split("\n\n")
    status, output, _ = ran(*shlex.split(line)[1:], capsys=capsys)
    assert status == 0
    assert output == printed
    dates = re.compile(r"\d{4}-\d\d-\d\d")
    written = dates.sub("DATE", (tmp_path / "my-disk.toml").read_text())
    shows(dates.sub("DATE", block(DEVICE_PAGE, 'name = "my-disk"')), written)


def test_the_walked_device_costs_what_its_page_shows(tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(block(DEVICE_PAGE, 'name = "board-emmc"'))
    done = simulate(tmp_path)
    assert done.returncode == 0, done.stderr
    shows(block(DEVICE_PAGE, "hierarchical, fast tier"), done.stdout)


@pytest.mark.parametrize(
    ("right", "wrong", "shown"),
    [
        ("summary =", "sumary =", "pagewise: board.toml: TOML parse error"),
        ("low_us = 90.0", "low_us = 401.0", "pagewise: board.toml: [write] must"),
        ('source = "fio, 4 KiB random writes, queue depth 1, five boards"\n', "", None),
    ],
)
def test_mistakes_in_the_walked_device_are_refused_as_its_page_shows(
    tmp_path: Path, right: str, wrong: str, shown: str | None
) -> None:
    text = block(DEVICE_PAGE, 'name = "board-emmc"')
    assert right in text
    (tmp_path / "board.toml").write_text(text.replace(right, wrong))
    done = simulate(tmp_path)
    assert done.returncode == 3
    if shown:
        messages = block(DEVICE_PAGE, "pagewise: board.toml: ").split("\n\n")
        shows(next(text for text in messages if text.startswith(shown)), done.stderr)
    else:
        assert "missing field `source`" in done.stderr


def test_the_row_and_the_tables_that_the_page_of_devices_names_exist() -> None:
    row = block(DEVICE_PAGE, "| `board-emmc` |")
    table = (ROOT / "docs" / "devices.md").read_text()
    builtin = re.search(r"(?m)^\| `ufs-3.1` \|.*\|$", table)
    assert builtin and row.count("|") == builtin[0].count("|")
    assert machine.SLOW and machine.SLOW_BY_VERSION


@pytest.mark.long
def test_the_walked_device_can_be_built_in(tree: Path) -> None:
    text = block(DEVICE_PAGE, 'name = "board-emmc"')
    (tree / "devices" / "board-emmc.toml").write_text(text)
    compile_with_tests(tree, "devices", runs=True)
