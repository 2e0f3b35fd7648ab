// Operations on mappings: each region of pages has a slot.
#define _GNU_SOURCE
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
static const size_t PLACES[] = {0, 1000, PAGE - 8};

int any_protection(uint64_t number)
{
    static const int protections[] = {
        PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE,
        PROT_READ | PROT_EXEC,  PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ,
    };
    return protections[number % 8];
}

static size_t any_pages(uint64_t number)
{
    uint64_t rest = number >> 8;
    switch (number % 8) {
    case 0: case 1: return 1 + rest % 8;
    case 2: case 3: case 4: return 16 + rest % 48;
    case 5: case 6: return 1 + rest % 512;
    default: return rest % 4 ? 32 : 512 + rest % (PAGES_MAX - 512);
    }
}

size_t run_of(const Region *region, size_t *from, size_t count)
{
    if (region->pages == 0)
        return 0;
    size_t first = *from % region->pages;
    while (first < region->pages && region->state[first] != MAPPED)
        first++;
    size_t end = first;
    while (end < region->pages && end - first < count && region->state[end] == MAPPED)
        end++;
    *from = first;
    return end - first;
}

// A run of any length within the slot; its first page in `from`.
static size_t any_run(const Region *region, const uint64_t *numbers, size_t *from)
{
    *from = numbers[1];
    size_t count = numbers[2] % 4 ? 1 + numbers[2] / 4 % 64 : PAGES_MAX;
    return run_of(region, from, count);
}

static void set_state(Region *region, size_t from, size_t count, PageState state)
{
    memset(region->state + from, state, count);
    if (count < region->pages)
        region->is_whole = 0;
}

static uint64_t outcome_value(Outcome outcome)
{
    return (uint64_t)outcome.signal << 16 ^ (uint64_t)outcome.code << 8 ^
           (uint64_t)outcome.distance;
}

uint64_t region_digest(const Region *region)
{
    uint64_t digest = region->pages;
    for (size_t page = 0; page < region->pages; page++) {
        if (region->state[page] == HOLE)
            continue;
        for (size_t place = 0; place < sizeof PLACES / sizeof *PLACES; place++) {
            uint64_t value = 0;
            Outcome outcome = load(region->at + page * PAGE + PLACES[place], &value);
            // A page that a child did not inherit is a hole or inaccessible: the library keeps its
            // addresses.
            if (region->stays[page])
                outcome.code = 0;
            digest = mix(mix(digest, value), outcome_value(outcome));
        }
    }
    return digest;
}

// A file with `pages` pages; each word is computed from its offset.
static int file_of(size_t pages)
{
    int file = memfd_create("pages", MFD_CLOEXEC);
    static const char line[] = "what the file holds";
    for (size_t page = 0; file >= 0 && page < pages; page++)
        if (pwrite(file, line, sizeof line, (off_t)(page * PAGE + PLACES[page % 2])) < 0)
            return -1;
    if (file < 0 || ftruncate(file, (off_t)(pages * PAGE)) != 0)
        return -1;
    return file;
}

static int flags_of(uint64_t kind)
{
    switch (kind % 12) {
    case 0: return MAP_SHARED | MAP_ANONYMOUS;
    case 1: return MAP_PRIVATE;
    case 2: return MAP_SHARED;
    case 3: return ANONYMOUS | MAP_NORESERVE;
    case 4: return ANONYMOUS | MAP_POPULATE;
    case 5: return ANONYMOUS | MAP_STACK;
    default: return ANONYMOUS;
    }
}

// Maps at `at` if `fixed` requires it. In one of four cases a file ends before the last page.
static char *map_pages(char *at, size_t pages, uint64_t kind, int protection, int fixed)
{
    int flags = flags_of(kind), file = -1;
    if (!(flags & MAP_ANONYMOUS))
        file = file_of(kind / 12 % 4 ? pages : pages - 1);
    char *mapped = mmap(at, pages * PAGE, protection, flags | fixed, file, 0);
    if (file >= 0)
        close(file);
    return mapped;
}

static void note_region(Region *region, char *at, size_t pages)
{
    region->at = at;
    region->pages = pages;
    region->is_whole = 1;
    memset(region->state, MAPPED, pages);
    memset(region->stays, 0, pages);
}

void map_region(Region *region, size_t pages, uint64_t kind, int protection)
{
    unmap_region(region);
    errno = 77;
    char *at = map_pages(NULL, pages, kind, protection, 0);
    if (at == MAP_FAILED || errno != 77)
        report("no %zu pages, errno %d", pages, errno);
    if (at == MAP_FAILED)
        return;
    note_region(region, at, pages);
}

void unmap_region(Region *region)
{
    size_t from = 0, count;
    while ((count = run_of(region, &from, PAGES_MAX)) > 0) {
        errno = 77;
        if (munmap(region->at + from * PAGE, count * PAGE) != 0 || errno != 77)
            report("unmapping: errno %d", errno);
        set_state(region, from, count, HOLE);
    }
    region->pages = 0;
}

static Region *region_at(Worker *worker, uint64_t slot)
{
    return &worker->memory->regions[slot % SLOTS];
}

static void act_map(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    int protection = numbers[3] % 4 ? PROT_READ | PROT_WRITE : any_protection(numbers[3] / 4);
    map_region(region, any_pages(numbers[1]), numbers[2], protection);
    report("%zu pages, %016lx", region->pages, region_digest(region));
}

static void act_unmap(Worker *worker, const uint64_t *numbers)
{
    unmap_region(region_at(worker, numbers[0]));
}

static void act_unmap_part(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    int result = munmap(region->at + from * PAGE, count * PAGE);
    report("%zu pages: errno %d", count, error_of(result));
    set_state(region, from, count, HOLE);
    region->is_whole = 0;
}

static void act_write(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    uint64_t digest = 0;
    for (size_t page = from; page < from + count; page++) {
        char *address = region->at + page * PAGE + PLACES[(page + numbers[3]) % 3];
        digest = mix(digest, outcome_value(store(address, numbers[3] + page)));
    }
    report("%zu pages, %016lx", count, digest);
}

static void act_read(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    report("%zu pages, %016lx", region->pages, region_digest(region));
}

static void act_map_over(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    char *at = region->at + from * PAGE;
    int protection = numbers[3] % 4 ? PROT_READ | PROT_WRITE : any_protection(numbers[3] / 4);
    char *mapped = map_pages(at, count, numbers[3] >> 8, protection, MAP_FIXED);
    report("%zu pages, at its place %d, %016lx", count, mapped == at, region_digest(region));
    region->is_whole = 0;
}

static void act_protect(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    int result = mprotect(region->at + from * PAGE, count * PAGE, any_protection(numbers[3]));
    report("%zu pages: errno %d", count, error_of(result));
    region->is_whole = 0;
}

// After MADV_FREE the contents are the old ones or zeros, so write them again before reading them.
static void rewrite(Region *region, size_t from, size_t count)
{
    for (size_t page = from; page < from + count; page++)
        for (size_t place = 0; place < 3; place++)
            store(region->at + page * PAGE + PLACES[place], page);
}

static void act_advise(Worker *worker, const uint64_t *numbers)
{
    static const int advices[] = {
        MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED, MADV_FREE,     MADV_FREE,
        MADV_DONTFORK, MADV_DOFORK,   MADV_DONTFORK, MADV_WIPEONFORK, MADV_KEEPONFORK,
        MADV_WILLNEED, MADV_COLD,     MADV_RANDOM,   MADV_SEQUENTIAL, MADV_NORMAL,
        MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, 22, 23, 12345, MADV_REMOVE,
    };
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    int advice = advices[numbers[3] % (sizeof advices / sizeof *advices)];
    int result = madvise(region->at + from * PAGE, count * PAGE, advice);
    report("%d on %zu pages: errno %d", advice, count, error_of(result));
    region->is_whole = 0;
    // Make protected pages writable, so that they can be written again.
    if (advice == MADV_FREE) {
        mprotect(region->at + from * PAGE, count * PAGE, PROT_READ | PROT_WRITE);
        rewrite(region, from, count);
    }
    if (advice == MADV_DONTFORK)
        memset(region->stays + from, 1, count);
}

static void act_lock(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    char *at = region->at + from * PAGE;
    count = count < 64 ? count : 64;
    int result;
    switch (numbers[3] % 4) {
    case 0: result = mlock(at, count * PAGE); break;
    case 1: result = mlock2(at, count * PAGE, MLOCK_ONFAULT); break;
    default: result = munlock(at, count * PAGE);
    }
    report("%zu pages: errno %d", count, error_of(result));
    region->is_whole = 0;
}

static void act_sync(Worker *worker, const uint64_t *numbers)
{
    static const int flags[] = {MS_SYNC, MS_ASYNC, MS_SYNC | MS_INVALIDATE, MS_SYNC | MS_ASYNC};
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count > 0) {
        int result = msync(region->at + from * PAGE, count * PAGE, flags[numbers[3] % 4]);
        report("errno %d", error_of(result));
    }
}

// Pages that were just written must be in memory.
static void act_incore(Worker *worker, const uint64_t *numbers)
{
    unsigned char incore[64];
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from), present = 0, written = 0;
    count = count < sizeof incore ? count : sizeof incore;
    if (count == 0)
        return;
    for (size_t page = from; page < from + count; page++)
        written += store(region->at + page * PAGE, 5).signal == 0;
    int result = mincore(region->at + from * PAGE, count * PAGE, incore);
    for (size_t page = 0; page < count; page++)
        present += incore[page] & 1;
    report("errno %d, written ones are present %d", error_of(result), present >= written);
}

// The rights of each page in /proc/self/maps, and whether the page is shared.
static void act_look_up(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    FILE *maps = fopen("/proc/self/maps", "re");
    uint64_t digest = 1;
    char *begin, *end, rights[8], line[512];
    size_t found = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%p-%p %7s", (void **)&begin, (void **)&end, rights) != 3)
            continue;
        for (size_t page = 0; page < region->pages; page++) {
            char *at = region->at + page * PAGE;
            if (region->state[page] == MAPPED && begin <= at && at < end) {
                digest = mix(digest, (uint64_t)rights[0] << 24 | (uint64_t)rights[1] << 16 |
                                         (uint64_t)rights[2] << 8 | (uint64_t)rights[3]);
                found++;
            }
        }
    }
    fclose(maps);
    report("%zu pages, %016lx", found, digest);
}

// The kernel reads and writes memory for the program.
static void act_pipe(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    int ends[2];
    if (count == 0 || pipe(ends) != 0)
        return;
    char *at = region->at + from * PAGE;
    ssize_t put = write(ends[1], at, PAGE);
    int put_errno = error_of(put);
    ssize_t got = put > 0 ? read(ends[0], at + (count - 1) * PAGE, PAGE) : 0;
    report("put %zd, errno %d, got %zd, errno %d", put, put_errno, got, error_of(got));
    close(ends[0]);
    close(ends[1]);
}

// Arguments that the kernel refuses.
static void act_refused(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]);
    size_t from, count = any_run(region, numbers, &from);
    if (count == 0)
        return;
    char *at = region->at + from * PAGE;
    long result = 0;
    errno = 0;
    switch (numbers[3] % 12) {
    case 0: result = (long)mmap(NULL, 0, PROT_READ, ANONYMOUS, -1, 0); break;
    case 1: result = (long)mmap(NULL, SIZE_MAX / 2, PROT_READ, ANONYMOUS, -1, 0); break;
    case 2: result = (long)mmap(at + 1, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0); break;
    case 3: result = (long)mmap(NULL, 20 * PAGE, PROT_READ, MAP_PRIVATE, -1, 0); break;
    case 4: result = (long)mmap(NULL, 20 * PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0); break;
    case 5: result = munmap(at + 1, PAGE); break;
    case 6: result = munmap(at, 0); break;
    case 7: result = mprotect(at + 8, PAGE, PROT_READ); break;
    case 8: result = madvise(at + 8, PAGE, MADV_DONTNEED); break;
    case 9: result = (long)mremap(at, PAGE, 0, MREMAP_MAYMOVE); break;
    case 10: result = (long)mremap(at + 8, PAGE, PAGE, MREMAP_MAYMOVE); break;
    default: result = (long)mremap(at, PAGE, PAGE, MREMAP_FIXED, at); break;
    }
    report("errno %d", error_of(result));
}

static void act_remap(Worker *worker, const uint64_t *numbers)
{
    Region *region = region_at(worker, numbers[0]), *other = region_at(worker, numbers[1]);
    size_t old = region->pages, pages = any_pages(numbers[2]), from = 0;
    if (!region->is_whole || old == 0 || region == other)
        return;
    char *at = region->at, *moved = MAP_FAILED;
    errno = 0;
    switch (numbers[3] % 6) {
    case 0:
        pages = 1 + pages % old;
        moved = mremap(at, old * PAGE, pages * PAGE, 0);
        break;
    case 1: case 2:
        moved = mremap(at, old * PAGE, pages * PAGE, MREMAP_MAYMOVE);
        break;
    case 3: {
        // Move over pages of another region.
        pages = run_of(other, &from, old);
        if (pages == 0)
            return;
        char *place = other->at + from * PAGE;
        moved = mremap(at, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        report("over %zu pages: errno %d, %d", pages, error_of((long)moved), moved == place);
        if (moved != MAP_FAILED)
            set_state(region, 0, pages, HOLE);
        region->is_whole = other->is_whole = 0;
        return report("%016lx", region_digest(other));
    }
    default: {
        // Map twice: with MREMAP_DONTUNMAP, or a second mapping of shared memory.
        int is_again = numbers[3] % 6 == 5;
        unmap_region(other);
        // With MREMAP_DONTUNMAP the last argument is a hint to the kernel.
        int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
        moved = is_again ? mremap(at, 0, old * PAGE, MREMAP_MAYMOVE)
                         : mremap(at, old * PAGE, old * PAGE, flags, NULL);
        report("twice: errno %d", error_of((long)moved));
        if (moved != MAP_FAILED) {
            Region made = *region;
            *other = made;
            other->at = moved;
        }
        return report("%016lx, %016lx", region_digest(region), region_digest(other));
    }
    }
    report("%zu to %zu pages: errno %d", old, pages, error_of((long)moved));
    if (moved != MAP_FAILED) {
        region->at = moved;
        region->pages = pages;
        memset(region->state, MAPPED, pages);
        memset(region->stays, 0, pages);
    }
    report("%016lx", region_digest(region));
}

const Kind MAP_KINDS[] = {
    {"map", act_map}, {"unmap", act_unmap}, {"unmap_part", act_unmap_part}, {"write", act_write},
    {"read", act_read}, {"map_over", act_map_over}, {"protect", act_protect},
    {"advise", act_advise}, {"lock", act_lock}, {"sync", act_sync}, {"incore", act_incore},
    {"pipe", act_pipe}, {"map_refused", act_refused}, {"remap", act_remap},
    {"look_up", act_look_up}, {NULL, NULL},
};

void report_memory(Worker *worker)
{
    report_blocks(worker);
    uint64_t digest = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        digest = mix(digest, region_digest(region_at(worker, slot)));
    report("regions %016lx", digest);
}

void release_memory(Worker *worker)
{
    release_blocks(worker);
    for (int slot = 0; slot < SLOTS; slot++)
        unmap_region(region_at(worker, slot));
}

// In a child: forgets pages that it did not inherit, because other mappings may use their addresses.
void forget_not_inherited(Memory *memory)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        Region *region = &memory->regions[slot];
        for (size_t page = 0; page < region->pages; page++)
            if (region->stays[page])
                region->state[page] = HOLE;
    }
}
