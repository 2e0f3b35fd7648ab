"""Fresh memory that is mapped before its first touch, and programs that do not touch it."""

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
"""Pages mapped ahead of a fresh block of 1 MiB; the program touches the rest first."""

# Allocates a block, touches all of it or its first page, as the first word says, and frees it. Then
# allocates 40 blocks together, and touches them as the second word says.
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
    """Runs the program; returns the pages mapped ahead, and the bytes of anonymous memory."""
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
def test_blocks_that_are_touched_whole_are_mapped_ahead(tmp_path: Path, mode: str) -> None:
    mapped, _ = mapped_and_resident(tmp_path, "whole", "whole", MODE=mode)
    # The first of the blocks reuses the freed block.
    assert mapped == (BLOCKS - 1) * MAPPED


def test_blocks_that_are_not_touched_are_not_mapped_ahead(tmp_path: Path) -> None:
    mapped, resident = mapped_and_resident(tmp_path, "first", "first")
    assert mapped == 0 and resident < 8 * MIB


def test_only_one_block_is_mapped_ahead_if_a_program_stops_touching_blocks(tmp_path: Path) -> None:
    mapped, resident = mapped_and_resident(tmp_path, "whole", "first")
    assert mapped == MAPPED and resident < 8 * MIB


@pytest.mark.parametrize("knobs", [{"FORESIGHT": "off"}, {"MODE": "thp"}])
def test_mapping_ahead_can_be_turned_off(tmp_path: Path, knobs: dict[str, str]) -> None:
    assert mapped_and_resident(tmp_path, "whole", "whole", **knobs)[0] == 0
