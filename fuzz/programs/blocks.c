// Operations of the malloc family and of the C++ operators.
#define _GNU_SOURCE
#include "program.h"

#include "operators.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DENSE_MAX = 1 << 17, MAILBOX = 32 };

// Sizes around every threshold: of bins, of blocks that the C library maps, of the preload library.
static size_t any_size(uint64_t number)
{
    uint64_t rest = number >> 8;
    switch (number % 16) {
    case 0: case 1: case 2: return rest % 1100;
    case 3: case 4: return rest % (64 << 10);
    case 5: return (64 << 10) - 32 + rest % 64;
    case 6: return (128 << 10) - 64 + rest % 128;
    case 7: case 8: case 9: case 10: return (64 << 10) + rest % (1 << 20);
    case 11: case 12: return (size_t)PAGE * (16 + rest % 16);
    case 13: return (1 << 20) + rest % (8 << 20);
    case 14: return rest % 8 == 0 ? (64u << 20) - 8 + rest % 4096 : (256 << 10);
    default: return (size_t)PAGE << rest % 11;
    }
}

static size_t stride(size_t size) { return size <= DENSE_MAX ? 56 : 4096 - 8; }

static uint64_t word_at(const Block *block, size_t at) { return block->mark * 31 + at; }

static void write_from(Block *block, size_t from)
{
    size_t step = stride(block->size);
    for (size_t at = from / step * step; at + 8 <= block->size; at += step) {
        uint64_t word = word_at(block, at);
        memcpy(block->data + at, &word, 8);
    }
    if (block->size > 0)
        block->data[block->size - 1] = (unsigned char)block->mark;
}

// Whether the first `size` bytes of the block have the written contents, checked in steps that depend on
// the size of the block.
static int holds(const Block *block, size_t size)
{
    size_t step = stride(block->size);
    for (size_t at = 0; at + 8 <= size && at + 8 < block->size; at += step) {
        uint64_t word = word_at(block, at);
        if (memcmp(block->data + at, &word, 8) != 0)
            return 0;
    }
    return size < block->size || size == 0 || block->data[size - 1] == (unsigned char)block->mark;
}

static int is_zero(const unsigned char *data, size_t size)
{
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

static void free_block(Block *block)
{
    if (block->data == NULL)
        return;
    int is_intact = holds(block, block->size);
    errno = 77;
    switch (block->origin) {
    case BY_NEW: delete_sized(block->data, block->size); break;
    case BY_NEW_ARRAY: delete_array(block->data); break;
    case BY_NEW_ALIGNED: delete_aligned(block->data, block->alignment); break;
    default: free(block->data);
    }
    int is_kept = errno == 77;
    block->data = NULL;
    if (!is_intact || !is_kept)
        report("freed block: contents %d, errno kept %d", is_intact, is_kept);
}

static void got(Worker *worker, Block *block, void *data, size_t size, uint64_t mark, int code)
{
    (void)worker;
    if (data == NULL) {
        report("none of %zu, errno %d", size, code);
        return;
    }
    *block = (Block){.data = data, .size = size, .mark = mark, .origin = block->origin};
    size_t usable = block->origin == BY_MALLOC ? malloc_usable_size(data) : size;
    report("%zu bytes, aligned %d, usable %d", size, (uintptr_t)data % 16 == 0, usable >= size);
    write_from(block, 0);
}

static Block *emptied(Worker *worker, uint64_t slot)
{
    Block *block = &worker->memory->blocks[slot % SLOTS];
    free_block(block);
    block->origin = BY_MALLOC;
    errno = 0;
    return block;
}

static void act_malloc(Worker *worker, const uint64_t *numbers)
{
    Block *block = emptied(worker, numbers[0]);
    size_t size = any_size(numbers[1]);
    void *data = malloc(size);
    got(worker, block, data, size, numbers[2], errno);
}

static void act_calloc(Worker *worker, const uint64_t *numbers)
{
    Block *block = emptied(worker, numbers[0]);
    size_t count = 1 + numbers[2] % 7, size = any_size(numbers[1]) / count;
    unsigned char *data = calloc(count, size);
    int code = errno;
    if (data != NULL && !is_zero(data, count * size))
        report("not zero");
    got(worker, block, data, count * size, numbers[2], code);
}

static void act_aligned(Worker *worker, const uint64_t *numbers)
{
    Block *block = emptied(worker, numbers[0]);
    size_t size = any_size(numbers[1]), alignment = (size_t)8 << numbers[2] % 16;
    void *data = NULL;
    int code = 0;
    switch (numbers[3] % 5) {
    case 0: data = aligned_alloc(alignment, size); break;
    case 1: code = posix_memalign(&data, alignment, size); break;
    case 2: data = memalign(alignment, size); break;
    case 3: data = valloc(size), alignment = PAGE; break;
    default: data = pvalloc(size), alignment = PAGE;
    }
    report("multiple %d", (uintptr_t)data % alignment == 0);
    got(worker, block, data, size, numbers[2], code ? code : errno);
}

static void act_realloc(Worker *worker, const uint64_t *numbers)
{
    Block *block = &worker->memory->blocks[numbers[0] % SLOTS];
    if (block->origin != BY_MALLOC)
        emptied(worker, numbers[0]);
    Block old = *block;
    size_t size = any_size(numbers[1]);
    size = size ? size : 1;
    errno = 0;
    void *data = numbers[2] % 3 ? realloc(old.data, size) : reallocarray(old.data, 1, size);
    if (data == NULL)
        return report("none of %zu, errno %d", size, errno);
    if (old.data != NULL) {
        Block moved = old;
        moved.data = data;
        report("kept %d", holds(&moved, size < old.size ? size : old.size));
    }
    got(worker, block, data, size, numbers[2], 0);
}

static void act_new(Worker *worker, const uint64_t *numbers)
{
    Block *block = emptied(worker, numbers[0]);
    size_t size = any_size(numbers[1]), alignment = (size_t)16 << numbers[2] % 13;
    void *data;
    switch (numbers[3] % 4) {
    case 0: data = new_plain(size), block->origin = BY_NEW; break;
    case 1: data = new_array(size), block->origin = BY_NEW_ARRAY; break;
    case 2: data = new_nothrow(size), block->origin = BY_NEW; break;
    default: data = new_aligned(size, alignment), block->origin = BY_NEW_ALIGNED;
    }
    got(worker, block, data, size, numbers[2], 0);
    block->alignment = alignment;
    report("multiple %d", block->origin != BY_NEW_ALIGNED || (uintptr_t)data % alignment == 0);
}

static void act_free(Worker *worker, const uint64_t *numbers)
{
    emptied(worker, numbers[0]);
}

// The program may use all bytes that malloc_usable_size returns.
static void act_usable(Worker *worker, const uint64_t *numbers)
{
    Block *block = &worker->memory->blocks[numbers[0] % SLOTS];
    if (block->data == NULL || block->origin != BY_MALLOC)
        return;
    int is_intact = holds(block, block->size);
    size_t usable = malloc_usable_size(block->data);
    memset(block->data + block->size, 0x5a, usable - block->size);
    report("intact %d, %d", is_intact, holds(block, block->size));
}

// Requests that every allocator refuses.
static void act_refused(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    // Volatile variables, because the compiler knows the results of these calls.
    volatile size_t most = SIZE_MAX, half = SIZE_MAX / 2 + 1;
    void *data = NULL;
    errno = 0;
    int code = -1;
    switch (numbers[1] % 7) {
    case 0: data = malloc(most); break;
    case 1: data = malloc(half); break;
    case 2: data = calloc(most, 2); break;
    case 3: data = calloc(half, 2); break;
    case 4: data = reallocarray(NULL, most, 3); break;
    case 5: code = posix_memalign(&data, 24, 100000); break;
    default: code = posix_memalign(&data, 4096, half);
    }
    report("given %d, errno %d, result %d", data != NULL, errno, code);
}

static void act_check(Worker *worker, const uint64_t *numbers)
{
    const Block *block = &worker->memory->blocks[numbers[0] % SLOTS];
    if (block->data != NULL)
        report("intact %d", holds(block, block->size));
}

// Mapping calls on the complete pages inside a block, which must keep its contents.
static void act_inside(Worker *worker, const uint64_t *numbers)
{
    Block *block = &worker->memory->blocks[numbers[0] % SLOTS];
    if (block->data == NULL || block->size < 4 * PAGE || !holds(block, block->size))
        return;
    char *from = (char *)(((uintptr_t)block->data + PAGE - 1) / PAGE * PAGE);
    size_t bytes = (size_t)((char *)block->data + block->size - from) / PAGE * PAGE;
    bytes = numbers[2] % 2 ? bytes : PAGE;
    int result = 0, after = 0, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    switch (numbers[1] % 5) {
    case 0:
        result = madvise(from, bytes, MADV_DONTNEED);
        after = is_zero((unsigned char *)from, bytes);
        break;
    case 1:
        result = mprotect(from, bytes, PROT_READ);
        after = store(from, 1).code;
        mprotect(from, bytes, PROT_READ | PROT_WRITE);
        break;
    case 2:
        result = mlock(from, PAGE);
        after = munlock(from, PAGE);  // The C library may reuse a block that was freed while locked.
        break;
    case 3:
        result = mmap(from, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != from;
        after = is_zero((unsigned char *)from, bytes);
        break;
    default:
        result = madvise(from, bytes, MADV_FREE);
    }
    report("errno %d, then %d", error_of(result), after);
    write_from(block, 0);
}

// Blocks that the next thread to come here frees.
static struct {
    pthread_mutex_t lock;
    Block blocks[MAILBOX];
} mailbox = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void act_hand_over(Worker *worker, const uint64_t *numbers)
{
    if (worker->depth > 0)
        return;  // In a child, another thread may have held the lock at the fork.
    Block *block = &worker->memory->blocks[numbers[0] % SLOTS];
    pthread_mutex_lock(&mailbox.lock);
    Block theirs = mailbox.blocks[numbers[1] % MAILBOX];
    mailbox.blocks[numbers[1] % MAILBOX] = *block;
    pthread_mutex_unlock(&mailbox.lock);
    *block = (Block){0};
    free_block(&theirs);
}

// The results of these calls depend on the allocator, but with every allocator they must do no harm.
static void act_tune(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    switch (numbers[1] % 3) {
    case 0: malloc_trim(0); break;
    case 1: mallinfo2(); break;
    default: mallopt(M_ARENA_MAX, 1 + (int)(numbers[2] % 8));
    }
}

const Kind BLOCK_KINDS[] = {
    {"malloc", act_malloc}, {"calloc", act_calloc}, {"aligned", act_aligned},
    {"realloc", act_realloc}, {"new", act_new}, {"free", act_free}, {"usable", act_usable},
    {"refused", act_refused}, {"check", act_check}, {"hand_over", act_hand_over},
    {"tune", act_tune}, {"inside", act_inside}, {NULL, NULL},
};

void report_blocks(Worker *worker)
{
    int live = 0, intact = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        const Block *block = &worker->memory->blocks[slot];
        live += block->data != NULL;
        intact += block->data != NULL && holds(block, block->size);
    }
    report("%d of %d blocks are intact", intact, live);
}

void release_blocks(Worker *worker)
{
    for (int slot = 0; slot < SLOTS; slot++)
        free_block(&worker->memory->blocks[slot]);
}
