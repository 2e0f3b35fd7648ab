"""Core files of programs under the preload library."""

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest
from lazy_programs import MIB, NEEDED, compiled, loaded

PATTERN = Path("/proc/sys/kernel/core_pattern")
WHERE = PATTERN.read_text().strip() if PATTERN.exists() else "|"
pytestmark = [
    NEEDED,
    pytest.mark.skipif(
        WHERE.startswith(("|", "/")), reason=f"core files go to {WHERE}, not to the working folder"
    ),
]

ABORTED = r"""
#include <stdlib.h>
#include <string.h>
int main(void)
{
    for (int round = 0; round < 3; round++) {
        char *volatile data = malloc(24 << 20);
        memset(data, 1, 24 << 20);
        free(data);
    }
    char *volatile kept = malloc(40 << 20);
    memset(kept, 1, 40 << 20);
    strcpy(kept + (39 << 20), "the last words of this program");
    __asm__ volatile("" ::"r"(kept) : "memory");
    abort();
}
"""


# Frees many blocks and waits until their memory is discarded. With "again", it then uses some of
# that again, in blocks and mappings that begin and end within excluded memory and behind it. With
# "grow", it only grows a block. Writes how many pages it has marked.
IDLE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { BLOCKS = 200, SIZE = 1000000, PAGE = 4096 };
static int marked;
static char *mark(char *block, size_t size)
{
    for (size_t at = 0; at + PAGE <= size; at += PAGE, marked++)
        sprintf(block + at, "in use: page %d;", marked);
    return block;
}
static void rest(void)
{
    if (getenv("LD_PRELOAD"))
        usleep(2600000);
}
int main(int count, char **words)
{
    static char *blocks[BLOCKS], *kept[20];
    int number = 0;
    if (count > 1 && words[1][0] == 'g')
        kept[number++] = mark(realloc(memset(malloc(SIZE), 1, SIZE), 40 * SIZE), 40 * SIZE);
    for (int at = 0; at < BLOCKS && number == 0; at++)
        blocks[at] = memset(malloc(SIZE), 1, SIZE);
    if (number == 0)
        kept[number++] = mark(malloc(SIZE), SIZE);
    for (int at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    rest();
    for (int round = 0; count > 1 && words[1][0] == 'a' && round < 2; round++) {
        kept[number++] = mark(malloc(300000), 300000);
        kept[number++] = mark(malloc(7 * SIZE), 7 * SIZE);
        kept[number++] = mark(mmap(NULL, 5 << 20, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 5 << 20);
        kept[number++] = mark(realloc(malloc(2 * SIZE), 30 * SIZE), 30 * SIZE);
        free(memset(malloc(3 * SIZE), 1, 3 * SIZE));
        rest();
    }
    FILE *file = fopen("marked", "w");
    fprintf(file, "%d", marked);
    fclose(file);
    __asm__ volatile("" ::"r"(kept) : "memory");
    abort();
}
"""


def core_of(program: Path, folder: Path, environment: dict[str, str], *arguments: str) -> bytes:
    """The core file of the program, which ends by a signal."""
    folder.mkdir()
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited),
        timeout=300,
    )
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("this machine writes no core files")
    return cores[0].read_bytes()


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_core_files_hold_memory_in_use_and_little_else(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, mode: str
) -> None:
    program = compiled(ABORTED, tmp_path_factory.getbasetemp() / "aborted")
    plain = core_of(program, tmp_path / "plain", dict(os.environ))
    hasty = loaded(MODE=mode, DISCARD_AFTER="1ms", LAZY_AFTER="1ms", HELPER="off")
    served = core_of(program, tmp_path / "served", hasty)
    assert b"the last words of this program" in plain and b"the last words" in served
    # The core file may add freed memory and a quarter mapped ahead, but not a chunk of 1 GiB.
    assert len(served) < len(plain) + 48 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", ["fast", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("guarded", "thp"))]
)
@pytest.mark.parametrize("what", ["idle", "again", "grow"])
def test_core_files_of_programs_at_rest_hold_memory_in_use_and_hardly_more(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, mode: str, what: str
) -> None:
    program = compiled(IDLE, tmp_path_factory.getbasetemp() / "idle")
    plain = core_of(program, tmp_path / "plain", dict(os.environ), what)
    hasty = loaded(MODE=mode, DISCARD_AFTER="1ms", LAZY_AFTER="1ms")
    served = core_of(program, tmp_path / "served", hasty, what)
    marked = int((tmp_path / "served" / "marked").read_text())
    for core in (plain, served):
        pages = set(re.findall(rb"in use: page (\d+);", core))
        assert pages >= {b"%d" % page for page in range(marked)}
    # A quarter of 40 MB may be included ahead of use.
    assert len(served) < len(plain) + 12 * MIB
