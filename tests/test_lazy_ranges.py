"""Address ranges under the preload library: refused, reserved, sealed and growing ranges."""

import subprocess
from pathlib import Path

import pytest
from lazy_programs import HUNG_S, NEEDED, compiled, status

pytestmark = NEEDED
MODES = pytest.mark.parametrize("mode", ["fast", "guarded"])

HEAD = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { SIZE = 1 << 20 };
static char *map(void)
{
    return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
"""

BEYOND = r"""
int main(void)
{
    char *blocks[8];
    for (int at = 0; at < 8; at++)
        blocks[at] = memset(map(), at, SIZE);
    size_t lengths[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX - 5000, SIZE_MAX / 2, 0};
    for (int at = 0; at < 5; at++)
        if (munmap(blocks[at], lengths[at]) != -1 || errno != EINVAL)
            return 2;
    for (int at = 0; at < 8; at++)
        if (blocks[at][at * 1000] != at)
            return 3;
    return 0;
}
"""


@MODES
def test_a_range_beyond_all_addresses_is_refused_whole(tmp_path: Path, mode: str) -> None:
    program = compiled(HEAD + BEYOND, tmp_path / "beyond")
    assert status(program, MODE=mode) == (0, "")


# The child asks the kernel for the range that the parent kept from it.
KEPT = r"""
static int child(char *kept)
{
    int file = open("/proc/self/exe", O_RDONLY);
    unsigned char is_there;
    char *there = mmap(kept, 8192, PROT_READ, MAP_PRIVATE, file, 0);
    if (there == MAP_FAILED || there[1] != 'E')
        return 2;
    if (munmap(kept, SIZE) != 0)
        return 3;
    if (there[1] != 'E')
        return 4;
    if (munmap(there, 8192) != 0 || mincore(there, 8192, &is_there) == 0)
        return 5;
    char *next = map();
    return next == MAP_FAILED || next[5] != 0;
}
int main(void)
{
    char *blocks[] = {map(), map(), map()};
    int ended;
    if (madvise(memset(blocks[1], 1, SIZE), SIZE, MADV_DONTFORK) != 0)
        return 8;
    madvise(blocks[2], SIZE, MADV_RANDOM);
    memset(blocks[2], 2, SIZE);
    pid_t forked = fork();
    if (forked == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(blocks[2][7] != 2 ? 9 : child(blocks[1]));
    }
    if (waitpid(forked, &ended, 0) != forked)
        return 10;
    return blocks[1][7] != 1 ? 11 : WIFEXITED(ended) ? WEXITSTATUS(ended) : 12;
}
"""


@MODES
def test_memory_that_children_do_not_inherit_stays_reserved(tmp_path: Path, mode: str) -> None:
    program = compiled(HEAD + KEPT, tmp_path / "kept")
    assert status(program, MODE=mode) == (0, "")


SEALED = r"""
extern int mseal(void *, size_t, unsigned long) __attribute__((weak));
int main(void)
{
    char *sealed = memset(map(), 1, SIZE);
    if (mseal == NULL || mseal(sealed, SIZE, 0) != 0)
        return 9;
    munmap(sealed, SIZE);
    for (int round = 0; round < 20; round++) {
        char *next = map();
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (mmap(next, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) != next || next[5000] != 0)
            return 2;
        memset(next, 3, SIZE);
    }
    return 0;
}
"""


@MODES
def test_sealed_memory_is_never_given_to_another_block(tmp_path: Path, mode: str) -> None:
    program = compiled(HEAD + SEALED, tmp_path / "sealed")
    ended, diagnostics = status(program, MODE=mode)
    if ended == 9:
        pytest.skip("the kernel seals no memory (before Linux 6.10)")
    assert (ended, diagnostics) == (0, "")


GROWN = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
int main(void)
{
    int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
    size_t size = 256 << 10;
    char *data = mmap(NULL, size, open, kind, -1, 0);
    data[5] = 7;
    for (; size < 256UL << 20; size *= 2) {
        /* Blocks the way, so that the mapping has to move. */
        char *between = mmap(NULL, 256 << 10, open, kind, -1, 0);
        data[size - 1] = between[0] = 1;
        data = mremap(data, size, 2 * size, MREMAP_MAYMOVE);
        if (data == MAP_FAILED || data[5] != 7 || data[size - 1] != 1 || data[2 * size - 1] != 0)
            return 2;
    }
    /* Freed parts whose attributes had changed are mapped again. */
    char *parts = mmap(NULL, 64 * 4096, open, kind, -1, 0);
    memset(parts, 3, 64 * 4096);
    for (int page = 0; page < 64; page += 2)
        mprotect(parts + page * 4096, 4096, PROT_READ);
    munmap(parts, 64 * 4096);
    char *again = mmap(NULL, 64 * 4096, open, kind, -1, 0);
    memset(again, 4, 64 * 4096);
    char *other = mremap(again, 64 * 4096, 64 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    return other == MAP_FAILED || other[63 * 4096] != 4 || again[63 * 4096] != 0;
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_a_mapping_grows_step_by_step(tmp_path: Path, mode: str) -> None:
    assert status(compiled(GROWN, tmp_path / "grown"), MODE=mode) == (0, "")


SPLICED = r"""
#include <sys/uio.h>
enum { PART = 60 << 10 };
static int check(int is_block)
{
    int ends[2];
    char *memory = is_block ? malloc(SIZE) : map(), read_back[PART];
    if (pipe(ends) != 0)
        return 1;
    memset(memory, 'a', SIZE);
    struct iovec part = {(char *)(((uintptr_t)memory + 8191) & ~(uintptr_t)4095) + 5, PART - 5};
    if (vmsplice(ends[1], &part, 1, SPLICE_F_GIFT) != PART - 5)
        return 2;
    if (is_block)
        free(memory);
    else
        munmap(memory, SIZE);
    /* The next owner of the memory changes nothing that the pipe holds. */
    for (int step = 0; step < 4; step++) {
        free(memset(calloc(1, SIZE), 'b', SIZE));
        munmap(memset(map(), 'c', SIZE), SIZE);
    }
    if (read(ends[0], read_back, PART) != PART - 5)
        return 3;
    for (int at = 0; at < PART - 5; at++)
        if (read_back[at] != 'a')
            return 4;
    return 0;
}

int main(void)
{
    /* A block first: once glibc has freed one of this size, it serves the next from its heap. */
    int blocks = check(1);
    return blocks ? blocks : check(0);
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_a_pipe_keeps_what_was_spliced_into_it(tmp_path: Path, mode: str) -> None:
    program = compiled(HEAD + SPLICED, tmp_path / "spliced")
    assert subprocess.run([program], timeout=HUNG_S).returncode == 0
    assert status(program, MODE=mode) == (0, "")


SCATTERED = r"""
enum { BLOCKS = 32000, OTHERS = 20000, BLOCK = 256 << 10 };
int main(void)
{
    static char *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++)
        if ((blocks[at] = malloc(BLOCK)) == NULL)
            return 2;
    for (int at = 0; at < BLOCKS; at += 2)
        free(blocks[at]);
    for (int at = 0; at < OTHERS; at++)
        if (mmap(NULL, 4096, at % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            == MAP_FAILED)
            return 3;
    for (int at = 1; at < BLOCKS; at += 2)
        free(blocks[at]);
    return 0;
}
"""


@pytest.mark.slow
def test_a_program_with_thousands_of_free_ranges_can_still_map(tmp_path: Path) -> None:
    program = compiled(HEAD + SCATTERED, tmp_path / "scattered")
    if subprocess.run([program], timeout=HUNG_S).returncode != 0:
        pytest.skip("the kernel grants fewer mappings than usual (vm.max_map_count)")
    for mode in ("fast", "guarded", "thp"):
        assert status(program, MODE=mode) == (0, ""), mode


REFUSED = r"""
int main(void)
{
    int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
    if (mmap(NULL, SIZE, open, kind, -1, 5) != MAP_FAILED || errno != EINVAL)
        return 2;
    char *memory = map(), *other = map();
    munmap(memory, SIZE);
    errno = 0;
    if (pkey_mprotect(memory, SIZE, open, -1) != -1 || errno != ENOMEM)
        return 3;
    return pkey_mprotect(other, SIZE, PROT_READ, -1) != 0 || other[0] != 0;
}
"""


@MODES
def test_calls_that_the_kernel_refuses_are_refused(tmp_path: Path, mode: str) -> None:
    program = compiled(HEAD + REFUSED, tmp_path / "refused")
    assert subprocess.run([program], timeout=HUNG_S).returncode == 0
    assert status(program, MODE=mode) == (0, "")
