"""The options that reference pages list are those of the commands, and none is missing."""

import re
import subprocess
from pathlib import Path

import pytest
from lazy_programs import AGENT
from test_help import ALL

DOCS = Path(__file__).resolve().parents[1] / "docs"
LONG = re.compile(r"--[a-z][a-z0-9-]*")
EVERYWHERE = {"--help", "--json", "--force"}
"""Options that mean the same in every command."""
READING = {"--as", "--format", "--map"}
"""Options of every command that reads recordings; formats.md explains them."""

AGENTS_PAGES = {
    "balloon": "killd.md",
    "killd": "killd.md",
    "killd check": "killd.md",
    "killtrace": "killtrace.md",
    "launch": "launch-lab.md",
    "lazy": "lazy-unmapping.md",
    "record": "recording.md",
    "relaunchd": "relaunchd.md",
    "relaunchd check": "relaunchd.md",
    "swapd": "swapd.md",
}
PAGES = {
    "advise pagesize": "page-size.md",
    "advise swap": "advise.md",
    "analyze": "analyses.md",
    "capture": "page-size.md",
    "curves": "page-size.md",
    "devices probe": "writing-a-device.md",
    "import": "formats.md",
    "info": "formats.md",
    "misses": "analyses.md",
    "pagesize apply": "page-size.md",
    "pagesize check": "page-size.md",
    "pagesize choose": "page-size.md",
    "pagesize verify": "page-size.md",
    "replay-kills": "replay-kills.md",
    "simulate": "architectures.md",
    "slice": "trace-file.md",
    "sweep": "sweep.md",
}


def of_agent(command: str) -> list[list[str]]:
    """The options of a command of the agent, each with all its names."""
    words = [str(AGENT), *command.split(), "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.findall(r"(?m)^ +(-[-\w]\S*(?: \S+)*)", text)
    return [re.findall(r"(?<![\w-])--?[a-z][\w-]*", names) for names in found]


def of_desk(command: str) -> list[list[str]]:
    """The options of a command of `pagewise`, each with all its names."""
    params = ALL[tuple(command.split())].params
    return [
        [*param.opts, *param.secondary_opts]
        for param in params
        if param.param_type_name == "option"
    ]


def names_in(page: str) -> set[str]:
    """Every name of an option that a page has."""
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", (DOCS / page).read_text()))


def absent(options: list[list[str]], page: str) -> list[list[str]]:
    """The options of which a page has no name."""
    known = names_in(page) | EVERYWHERE | READING
    return [names for names in options if not known & set(names)]


@pytest.mark.parametrize("command", PAGES)
def test_a_page_has_every_option_of_its_command(command: str) -> None:
    options, page = of_desk(command), PAGES[command]
    assert options
    assert not absent(options, page), f"docs/{page} lacks options of pagewise {command}"


@pytest.mark.skipif(not AGENT.exists(), reason="no pagewise-agent beside this Python: make build")
@pytest.mark.parametrize("command", AGENTS_PAGES)
def test_a_page_has_every_option_of_its_command_of_the_agent(command: str) -> None:
    options, page = of_agent(command), AGENTS_PAGES[command]
    assert options
    assert not absent(options, page), f"docs/{page} lacks options of pagewise-agent {command}"


def test_reading_options_are_in_the_page_of_formats() -> None:
    assert names_in("formats.md") >= READING


@pytest.mark.skipif(not AGENT.exists(), reason="no pagewise-agent beside this Python: make build")
@pytest.mark.parametrize("page", sorted({*PAGES.values(), *AGENTS_PAGES.values()}))
def test_a_table_of_options_has_only_options_of_its_commands(page: str) -> None:
    text = (DOCS / page).read_text()
    tables = re.findall(r"(?m)^\| option \|.*\n(?:\|.*\n)+", text)
    listed = {
        name
        for table in tables
        for row in table.splitlines()[2:]
        for name in LONG.findall(row.split("|")[1])
    }
    options = [names for command, at in PAGES.items() if at == page for names in of_desk(command)]
    for command, at in AGENTS_PAGES.items():
        options += of_agent(command) if at == page else []
    unknown = listed - {name for names in options for name in names}
    assert not unknown, f"docs/{page} lists options that no command has"
