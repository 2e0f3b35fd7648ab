// Operations on addresses that the program has just unmapped. Another thread could map them meanwhile, so
// these are only in serial scripts.
#define _GNU_SOURCE
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
enum { READ_WRITE = PROT_READ | PROT_WRITE };

typedef struct {
    Region *region;
    size_t from, count;
    char *at;
    size_t bytes;
} Hole;

// Unmaps a run of a region. `bytes` is 0 if the region has no run.
static Hole hole_of(Worker *worker, const uint64_t *numbers)
{
    Hole hole = {.region = &worker->memory->regions[numbers[0] % SLOTS], .from = numbers[1]};
    if (!is_serial)
        return hole;
    hole.count = run_of(hole.region, &hole.from, numbers[2] % 4 ? 16 + numbers[2] % 97 : PAGES_MAX);
    hole.at = hole.region->at + hole.from * PAGE;
    hole.bytes = hole.count * PAGE;
    if (hole.bytes > 0 && munmap(hole.at, hole.bytes) != 0)
        report("unmapping failed, errno %d", errno);
    hole.region->is_whole = 0;
    return hole;
}

// Fills the hole with a fresh mapping of the region, which replaces any mapping there.
static void fill(Hole hole)
{
    mmap(hole.at, hole.bytes, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0);
}

static void act_no_replace(Worker *worker, const uint64_t *numbers)
{
    Hole hole = hole_of(worker, numbers);
    if (hole.bytes == 0)
        return;
    int flags = ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *got = mmap(hole.at, hole.bytes, READ_WRITE, flags, -1, 0);
    report("%zu pages: errno %d", hole.count, error_of((long)got));
    char *again = mmap(hole.at, PAGE, READ_WRITE, flags, -1, 0);
    report("again: errno %d", error_of((long)again));
    fill(hole);
}

static void act_hint(Worker *worker, const uint64_t *numbers)
{
    Hole hole = hole_of(worker, numbers);
    if (hole.bytes == 0)
        return;
    char *got = mmap(hole.at, hole.bytes, READ_WRITE, ANONYMOUS, -1, 0);
    report("%zu pages: at the hint %d", hole.count, got == hole.at);
    if (got != hole.at && got != MAP_FAILED)
        munmap(got, hole.bytes);
    fill(hole);
}

static void act_hole_calls(Worker *worker, const uint64_t *numbers)
{
    unsigned char incore[PAGES_MAX];
    Hole hole = hole_of(worker, numbers);
    if (hole.bytes == 0)
        return;
    report("mprotect: errno %d", error_of(mprotect(hole.at, hole.bytes, PROT_READ)));
    report("madvise: errno %d", error_of(madvise(hole.at, hole.bytes, MADV_DONTNEED)));
    report("msync: errno %d", error_of(msync(hole.at, hole.bytes, MS_ASYNC)));
    report("mincore: errno %d", error_of(mincore(hole.at, hole.bytes, incore)));
    report("mlock: errno %d", error_of(mlock(hole.at, hole.bytes)));
    void *moved = mremap(hole.at, hole.bytes, 2 * hole.bytes, MREMAP_MAYMOVE);
    report("mremap: errno %d", error_of((long)moved));
    report("munmap: errno %d", error_of(munmap(hole.at, hole.bytes)));
    fill(hole);
}

static void act_hole_remap(Worker *worker, const uint64_t *numbers)
{
    // Map this before making the hole, otherwise it may be placed there.
    char *source = mmap(NULL, PAGES_MAX * PAGE, READ_WRITE, ANONYMOUS, -1, 0);
    Hole hole = hole_of(worker, numbers);
    store(source, 99);
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    char *moved = hole.bytes ? mremap(source, hole.bytes, hole.bytes, flags, hole.at) : MAP_FAILED;
    uint64_t value = 0;
    if (moved != MAP_FAILED) {
        load(moved, &value);
        report("moved there %d, holds %lu", moved == hole.at, value);
        fill(hole);
    }
    munmap(source + hole.bytes, PAGES_MAX * PAGE - hole.bytes);
}

// A mapping grows into unmapped addresses after it.
static void act_regrow(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    if (!is_serial)
        return;
    size_t pages = 32 + numbers[1] % 200, kept = 1 + numbers[2] % 31;
    char *at = mmap(NULL, pages * PAGE, READ_WRITE, ANONYMOUS, -1, 0);
    store(at, 7);
    munmap(at + kept * PAGE, (pages - kept) * PAGE);
    char *grown = mremap(at, kept * PAGE, pages * PAGE, 0);
    report("%zu to %zu pages in place: errno %d", kept, pages, error_of((long)grown));
    if (grown != MAP_FAILED) {
        uint64_t value = 1;
        Outcome outcome = load(grown + (pages - 1) * PAGE, &value);
        report("the last holds %lu, signal %d", value, outcome.signal);
    }
    munmap(at, pages * PAGE);
}

// A stack grows down to the guard gap above the next mapping, and no page further.
static void act_grow_down(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    if (!is_serial)
        return;
    size_t pages = 300 + numbers[1] % 600, top = 1 + numbers[2] % 8;
    int protection = numbers[3] % 2 ? READ_WRITE : PROT_NONE;
    char *at = mmap(NULL, pages * PAGE, protection, ANONYMOUS, -1, 0);
    int keeps_bottom = numbers[3] / 2 % 2;
    munmap(at + keeps_bottom * PAGE, (pages - (size_t)keeps_bottom) * PAGE);
    if (!keeps_bottom)
        mmap(at, PAGE, protection, ANONYMOUS | MAP_FIXED, -1, 0);
    char *stack = mmap(at + (pages - top) * PAGE, top * PAGE, READ_WRITE,
                       ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    size_t reached = 0;
    Outcome outcome = {0};
    for (char *page = at + (pages - 1) * PAGE; stack != MAP_FAILED && page >= at + PAGE;
         page -= PAGE, reached++)
        if ((outcome = store(page, 1)).signal != 0)
            break;
    report("%zu of %zu pages, then signal %d", reached, pages, outcome.signal);
    munmap(at, pages * PAGE);
}

static void act_attach(Worker *worker, const uint64_t *numbers)
{
    Hole hole = hole_of(worker, numbers);
    if (hole.bytes == 0)
        return;
    int segment = shmget(IPC_PRIVATE, hole.bytes, IPC_CREAT | 0600);
    char *got = shmat(segment, hole.at, 0);
    report("attached there %d, errno %d", got == hole.at, got == (char *)-1 ? errno : 0);
    if (got != (char *)-1) {
        store(got, 3);
        report("detached: errno %d", error_of(shmdt(got)));
    }
    shmctl(segment, IPC_RMID, NULL);
    fill(hole);
}

// One call unmaps two adjacent mappings.
static void act_unmap_across(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    size_t pages = 16 + numbers[1] % 300, half = pages / 2;
    char *at = mmap(NULL, pages * PAGE, READ_WRITE, ANONYMOUS, -1, 0);
    int flags = (numbers[2] % 2 ? MAP_SHARED | MAP_ANONYMOUS : ANONYMOUS) | MAP_FIXED;
    char *over = mmap(at + half * PAGE, half * PAGE, READ_WRITE, flags, -1, 0);
    store(at, 1);
    store(over, 2);
    int result = munmap(at + half / 2 * PAGE, half * PAGE);
    uint64_t first = 0;
    load(at, &first);
    report("errno %d, the first holds %lu", error_of(result), first);
    munmap(at, half / 2 * PAGE);
    munmap(at + (half / 2 + half) * PAGE, (pages - half - half / 2) * PAGE);
}

const Kind HOLE_KINDS[] = {
    {"no_replace", act_no_replace}, {"hint", act_hint}, {"hole_calls", act_hole_calls},
    {"hole_remap", act_hole_remap}, {"regrow", act_regrow}, {"grow_down", act_grow_down},
    {"attach", act_attach}, {"unmap_across", act_unmap_across}, {NULL, NULL},
};
