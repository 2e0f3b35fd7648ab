"""Every command in a document parses; those of the README and the tutorials also run."""

import hashlib
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pagewise import cli
from pagewise.commands import COMMANDS
from pagewise.grids.spec import parse
from pagewise.studies import studies

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
LINE = re.compile(r"^ {4}pagewise ((?:.*\\\n)*.+)$", re.MULTILINE)
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
TOURS = [ROOT / "README.md", *TUTORIALS]
SHOWN = {"a-boards-zram": 1, "a-phones-trace": 4, "a-thousand-traces": 5}
"""Tutorials whose output is compared line by line, and how many commands of each have output."""
PREPARED = {
    "a-thousand-traces": [
        ["examples/fleet.py", "fleet"],
        ["examples/fleet.py", "models", "200", "2"],
    ]
}
"""Programs that a tutorial runs beside its commands."""
READERS_OWN = {
    *("work.pgr", "busy.pgr", "before.perfetto-trace"),
    "kept/20261129T021421Z-kill.pgr",
}
"""Recordings that only the reader has."""
ELSEWHERE = {"capture", "remote", "verify"}
"""Commands that need an emulator or a board, or change the machine; their own tests run them."""
LONG = ("README", "a-thousand-traces", "compare-policies", "recording-to-settings", "run-it")
"""Pages whose commands take about ten seconds or more."""
EXPECTED = ("cannot keep up", "the advice takes at most", "the kernel's zram does not have zstd")
"""Warnings about what ships: the phone's flash is slower than the recorded disk, the demo's phone
is small, and the sampled kernel has no zstd."""


def lines(page: Path) -> Iterator[list[str]]:
    """The words after `pagewise` of every command on its own line.

    In tutorials, `$` marks commands with output. The block of the README comes before its steps.
    """
    text = page.read_text()
    if page in TUTORIALS:
        text = text.replace("\n    $ pagewise ", "\n    pagewise ")
    for found in LINE.findall(text):
        words = shlex.split(found.replace("\\\n", " "), comments=True)
        yield words[: words.index("|")] if "|" in words else words


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each command, without a redirection."""
    for words in lines(page):
        yield words[: words.index(">")] if ">" in words else words


def documented() -> list[tuple[str, list[str]]]:
    shown = [(page.name, words) for page in PAGES for words in commands(page)]
    shown += [
        (f"help of {row.name}", shlex.split(example)[1:])
        for row in COMMANDS
        for example in row.examples
    ]
    shown += [(f"list of {row.name}", shlex.split(row.example)[1:]) for row in studies()]
    # Words in capitals are placeholders, so these are not commands.
    return [(where, words) for where, words in shown if not {"FILE...", "NAME"} & set(words)]


def test_there_are_commands_to_check() -> None:
    assert len(documented()) > 30


@pytest.mark.parametrize(("where", "words"), documented(), ids=lambda value: " ".join(value)[:60])
def test_a_documented_command_parses(where: str, words: list[str]) -> None:
    command = typer.main.get_command(cli.app_of(COMMANDS))
    with command.make_context("pagewise", list(words)) as context:
        while isinstance(command, typer.core.TyperGroup):
            arguments = [*context._protected_args, *context.args]
            if not arguments:  # Only options, such as --version --json.
                break
            name, inner, rest = command.resolve_command(context, arguments)
            assert inner is not None, f"{where}: no command {name}"
            context, command = inner.make_context(name, rest, parent=context), inner


def test_the_grid_in_the_document_is_valid() -> None:
    text = (ROOT / "docs" / "sweep.md").read_text()
    block = re.search(r"(?:^    .*\n|^\n)+", text[text.index("    traces =") :], re.MULTILINE)
    assert block and len(parse(tomllib.loads(textwrap.dedent(block[0])))) > 1


@pytest.mark.slow
def test_the_readme_shows_lines_of_the_real_output_and_marks_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    shown = re.search(
        r"(?m)^    \$ pagewise (.*)\n((?: {4}.*\n)+)", (ROOT / "README.md").read_text()
    )
    assert shown
    recording = ROOT / "examples" / "phone-1g-long" / "phone-1g-long.pgr"
    words = [str(recording) if word == "phone.parquet" else word for word in shlex.split(shown[1])]
    run = subprocess.run(
        [sys.executable, "-m", "pagewise", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    rest = "\n".join(" ".join(line.split()) for line in run.stdout.splitlines() if line.strip())
    kept = "\n".join(" ".join(line.split()) for line in shown[2].splitlines())
    assert kept.endswith("\n...")
    for number, part in enumerate(kept.removesuffix("\n...").split("\n...\n")):
        left_out, is_found, rest = rest.partition(f"{part}\n")
        assert is_found, f"no output of pagewise: {part}"
        assert bool(left_out) == (number > 0), f"not marked, or nothing left out: {left_out}"


def prepare(page: Path, folder: Path) -> None:
    """Makes what the commands of a tutorial read, in a folder that stands for the repository."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for words in PREPARED.get(page.stem, []):
        assert f"\n    python {shlex.join(words)}\n" in page.read_text()
        subprocess.run([sys.executable, *words], cwd=folder, check=True, timeout=300)


@pytest.mark.parametrize(
    "stem",
    [pytest.param(stem, marks=pytest.mark.slow if stem in LONG else ()) for stem in SHOWN],
)
def test_a_tutorial_shows_the_real_output(stem: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorials" / f"{stem}.md"
    prepare(page, tmp_path)
    shown = re.findall(r"(?m)^    \$ pagewise (.*)\n((?:(?: {4}.*)?\n)+)", page.read_text())
    assert len(shown) == SHOWN[stem]
    for command, output in shown:
        run = subprocess.run(
            [sys.executable, "-m", "pagewise", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr
        # A terminal aligns and wraps what a pipe does not.
        rest = " ".join(run.stdout.split())
        parts = [" ".join(part.split()) for part in re.split(r"(?m)^ {4}\.\.\.$", output)]
        for words in filter(None, parts):
            _, is_found, rest = rest.partition(words)
            assert is_found, f"{command} does not print: {words}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page.stem in LONG else ()) for page in TOURS],
    ids=lambda page: page.stem,
)
def test_the_commands_of_a_tutorial_run(page: Path, tmp_path: Path) -> None:
    prepare(page, tmp_path)
    tour = [words for words in lines(page) if not (READERS_OWN | ELSEWHERE) & set(words)]
    assert tour
    for words in tour:
        arguments, output = (words[:-2], words[-1]) if ">" in words else (words, "shown")
        with (tmp_path / output).open("w") as shown:
            run = subprocess.run(
                [sys.executable, "-m", "pagewise", *arguments],
                cwd=tmp_path,
                stdout=shown,
                stderr=subprocess.PIPE,
                text=True,
                timeout=600,
            )
        assert run.returncode == 0, (words, run.stderr)
        assert (tmp_path / output).stat().st_size > 0, words
        diagnostics = [
            line for line in run.stderr.splitlines() if not any(words in line for words in EXPECTED)
        ]
        assert not any("warning" in line for line in diagnostics), (words, run.stderr)


def studied() -> list[Path]:
    """The pages that `pagewise study` wrote."""
    pages = (ROOT / "docs" / "studies").glob("*.md")
    return [page for page in pages if "\nMade by `pagewise study" in page.read_text()]


def shipped() -> set[str]:
    """The sha256 of every file in examples/ and of every run in docs/studies/runs/."""
    folders = (ROOT / "examples", ROOT / "docs" / "studies" / "runs")
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_a_study_names_its_files_that_do_not_ship() -> None:
    there = shipped()
    for page in studied():
        _, _, again = page.read_text().partition("\n## Run it again\n")
        made_on = re.findall(r"^- `.+`, sha256 `(\w{64})`$", again, re.MULTILINE)
        assert made_on or page.stem == "README", page.name
        says_so = re.search(r"\b(does|do) not ship\b", again) is not None
        assert says_so == bool(set(made_on) - there), page.name


def test_a_page_about_the_filler_calls_it_a_filler() -> None:
    """`need-56` and the like are lab/python/need.py, which stands for an application of a size."""
    for page in PAGES:
        if re.search(r"\bneed-\d", text := page.read_text()):
            assert "filler" in text and "lab/python/need.py" in text, page.name
