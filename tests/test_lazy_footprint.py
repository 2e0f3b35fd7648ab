"""What the preload library costs a program by being there."""

import re
import time
from pathlib import Path

from lazy_programs import HUNG_S, LIBRARY, NEEDED, compiled, loaded, running

pytestmark = NEEDED
TABLES_KIB = 128
"""Less than what is kept of 64 MiB in pieces, and more than what is kept of nothing."""

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


def test_a_program_that_holds_nothing_pays_for_nothing(tmp_path: Path) -> None:
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
        hung = time.monotonic() + HUNG_S
        while anonymous_kib(much.pid) > most and time.monotonic() < hung:
            time.sleep(0.05)
        assert anonymous_kib(much.pid) <= most


def test_the_library_brings_no_unwinder_along() -> None:
    code = LIBRARY.read_bytes()
    assert b"libc.so.6" in code and b"libgcc_s" not in code
    assert b"malloc_usable_size" in code and b"9panicking" not in code
