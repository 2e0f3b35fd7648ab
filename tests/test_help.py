"""Help texts: readable at any width, without names of Python's types, with examples to paste."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from commands import ran
from lazy_programs import AGENT

from pagewise import cli
from pagewise.commands import COMMANDS, elsewhere

TYPES = re.compile(r"<[^<>\s][^<>]*>|\b((bool|str|int|float)\b|list\[)|BOOLEAN|INTEGER")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with the words that select it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


ALL = dict(commands(typer.main.get_command(cli.app_of(COMMANDS))))


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_names_no_type_and_breaks_no_command(
    path: tuple[str, ...],
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert shutil.get_terminal_size().columns == columns
    status, text, diagnostics = ran(*path, "--help", capsys=capsys)
    assert (status, diagnostics) == (0, "")
    prose, _, examples = text.partition("\nExamples:\n")
    assert not TYPES.search(prose), TYPES.search(prose)
    # The shell removes a backslash at the end of a line, unless it is within single quotes.
    joined = examples.replace("\\\n", "")
    result = [shlex.split(line) for line in joined.splitlines() if line]
    assert result == [shlex.split(line) for line in (ALL[path].epilog or "").splitlines()]
    assert columns < 80 or all(len(line) <= columns for line in examples.splitlines())
    result = [" ".join(words) for words in result]
    assert all(example.removeprefix("sudo ").startswith("pagewise ") for example in result)
    # Only lines that cannot be wrapped, such as a long option, exceed the width.
    wide = [line for line in prose.splitlines()[1:] if len(line) > columns]
    words = [re.sub(r"`[^`]*`", "`command`", line).split() for line in wide]
    assert all(len(line) <= 2 for line in words), wide
    broken = [line for line in text.splitlines() if line.count("`") % 2]
    assert not broken
    beside = [line for line in text.splitlines() if len(line) > columns and "`" in line]
    alone = re.compile(r"\s*\S*`[^`]+`\S*")
    assert all(alone.fullmatch(line) for line in beside), beside


def test_every_option_of_a_command_is_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for path, command in ALL.items():
        _, text, _ = ran(*path, "--help", capsys=capsys)
        for param in command.params:
            names = [param.metavar] if param.param_type_name == "argument" else param.opts
            assert all(name in text for name in names), (path, names)


def test_all_missing_arguments_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    result = 0
    for path, command in ALL.items():
        required = [param for param in command.params if param.required]
        if not required or not hasattr(command, "callback"):
            continue
        result += 1
        status, output, diagnostics = ran(*path, capsys=capsys)
        assert (status, output) == (2, ""), path
        first, *rest = diagnostics.splitlines()
        for param in required:
            name = param.metavar if param.param_type_name == "argument" else param.opts[-1]
            assert name in first and any(name in line for line in rest), (path, name)
        assert f"see: pagewise {' '.join(path)} --help" in rest[-1]
    assert result > 10


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for path in ((), ("advise",), ("pagesize",)):
        status, output, diagnostics = ran(*path, capsys=capsys)
        assert (status, diagnostics) == (2, "") and output.startswith("Usage: pagewise")


def test_the_names_of_the_agent_are_all_its_commands_and_none_of_pagewise() -> None:
    assert not set(elsewhere.OF_AGENT) & {row.name for row in COMMANDS}
    if AGENT.exists():
        text = subprocess.check_output([AGENT, "--help"], text=True, timeout=300)
        _, _, rows = text.partition("\nCommands:\n")
        names = re.findall(r"(?m)^ {2}(\w+)", rows.partition("\n\n")[0])
        assert sorted(names) == sorted([*elsewhere.OF_AGENT, "help"])


@pytest.mark.parametrize("path", [(), ("advise",), ("advise", "zram")], ids=" ".join)
def test_help_before_a_command_is_its_help(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("help", *path, capsys=capsys) == ran(*path, "--help", capsys=capsys)
