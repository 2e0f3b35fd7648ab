"""Fresh memory that is mapped before its first touch, and that of programs which leave it alone."""

import os
import re
from pathlib import Path

import pytest
from lazy_programs import MIB, NEEDED, compiled, counters, loaded, running

KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
pytestmark = [
    NEEDED,
    pytest.mark.skipif(KERNEL < (5, 14), reason="needs a kernel with MADV_POPULATE_WRITE (5.14)"),
]
PAGES = MIB // 4096
BLOCKS = 40
MAPPED = PAGES - PAGES // 16
"""Of a fresh block of 1 MiB; the rest is left to the program."""

# Uses a block as the first word says, `whole` or `first` page alone, frees it, and then takes 40
# more at once, which it uses as the second word says.
USES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
enum { SIZE = 1 << 20 };
static char *use(const char *how)
{
    char *data = malloc(SIZE);
    memset(data, 1, how[0] == 'w' ? SIZE : 1);
    return data;
}
int main(int count, char **words)
{
    static char *volatile blocks[40];
    if (count != 3 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
        return 2;
    free(use(words[1]));
    for (int at = 0; at < 40; at++)
        blocks[at] = use(words[2]);
    puts("");
    fflush(stdout);
    return getchar() == EOF;
}
"""


def mapped_and_resident(folder: Path, before: str, after: str, **knobs: str) -> tuple[int, int]:
    """Pages mapped ahead, and bytes of anonymous memory."""
    program = compiled(USES, folder / "uses")
    environment = loaded(LAZY_AFTER="1000s", DISCARD_AFTER="1000s", HELPER="off", **knobs)
    with running([program, before, after], environment) as child:
        assert child.stdout
        child.stdout.readline()
        mapped = int(counters(child.pid)["populated_pages"])
        text = Path(f"/proc/{child.pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    assert found
    return mapped, int(found[1]) << 10


@pytest.mark.parametrize("mode", ["fast", "guarded"])
def test_what_is_touched_whole_is_mapped_ahead(tmp_path: Path, mode: str) -> None:
    mapped, _ = mapped_and_resident(tmp_path, "whole", "whole", MODE=mode)
    # The first of the blocks is the one that was freed.
    assert mapped == (BLOCKS - 1) * MAPPED


def test_what_is_left_alone_is_not_mapped(tmp_path: Path) -> None:
    mapped, resident = mapped_and_resident(tmp_path, "first", "first")
    assert mapped == 0 and resident < 8 * MIB


def test_a_program_that_changes_its_ways_pays_for_one_block(tmp_path: Path) -> None:
    mapped, resident = mapped_and_resident(tmp_path, "whole", "first")
    assert mapped == MAPPED and resident < 8 * MIB


@pytest.mark.parametrize("knobs", [{"FORESIGHT": "off"}, {"MODE": "thp"}])
def test_it_may_be_off(tmp_path: Path, knobs: dict[str, str]) -> None:
    assert mapped_and_resident(tmp_path, "whole", "whole", **knobs)[0] == 0
