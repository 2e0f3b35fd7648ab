"""What a command loads before it answers: bench/start.py measures the time."""

import subprocess
import sys

import pytest

from pagewise.commands import COMMANDS

HEAVY = {
    *("rich", "numpy", "scipy", "jinja2", "pagewise.types", "pagewise.answers"),
    *("pagewise.grids", "pagewise.questions", "pagewise.advice"),
}


def loaded(*arguments: str) -> set[str]:
    """The modules that `pagewise` loads with these arguments."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pagewise", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return {line.rsplit("|", 1)[-1].strip() for line in run.stderr.splitlines()}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_command_and_no_heavy_module(option: str) -> None:
    modules = loaded(option)
    assert "pagewise.cli" in modules
    assert not HEAVY & modules
    assert not {f"pagewise.commands.{row.module}" for row in COMMANDS} & modules


def test_a_command_loads_no_library_that_only_others_need() -> None:
    assert not {"numpy", "scipy", "jinja2", "rich"} & loaded("list", "formats")


@pytest.mark.parametrize("command", ["info", "analyze", "simulate"])
def test_a_command_does_not_load_types_that_only_annotations_need(command: str) -> None:
    assert not {"pagewise.types", "pagewise.answers"} & loaded(command, "--help")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help(row) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pagewise", row.name, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    paragraphs = [" ".join(part.split()) for part in run.stdout.split("\n\n")]
    assert paragraphs[1].startswith(row.summary), row.name


def test_a_command_after_a_double_dash_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pagewise", "--", "list", "formats"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0 and run.stdout.startswith("formats"), run.stderr
