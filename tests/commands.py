"""Runs the command line in the process of the test."""

import pytest

from pagewise import cli


def ran(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    status = cli.run([str(argument) for argument in arguments])
    output, diagnostics = capsys.readouterr()
    return status, output, diagnostics
