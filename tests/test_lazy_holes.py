"""Ranges that a program has unmapped are free for guard gaps and mappings at fixed addresses."""

import signal
import subprocess

import pytest
from lazy_programs import NEEDED, compiled, status

pytestmark = NEEDED

# Modelled on mmap18 of the Linux Test Project: a stack grows downwards into an unmapped range.
STACK = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
enum { PAGE = 4096, GAP = 256 * PAGE, MAPPED = 4 * PAGE, ROOM = 64 * PAGE };
int main(int count, char **words)
{
    int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
    size_t whole = GAP + ROOM + MAPPED + PAGE;
    char *start = mmap(NULL, whole, open, kind, -1, 0);
    memset(start, 1, whole);
    munmap(start, whole);
    char *stack = start + whole - MAPPED;
    if (mmap(stack, MAPPED, open, kind | MAP_FIXED | MAP_GROWSDOWN, -1, 0) != stack)
        return 2;
    /* A mapping below, so that growth ends at a guard gap above it. */
    if (mmap(start, PAGE, open, kind | MAP_FIXED_NOREPLACE, -1, 0) != start)
        return 3;
    size_t depth = words[1][0] == 'g' ? ROOM - 2 * PAGE : GAP + ROOM;
    for (size_t at = 0; at < depth; at += PAGE)
        *(volatile char *)(stack - 1 - at) = 1;
    /* munmap also removes the pages that the stack has grown by. */
    return munmap(start, whole) != 0 || munmap(start, whole) != 0;
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
@pytest.mark.parametrize(("how", "expected"), [("grow", 0), ("overflow", -signal.SIGSEGV)])
def test_a_stack_grows_into_an_unmapped_range_and_stops_at_its_guard_gap(
    tmp_path_factory: pytest.TempPathFactory, mode: str, how: str, expected: int
) -> None:
    program = compiled(STACK, tmp_path_factory.getbasetemp() / "stack")
    assert status(program, how, MODE=mode) == (expected, "")
    assert subprocess.run([program, how], timeout=300).returncode == expected


PLACES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
enum { PAGE = 4096, PAGES = 512, PART = 64 * PAGE };
static int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
#define CHECK(condition) if (!(condition)) return __LINE__ % 200 + 1
int main(void)
{
    char *start = mmap(NULL, PAGES * PAGE, open, kind, -1, 0), *end = start + PAGES * PAGE;
    memset(start, 1, end - start);
    /* A range in use is refused, and keeps its content. */
    CHECK(mmap(start + PART, PART, open, kind | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(errno == EEXIST && start[PART] == 1);
    CHECK(mmap(start + PART, PART, open, kind, -1, 0) != start + PART && start[PART] == 1);
    munmap(start + PART, 2 * PART);
    CHECK(mmap(start + PART, 4 * PART, open, kind | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(errno == EEXIST && start[0] == 1 && start[3 * PART] == 1);
    /* A free range is granted, at a fixed address and as a hint. */
    char *fixed = mmap(start + PART, PART, PROT_READ, kind | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(fixed == start + PART && fixed[0] == 0 && fixed[PART - 1] == 0);
    char *hint = mmap(start + 2 * PART, PART, open, kind, -1, 0);
    CHECK(hint == start + 2 * PART && hint[0] == 0);
    memset(hint, 2, PART);
    CHECK(start[0] == 1 && start[3 * PART] == 1);
    /* A failed call leaves a free range free. */
    munmap(hint, PART);
    CHECK(mmap(hint, PART, open, MAP_SHARED | MAP_FIXED_NOREPLACE, 9999, 0) == MAP_FAILED);
    CHECK(errno == EBADF);
    munmap(start, end - start);
    char *again = mmap(NULL, PAGES * PAGE, open, kind, -1, 0);
    for (char *at = again; at < again + PAGES * PAGE; at += PAGE)
        CHECK(*at == 0);
    return 0;
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_unmapped_addresses_are_granted_and_those_in_use_are_not(
    tmp_path_factory: pytest.TempPathFactory, mode: str
) -> None:
    program = compiled(PLACES, tmp_path_factory.getbasetemp() / "places")
    assert status(program, MODE=mode) == (0, "")
    assert subprocess.run([program], timeout=300).returncode == 0


UNMAPPED = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 512, PART = 64 * PAGE };
static int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
#define CHECK(condition) if (!(condition)) return __LINE__ % 200 + 1
#define FAILS(call, number) CHECK((call) == -1 && errno == number)
int main(void)
{
    unsigned char present[PAGES];
    char *start = mmap(NULL, PAGES * PAGE, open, kind, -1, 0), *hole = start + PART;
    memset(start, 1, PAGES * PAGE);
    munmap(hole, PART);
    FAILS(mincore(hole, PART, present), ENOMEM);
    FAILS(msync(hole, PART, MS_ASYNC), ENOMEM);
    FAILS(madvise(hole, PART, MADV_DONTNEED), ENOMEM);
    FAILS(mlock(hole, PART), ENOMEM);
    /* The call changes the pages before the hole. */
    FAILS(mprotect(start, 2 * PART, PROT_NONE), ENOMEM);
    FAILS(write(1, start, 1), EFAULT);
    CHECK(hole[PART] == 1);
    CHECK(mremap(hole, PART, 2 * PART, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    CHECK(mremap(start, 2 * PART, 3 * PART, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    int segment = shmget(IPC_PRIVATE, PART, 0600);
    CHECK(segment >= 0);
    char *shared = shmat(segment, hole, 0);
    CHECK(shared == hole && shared[0] == 0);
    shared[PART - 1] = 3;
    CHECK(shmat(segment, hole + PART, 0) == (void *)-1 && errno == EINVAL && hole[PART] == 1);
    CHECK(shmat(segment, hole + PART, SHM_REMAP) == hole + PART && hole[2 * PART - 1] == 3);
    return shmctl(segment, IPC_RMID, NULL);
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
def test_calls_on_an_unmapped_range_fail_and_a_segment_attaches_there(
    tmp_path_factory: pytest.TempPathFactory, mode: str
) -> None:
    program = compiled(UNMAPPED, tmp_path_factory.getbasetemp() / "unmapped")
    assert subprocess.run([program], timeout=300).returncode == 0
    assert status(program, MODE=mode) == (0, "")


GROWS = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 7680, KEPT = 8, ROUNDS = 80, WAIT_US = 40000 };
static int kind = MAP_PRIVATE | MAP_ANONYMOUS, open = PROT_READ | PROT_WRITE;
int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        char *at = mmap(NULL, PAGES * PAGE, open, kind, -1, 0);
        memset(at, 1, PAGES * PAGE);
        munmap(at + KEPT * PAGE, (PAGES - KEPT) * PAGE);
        /* The helper starts in free. It takes a millisecond or two to give these pages back. */
        void *volatile block = malloc(100000);
        free(block);
        usleep(round * (WAIT_US / ROUNDS));
        if (mremap(at, KEPT * PAGE, PAGES * PAGE, 0) != at)
            return 1;
        munmap(at, PAGES * PAGE);
    }
    return 0;
}
"""


@pytest.mark.slow
def test_a_mapping_grows_into_pages_that_the_helper_is_giving_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    program = compiled(GROWS, tmp_path_factory.getbasetemp() / "grows")
    assert status(program, LAZY_AFTER="5ms", DISCARD_AFTER="10ms") == (0, "")
    assert subprocess.run([program], timeout=300).returncode == 0
