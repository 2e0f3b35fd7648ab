"""The options and defaults in reference pages are those of the commands, and none is missing."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lazy_programs import AGENT
from test_help import ALL

from pagewise import _core

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
    "export": "export.md",
    "demo": "tutorials/recording-to-settings.md",
    "devices probe": "writing-a-device.md",
    "import": "formats.md",
    "info": "formats.md",
    "list": "README.md",
    "misses": "analyses.md",
    "pagesize apply": "page-size.md",
    "pagesize check": "page-size.md",
    "pagesize choose": "page-size.md",
    "pagesize verify": "page-size.md",
    "replay-kills": "replay-kills.md",
    "report": "tutorials/recording-to-settings.md",
    "schema": "results.md",
    "simulate": "architectures.md",
    "slice": "trace-file.md",
    "study": "studies/how-studies-count.md",
    "sweep": "sweep.md",
}


def help_of(command: str) -> str:
    """The help of a command of the agent."""
    words = [str(AGENT), *command.split(), "--help"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def of_agent(command: str) -> list[list[str]]:
    """The options of a command of the agent, each with all its names."""
    found = re.findall(r"(?m)^ +(-[-\w]\S*(?: \S+)*)", help_of(command))
    return [re.findall(r"(?<![\w-])--?[a-z][\w-]*", names) for names in found]


def of_desk(command: str) -> list[list[str]]:
    """The options of a command of `pagewise`, each with all its names."""
    params = ALL[tuple(command.split())].params
    return [
        [*param.opts, *param.secondary_opts]
        for param in params
        if param.param_type_name == "option"
    ]


def defaults_of_agent(command: str) -> dict[str, str]:
    """The default of each option of a command of the agent whose help states it."""
    found = {}
    for option in re.split(r"(?m)^ +(?=--?[a-z])", help_of(command))[1:]:
        text = " ".join(option.split())
        default = re.search(r"\[default: ([^]]+)\]|\bdefault: ([^.;]+)", text)
        if default and (name := LONG.search(text)):
            found[name[0]] = default[1] or default[2].strip()
    return found


def defaults_of_desk(command: str) -> dict[str, str]:
    """The default of each option of a command of `pagewise` that has one, except switches."""
    return {
        name: str(param.default)
        for param in ALL[tuple(command.split())].params
        for name in param.opts
        if param.param_type_name == "option" and param.default not in (None, False, "")
    }


def rows_of_options(page: str) -> Iterator[tuple[list[str], str]]:
    """The options of each row in the tables of options of a page, and the text of the row."""
    text = (DOCS / page).read_text()
    for table in re.findall(r"(?m)^\| option \|.*\n(?:\|.*\n)+", text):
        for row in table.splitlines()[2:]:
            yield LONG.findall(row.split("|")[1]), row


def settings_in(page: str) -> dict[str, str]:
    """The default of each setting in the tables of settings of a page."""
    text = (DOCS / page).read_text()
    found = {}
    for table in re.findall(r"(?m)^\| entry \| default \|.*\n(?:\|.*\n)+", text):
        for row in table.splitlines()[2:]:
            _, name, default, *_ = (cell.strip() for cell in row.split("|"))
            found[name.strip("`")] = default.strip('`"')
    return found


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
    listed = {name for names, _ in rows_of_options(page) for name in names}
    options = [names for command, at in PAGES.items() if at == page for names in of_desk(command)]
    for command, at in AGENTS_PAGES.items():
        options += of_agent(command) if at == page else []
    unknown = listed - {name for names in options for name in names}
    assert not unknown, f"docs/{page} lists options that no command has"


@pytest.mark.skipif(not AGENT.exists(), reason="no pagewise-agent beside this Python: make build")
@pytest.mark.parametrize("page", sorted({*PAGES.values(), *AGENTS_PAGES.values()}))
def test_a_table_of_options_has_the_defaults_of_its_commands(page: str) -> None:
    defaults: dict[str, str] = {}
    for commands, of in ((PAGES, defaults_of_desk), (AGENTS_PAGES, defaults_of_agent)):
        for command, at in commands.items():
            defaults |= of(command) if at == page else {}
    wrong = []
    for names, row in rows_of_options(page):
        text = row.replace("`", "").replace("efault: ", "efault ")
        expected = [defaults[name] for name in names if name in defaults]
        stated = re.findall(r"\b[Dd]efault (?!is\b)", text)
        if len(stated) != len(expected) or not all(
            re.search(rf"\b[Dd]efault {re.escape(default)}(?![\w-])", text) for default in expected
        ):
            wrong.append(f"{row}\nwrite: {', '.join(f'default {each}' for each in expected)}")
    assert not wrong, f"docs/{page}\n" + "\n".join(wrong)


@pytest.mark.skipif(not AGENT.exists(), reason="no pagewise-agent beside this Python: make build")
def test_relaunchds_page_has_the_defaults_of_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[[app]]\nname = "notes"\ncgroup = "/pagewise-tests/notes"\n')
    in_force = re.findall(r"(?m)^  (\w+) = (\S+)$", checked("relaunchd", path))
    listed = settings_in("relaunchd.md")
    assert len(in_force) > 5
    assert {name: listed[name] for name, _ in in_force} == dict(in_force)


@pytest.mark.skipif(not AGENT.exists(), reason="no pagewise-agent beside this Python: make build")
def test_killds_page_has_the_defaults_that_its_check_prints(tmp_path: Path) -> None:
    text, listed = checked("killd", tmp_path), settings_in("killd.md")
    assert f"policy {listed['policy']}: " in text
    names = ("victims", "kills", "reclaim", "dry_run")
    victims, kills, reclaim, dry_run = (listed[name] for name in names)
    assert f"victims {victims}, kills {kills}, reclaim {reclaim}, dry run {dry_run}\n" in text


def checked(command: str, path: Path) -> str:
    """What `check` prints of the settings at a path."""
    words = [str(AGENT), command, "check", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("page", "policies"), [("killd.md", _core.kill_policies), ("analyses.md", _core.policies)]
)
def test_a_page_has_the_defaults_of_policies(page: str, policies: Callable[[], Any]) -> None:
    text = (DOCS / page).read_text()
    options = [
        (policy["name"], option["name"], option["default"])
        for policy in policies()
        for option in policy.get("options", [])
    ]
    assert options
    for policy, name, default in options:
        # In killd.md a section describes a policy, in analyses.md a row of a table.
        section = re.search(rf"(?ms)^### {policy}\n.*?^##", text)
        section = section or re.search(rf"(?m)^\| `{policy}` \|.*", text)
        assert section, f"docs/{page} lacks {policy}"
        stated = re.findall(
            rf"`{name}` \(([\w:,]+)(?: %)?\)|`{name}`[^`]*?(\w+) by default", section[0]
        )
        assert stated, f"docs/{page} lacks the default of {policy}: {name}"
        assert {first or second for first, second in stated} == {default}, (policy, name)
