/* Random sequences of calls that the preload library serves, every answer checked: what is promised
 * to be zero is zero, what was written is found again, alignments hold, and no two live pieces share
 * a page. Ends with status 1 and the seed at the first departure.
 * Usage: lazy_calls SEED STEPS THREADS FORKS */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 24, PAGE = 4096 };

struct slot {
    unsigned char *data;
    size_t size;
    uint64_t mark;
    int is_mapped;
};

struct worker {
    uint64_t random;
    uint64_t seed;
    long steps;
    int forks;
    struct slot slots[SLOTS];
};

static uint64_t next(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static void fail(const struct worker *worker, const char *what)
{
    fprintf(stderr, "%s (seed %llu)\n", what, (unsigned long long)worker->seed);
    _exit(1);
}

/* 4 KiB to 4 MiB, each doubling as likely as the others, or one of few that recur. */
static size_t any_size(struct worker *worker)
{
    if (next(worker) % 2)
        return (size_t)(16 + 2 * (next(worker) % 6)) * PAGE;
    size_t size = (size_t)PAGE << next(worker) % 10;
    return size + next(worker) % size;
}

static size_t pages_of(size_t size)
{
    return (size + PAGE - 1) / PAGE;
}

/* The first word of each page, as far as it is inside. */
static void write_marks(struct slot *slot, size_t from)
{
    for (size_t at = from / PAGE * PAGE; at + 8 <= slot->size; at += PAGE) {
        uint64_t word = slot->mark + at;
        memcpy(slot->data + at, &word, 8);
    }
}

static void check_marks(struct worker *worker, const struct slot *slot, size_t size)
{
    for (size_t at = 0; at + 8 <= size; at += PAGE) {
        uint64_t word;
        memcpy(&word, slot->data + at, 8);
        if (word != slot->mark + at)
            fail(worker, "what was written is not found again");
    }
}

static void check_zeros(struct worker *worker, const unsigned char *data, size_t size)
{
    if (size > 0 && (data[0] != 0 || memcmp(data, data + 1, size - 1) != 0))
        fail(worker, "memory promised to be zero is not");
}

static void fill(struct worker *worker, struct slot *slot)
{
    slot->mark = next(worker);
    /* Dirty every page in several places, so that what is not zeroed shows. */
    for (size_t at = 100; at < slot->size; at += 1000)
        slot->data[at] = 0xa5;
    write_marks(slot, 0);
}

static void release(struct worker *worker, struct slot *slot)
{
    if (slot->data == NULL)
        return;
    check_marks(worker, slot, slot->size);
    if (slot->is_mapped) {
        if (munmap(slot->data, slot->size) != 0)
            fail(worker, "munmap failed");
    } else {
        errno = 77;
        free(slot->data);
        if (errno != 77)
            fail(worker, "free changed errno");
    }
    slot->data = NULL;
}

static void allocate(struct worker *worker, struct slot *slot)
{
    slot->size = any_size(worker);
    slot->is_mapped = 0;
    size_t alignment = (size_t)16 << next(worker) % 16;
    switch (next(worker) % 4) {
    case 0:
        slot->data = malloc(slot->size);
        break;
    case 1:
        slot->data = calloc(slot->size, 1);
        if (slot->data != NULL)
            check_zeros(worker, slot->data, slot->size);
        break;
    case 2:
        slot->data = aligned_alloc(alignment, slot->size);
        if ((uintptr_t)slot->data % alignment != 0)
            fail(worker, "aligned_alloc is not aligned");
        break;
    default:
        if (posix_memalign((void **)&slot->data, alignment, slot->size) != 0)
            slot->data = NULL;
        if ((uintptr_t)slot->data % alignment != 0)
            fail(worker, "posix_memalign is not aligned");
    }
    if (slot->data == NULL || (uintptr_t)slot->data % 16 != 0)
        fail(worker, "an allocation failed");
    if (malloc_usable_size(slot->data) < slot->size)
        fail(worker, "malloc_usable_size is too small");
    fill(worker, slot);
}

static void map(struct worker *worker, struct slot *slot)
{
    slot->size = pages_of(any_size(worker)) * PAGE;
    slot->is_mapped = 1;
    slot->data = mmap(NULL, slot->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot->data == MAP_FAILED)
        fail(worker, "mmap failed");
    check_zeros(worker, slot->data, slot->size);
    fill(worker, slot);
}

static void reallocate(struct worker *worker, struct slot *slot)
{
    size_t size = any_size(worker), kept = size < slot->size ? size : slot->size;
    unsigned char *data = realloc(slot->data, size);
    if (data == NULL)
        fail(worker, "realloc failed");
    slot->data = data;
    check_marks(worker, slot, kept);
    slot->size = size;
    write_marks(slot, 0);
}

static void remap(struct worker *worker, struct slot *slot)
{
    size_t size = pages_of(any_size(worker)) * PAGE, kept = size < slot->size ? size : slot->size;
    int flags = next(worker) % 3 ? MREMAP_MAYMOVE : 0;
    unsigned char *data = mremap(slot->data, slot->size, size, flags);
    if (data == MAP_FAILED) {
        /* The kernel moves no range whose pages differ in attributes. */
        if (errno != EFAULT && (flags || errno != ENOMEM))
            fail(worker, "mremap failed");
        return;
    }
    slot->data = data;
    check_marks(worker, slot, kept);
    check_zeros(worker, data + kept, size - kept);
    slot->size = size;
    write_marks(slot, 0);
}

/* A part from the front or the back goes, or one from the middle, whose rest behind goes too. */
static void unmap_part(struct worker *worker, struct slot *slot)
{
    size_t pages = slot->size / PAGE;
    if (pages < 3)
        return;
    size_t cut = 1 + next(worker) % (pages - 2);
    switch (next(worker) % 3) {
    case 0:
        munmap(slot->data, cut * PAGE);
        slot->data += cut * PAGE;
        slot->mark += cut * PAGE;
        slot->size -= cut * PAGE;
        break;
    case 1:
        slot->size -= cut * PAGE;
        munmap(slot->data + slot->size, cut * PAGE);
        break;
    default: {
        size_t behind = pages - cut - 1;
        munmap(slot->data + cut * PAGE, PAGE);
        munmap(slot->data + (cut + 1) * PAGE, behind * PAGE);
        slot->size = cut * PAGE;
    }
    }
    check_marks(worker, slot, slot->size);
}

/* Attributes that stay with addresses; the next owner of these addresses must not see them. */
static void change_attributes(struct worker *worker, struct slot *slot)
{
    unsigned char *start = (unsigned char *)((uintptr_t)(slot->data + PAGE - 1) / PAGE * PAGE);
    if (slot->data + slot->size < start + PAGE)
        return;
    size_t length = (slot->data + slot->size - start) / PAGE * PAGE;
    check_marks(worker, slot, slot->size);
    switch (next(worker) % 5) {
    case 0:
        /* Freed while read-only. */
        if (!slot->is_mapped)
            return;
        mprotect(start, length, PROT_READ);
        munmap(slot->data, slot->size);
        slot->data = NULL;
        return;
    case 1:
        mprotect(start, length, PROT_NONE);
        mprotect(start, length, PROT_READ | PROT_WRITE);
        return;
    case 2:
        madvise(start, length, MADV_DONTFORK);
        madvise(start, length, MADV_DOFORK);
        return;
    case 3:
        mlock(start, PAGE);
        return;
    default:
        /* Refused where a page is locked. */
        if (madvise(start, length, MADV_DONTNEED) == 0)
            check_zeros(worker, start, length);
        fill(worker, slot);
    }
}

/* Asks for a place, gives it back, and maps there: allowed as long as no other thread was given it, so
 * only where no other thread allocates. */
static void map_over(struct worker *worker, struct slot *slot)
{
    release(worker, slot);
    map(worker, slot);
    unsigned char *place = slot->data;
    size_t size = slot->size;
    if (next(worker) % 2)
        munmap(place, size);
    slot->data = mmap(place, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (slot->data != place)
        fail(worker, "MAP_FIXED failed");
    check_zeros(worker, slot->data, size);
    fill(worker, slot);
}

static void fork_and_check(struct worker *worker)
{
    pid_t child = fork();
    if (child < 0)
        fail(worker, "fork failed");
    if (child == 0) {
        for (int at = 0; at < SLOTS; at++)
            release(worker, &worker->slots[at]);
        for (int round = 0; round < 40; round++) {
            struct slot *slot = &worker->slots[round % 4];
            release(worker, slot);
            (round % 2 ? map : allocate)(worker, slot);
        }
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail(worker, "the child of a fork failed");
}

static int is_alone;

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (long step = 0; step < worker->steps; step++) {
        struct slot *slot = &worker->slots[next(worker) % SLOTS];
        uint64_t kind = next(worker) % 16;
        if (worker->forks > 0 && next(worker) % 100 == 0) {
            worker->forks--;
            fork_and_check(worker);
        } else if (slot->data == NULL || kind < 6) {
            release(worker, slot);
            (next(worker) % 2 ? map : allocate)(worker, slot);
        } else if (kind < 9) {
            release(worker, slot);
        } else if (kind == 9 && is_alone) {
            map_over(worker, slot);
        } else if (kind < 12) {
            change_attributes(worker, slot);
        } else if (!slot->is_mapped) {
            reallocate(worker, slot);
        } else {
            (kind < 14 ? remap : unmap_part)(worker, slot);
        }
    }
    for (int at = 0; at < SLOTS; at++)
        release(worker, &worker->slots[at]);
    return NULL;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    uint64_t seed = strtoull(words[1], NULL, 10);
    int threads = atoi(words[3]);
    is_alone = threads == 1;
    struct worker *workers = calloc(threads, sizeof *workers);
    pthread_t *handles = calloc(threads, sizeof *handles);
    for (int at = 0; at < threads; at++) {
        workers[at].seed = seed;
        workers[at].random = (seed * 64 + at) * 0x9E3779B97F4A7C15 + 1;
        workers[at].steps = atol(words[2]);
        workers[at].forks = atoi(words[4]);
        if (pthread_create(&handles[at], NULL, work, &workers[at]) != 0)
            return 2;
    }
    for (int at = 0; at < threads; at++)
        pthread_join(handles[at], NULL);
    return 0;
}
