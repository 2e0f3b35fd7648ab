"""The help and the refusals of the agent."""

import os
import re
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from lazy_programs import AGENT
from waiting import running, within

pytestmark = pytest.mark.skipif(
    not AGENT.exists(), reason="no pagewise-agent beside this Python: make build"
)

COLUMNS = 80
COMMANDS = {
    "balloon": ["balloon"],
    "completions": ["completions"],
    "doctor": ["doctor"],
    "killd": ["killd"],
    "killd check": ["killd", "check"],
    "killtrace": ["killtrace"],
    "launch": ["launch"],
    "lazy": ["lazy"],
    "manual": ["manual"],
    "pages": ["pages"],
    "record": ["record"],
    "relaunchd": ["relaunchd"],
    "relaunchd check": ["relaunchd", "check"],
    "relaunchd freeze": ["relaunchd", "freeze"],
    "relaunchd thaw": ["relaunchd", "thaw"],
    "swapd": ["swapd"],
}


def ran(*words: str, columns: int = COLUMNS) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(
        [AGENT, *words], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fills_the_lines_of_a_terminal_of_80_columns(name: str) -> None:
    lines = ran(*COMMANDS[name], "--help").stdout.splitlines()
    # clap never wraps the usage.
    assert max(len(line) for line in lines if not line.startswith("Usage:")) <= COLUMNS
    for line, following in pairwise(lines):
        # Examples and options are indented.
        is_paragraph = line[:1].strip() and following[:1].strip() and not line.endswith(":")
        if is_paragraph:
            assert len(line) + 1 + len(following.split()[0]) > COLUMNS, (line, following)


@pytest.mark.parametrize("shell", ["bash", "elvish", "fish", "powershell", "zsh"])
def test_every_shell_gets_completions(shell: str) -> None:
    done = ran("completions", shell)
    assert done.returncode == 0, done.stderr
    assert "killtrace" in done.stdout and "ring-bytes" in done.stdout


def test_a_ring_of_allocations_is_refused(tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "kept")]
    done = ran("record", "--allocations", "--ring", "10min", *output, "--", "true")
    assert done.returncode == 2 and "cannot be used with" in done.stderr, done.stderr


def examples(name: str, columns: int) -> list[str]:
    """The commands in the help of a command, as they are shown at this width."""
    text = ran(*COMMANDS[name], "--help", columns=columns).stdout
    lines = re.findall(r"^(?:  |Example: )(pagewise-agent .*(?:(?<=\\)\n.*)*)", text, re.MULTILINE)
    return [str(line) for line in lines]


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_can_be_pasted(name: str, columns: int) -> None:
    found = examples(name, columns)
    assert found and found == examples(name, 1000)
    for example in found:
        checked = subprocess.run(
            ["bash", "-n"], input=example, capture_output=True, text=True, timeout=60
        )
        assert (checked.returncode, checked.stderr) == (0, ""), example


@pytest.mark.parametrize(
    ("words", "tip"),
    [
        (["lazy", "python3", "-c", "pass"], "pagewise-agent lazy -- PROGRAM"),
        (["lazy", "--mode", "thp", "true"], "pagewise-agent lazy -- PROGRAM"),
        (["record", "-o", "x.pgr", "make"], "pagewise-agent record -o FILE -- PROGRAM"),
    ],
)
def test_a_program_without_dashes_before_it_is_refused_with_a_tip(
    words: list[str], tip: str
) -> None:
    done = ran(*words)
    assert done.returncode == 2
    assert f"put -- before the program: {tip}\n" in done.stderr


def test_other_refusals_have_no_tip_about_dashes() -> None:
    for words in (["lazy", "--moed", "thp"], ["lazy"], ["doctor", "true"]):
        assert "put --" not in ran(*words).stderr


def test_a_signal_ends_a_command_that_waits_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with running([AGENT, "killtrace", "--read", pipe]) as waiter:
        stat = Path(f"/proc/{waiter.pid}/stat")
        assert within(60, lambda: ") S " in stat.read_text())
        waiter.terminate()
        assert waiter.wait(60) == -signal.SIGTERM
