"""`pagewise list`: names and commands to paste are whole on a terminal of any width."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from terminals import HUNG_S, ROOT, on_a_terminal

from pagewise.commands.list_ import FAMILIES

PAGEWISE = Path(sys.executable).with_name("pagewise")


def output_of(*words: str) -> str:
    """What a command writes to a pipe."""
    command = [PAGEWISE, *words]
    return subprocess.check_output(command, cwd=ROOT, text=True, timeout=HUNG_S)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_examples_of_studies_are_whole_lines(columns: int) -> None:
    listed = json.loads(output_of("list", "studies", "--json"))["studies"]
    examples = [study["example"] for study in listed]
    assert examples
    for shown in (
        on_a_terminal([PAGEWISE, "list", "studies"], columns),
        output_of("list", "studies"),
    ):
        missing = [example for example in examples if example not in shown.splitlines()]
        assert not missing, shown


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_word_of_a_list_is_broken(family: str, columns: int) -> None:
    words = output_of("list", family).split()
    shown = on_a_terminal([PAGEWISE, "list", family], columns)
    assert sorted(shown.split()) == sorted(words), shown
    assert "\t" not in shown


def test_the_pages_count_the_examples_that_are_listed() -> None:
    rows = json.loads(output_of("list", "examples", "--json"))["examples"]
    folders = {f"examples/{row['name']}" for row in rows}
    packaged = set((ROOT / "packaging" / "examples.txt").read_text().split())
    assert (len(folders), len(folders & packaged)) == (4, 3)
    assert "(four in the source tree, three in a package)" in (ROOT / "README.md").read_text()
