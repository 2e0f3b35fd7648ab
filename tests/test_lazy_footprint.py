"""The cost of the preload library for a program that hardly allocates."""

import os
import re
import time
from pathlib import Path

import pytest
from lazy_programs import LIBRARY, NEEDED, compiled, holder, loaded, running, wait_until

pytestmark = NEEDED
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
TABLES_KIB = 128
"""More than a program without blocks keeps, and less than the tables for 64 MiB in pieces take."""

USE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void use(long mib)
{
    static char *blocks[64];
    for (int at = 0; at < mib; at++)
        memset(blocks[at] = malloc(1 << 20), 1, 1 << 20);
    for (int at = 0; at < mib; at += 2)
        free(blocks[at]);
    for (int at = 1; at < mib; at += 2)
        free(blocks[at]);
}
int main(int count, char **words)
{
    use(count > 1 ? atol(words[1]) : 0);
    puts("");
    fflush(stdout);
    return getchar() == EOF;
}
"""


def anonymous_kib(process: int) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    assert found
    return int(found[1])


def test_a_program_that_freed_all_blocks_keeps_no_memory_for_them(tmp_path: Path) -> None:
    program = compiled(USE, tmp_path / "use")
    knobs = {"LAZY_AFTER": "10ms", "DISCARD_AFTER": "20ms"}
    with (
        running([program, "0"], loaded(**knobs)) as little,
        running([program, "64"], loaded(**knobs)) as much,
    ):
        for child in (little, much):
            assert child.stdout
            child.stdout.readline()
        most = anonymous_kib(little.pid) + TABLES_KIB
        wait_until(lambda: anonymous_kib(much.pid) <= most)


def helpers(process: int) -> list[Path]:
    """The library's threads, found by name, which a thread sets after its start."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [task for task in tasks if (task / "comm").read_text() == "pagewise-lazy\n"]


@pytest.mark.skipif(KERNEL < (5, 9), reason="needs close_range, of Linux 5.9")
def test_the_program_sees_no_file_of_the_library() -> None:
    own = {"0", "1", "2"}
    with holder() as child:
        wait_until(lambda: bool(helpers(child.pid)))
        [helper] = helpers(child.pid)
        # Wait until the library's thread has its own table of file descriptors.
        wait_until(lambda: not own <= {file.name for file in (helper / "fd").iterdir()})
        for _ in range(20):
            assert {file.name for file in Path(f"/proc/{child.pid}/fd").iterdir()} == own
            time.sleep(0.01)


def test_the_library_needs_no_unwinder() -> None:
    code = LIBRARY.read_bytes()
    assert b"libc.so.6" in code and b"libgcc_s" not in code
    assert b"malloc_usable_size" in code and b"9panicking" not in code
