"""`pagewise --version --json`, and the program that `pagewise remote` takes to a device."""

import json
import os
import tomllib
from pathlib import Path

import pytest
from commands import ran

from pagewise import _core, installed
from pagewise.commands.remote import without_output
from pagewise.errors import PagewiseError
from pagewise.remote import agent_for

ROOT = Path(__file__).parents[1]


def written(path: Path, lines: str) -> Path:
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def test_the_versions_are_those_of_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    status, output, diagnostics = ran("--version", "--json", capsys=capsys)
    assert (status, diagnostics) == (0, "")
    versions = json.loads(output)
    assert versions["schema"] == "pagewise.version/1"
    assert versions["front"] == {"name": project["name"], "version": _core.version()}
    assert versions["core"] == _core.version()
    status, output, _ = ran("--json", "--version", capsys=capsys)
    assert (status, json.loads(output)) == (0, versions)
    assert ran("--version", capsys=capsys)[:2] == (0, f"pagewise {_core.version()}\n")


def test_json_before_a_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--json"], ["--json", "list"]):
        status, output, diagnostics = ran(*words, capsys=capsys)
        assert (status, output) == (2, "") and "--version" in diagnostics


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("echo pagewise-agent 9.8.7", "9.8.7"),
        ("echo another program 9.8.7", None),
        ("exit 3", None),
        ("echo pagewise-agent 9.8.7; exit 1", None),
    ],
)
def test_only_a_working_agent_has_a_version(
    tmp_path: Path, lines: str, version: str | None
) -> None:
    assert installed.answered(str(written(tmp_path / "pagewise-agent", lines))) == version
    assert installed.answered(str(tmp_path / "absent")) is None


def test_the_agent_in_path_counts_if_none_is_beside_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = written(tmp_path / "pagewise-agent", "echo pagewise-agent 1.2.3")
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert installed.versions()["agent"] == {"version": "1.2.3", "path": str(agent)}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["-o", "a.pgr", "--swap"], ("a.pgr", ["--swap"])),
        (["-oa.pgr"], ("a.pgr", [])),
        (["--for", "5s", "--output=a.pgr"], ("a.pgr", ["--for", "5s"])),
        (["--swap", "--", "cc", "-o", "b"], (None, ["--swap", "--", "cc", "-o", "b"])),
        (["-o", "a", "--", "cc", "-o", "b"], ("a", ["--", "cc", "-o", "b"])),
    ],
)
def test_the_output_of_record_is_taken_out(
    options: list[str], found: tuple[str | None, list[str]]
) -> None:
    assert without_output(options) == found


def test_an_output_without_a_file_is_refused() -> None:
    with pytest.raises(PagewiseError, match="-o needs a file"):
        without_output(["--swap", "-o"])


def test_machines_without_an_agent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PagewiseError, match="'riscv64'"):
        agent_for("riscv64", None)
    with pytest.raises(PagewiseError, match="no such file"):
        agent_for("aarch64", str(tmp_path / "absent"))
    program = written(tmp_path / "own", "exit 0")
    assert agent_for("riscv64", str(program)) == program
